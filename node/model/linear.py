"""A weight with the product that multiplies by it: layers call it, and know of no format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from kernels.linear import linear, prepare

# (x [N, I], data, scale, bias) to y [N, O] in the type of x.
Product = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(frozen=True, slots=True)
class Linear:
    """y = x · Wᵀ + bias, for a weight W of [O, I].

    data   W, as its kind keeps it
    scale  what data is to be multiplied by, as its kind keeps it; None where data is W
    bias   [O] in the type of x, or None
    kind   the product that reads them
    """

    data: Tensor
    scale: Tensor | None
    bias: Tensor | None
    kind: Product

    def __call__(self, x: Tensor) -> Tensor:
        """[N, I] to [N, O], in the type of x."""
        return self.kind(x, self.data, self.scale, self.bias)


def dense(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Of a weight [O, I] in the model's type, laid out as its device multiplies fastest; the plain one may go."""
    return Linear(prepare(weight), None, bias, dense_product)


def dense_product(x: Tensor, data: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    return linear(x, data, bias)
