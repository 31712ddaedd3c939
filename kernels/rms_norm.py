"""Residual add and root mean square norm (Zhang and Sennrich, arXiv 1910.07467).

    t = x + residual;  y[n, h] = t[n, h] / sqrt(mean_h t[n, h]² + eps) · scale[h]

N rows of H. Two forms of scale: Qwen2 and Qwen3 store it as it is, and round y to the model's type before the
product; Qwen3.5 stores it less one, and stays in float32 until after the product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOATS, check, check_rank
from kernels.device import jit, launch, tl, up_to_power_of_2, uses_triton


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
    if uses_triton(x):
        rows, width = x.shape
        y, total = torch.empty_like(x), x if residual is None else torch.empty_like(x)
        # One program a row: the row stays in registers between its sum and its product.
        columns = up_to_power_of_2(width)
        form = {"H": width, "COLUMNS": columns, "ZERO_CENTRED": zero_centred}
        warps = min(max(columns // 512, 1), 16)  # 16 values a thread, two 16-byte loads
        launch(rms_norm_kernel, (rows,), x, residual, weight, y, total, eps, **form, num_warps=warps)
        return y, total
    return reference(x, residual, weight, eps, zero_centred)


@jit()
def rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    y_ptr,
    total_ptr,
    eps,
    H: tl.constexpr,
    COLUMNS: tl.constexpr,
    ZERO_CENTRED: tl.constexpr,
):
    n = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, COLUMNS)
    inside = h < H
    t = tl.load(x_ptr + n * H + h, mask=inside, other=0.0).to(tl.float32)
    if residual_ptr is not None:
        t += tl.load(residual_ptr + n * H + h, mask=inside, other=0.0).to(tl.float32)
        stored = t.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + n * H + h, stored, mask=inside)
        t = stored.to(tl.float32)
    w = tl.load(weight_ptr + h, mask=inside, other=0.0)
    unit = t * tl.rsqrt(tl.sum(t * t) / H + eps)
    tl.store(y_ptr + n * H + h, scaled(unit, w, ZERO_CENTRED), mask=inside)


@jit()
def scaled(unit, weight, ZERO_CENTRED: tl.constexpr):
    """unit · scale in the type of weight, rounded where each form rounds; unit is float32."""
    if ZERO_CENTRED:
        return (unit * (1.0 + weight.to(tl.float32))).to(weight.dtype)
    return (unit.to(weight.dtype).to(tl.float32) * weight.to(tl.float32)).to(weight.dtype)
