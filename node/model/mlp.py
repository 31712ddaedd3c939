"""The gated MLP of a layer."""

from __future__ import annotations

from torch import Tensor

from kernels.linear import linear
from kernels.swiglu import swiglu
from node.model.weights import MlpWeights


class Mlp:
    """down(silu(gate x) · up x)"""

    def __init__(self, weights: MlpWeights) -> None:
        self._weights = weights

    def forward(self, x: Tensor) -> Tensor:
        """[N, H] to [N, H]."""
        return linear(swiglu(linear(x, self._weights.gate_up)), self._weights.down)
