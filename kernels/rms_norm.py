"""Residual add and root mean square norm (Zhang and Sennrich, arXiv 1910.07467).

    t = x + residual;  y[n, h] = t[n, h] / sqrt(mean_h t[n, h]² + eps) · scale[h]

N rows of H. Two forms of scale: Qwen2 and Qwen3 store it as it is, and round y to the model's type before the
product; Qwen3.5 stores it less one, and stays in float32 until after the product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOATS, check, check_rank


def reference(
    x: Tensor, residual: Tensor | None, weight: Tensor, eps: float, zero_centred: bool
) -> tuple[Tensor, Tensor]:
    total = x if residual is None else x + residual
    return normalise(total, weight, eps, zero_centred), total


def normalise(x: Tensor, weight: Tensor, eps: float, zero_centred: bool) -> Tensor:
    """The norm alone, over the last dimension of x."""
    wide = x.float()
    unit = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
    if zero_centred:
        return unit.mul_(1.0 + weight.float()).to(x.dtype)
    return unit.to(x.dtype) * weight


def rms_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, eps: float, zero_centred: bool
) -> tuple[Tensor, Tensor]:
    """Return (y [N, H], t [N, H]), both in the type of x. Without a residual, t is x itself.

    x, residual  [N, H]  float32, bfloat16 or float16, contiguous, one type
    weight       [H]     the same type
    """
    check_rank("x", x, "NH")
    check("x", x, x.shape, FLOATS)
    if residual is not None:
        check("residual", residual, x.shape, (x.dtype,))
    check("weight", weight, x.shape[1:], (x.dtype,))
    return reference(x, residual, weight, eps, zero_centred)
