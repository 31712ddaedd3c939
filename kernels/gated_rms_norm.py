"""The norm at the end of a gated delta layer.

    y[n, h, v] = o[n, h, v] / sqrt(mean_v o[n, h, v]² + eps) · w[v] · silu(z[n, h, v])

N tokens, Hv heads, Dv wide. The norm precedes the gate, and all of it is float32 until the last cast.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOAT32, FLOATS, check, check_rank
from kernels.device import jit, launch, tl, triton, up_to_power_of_2, uses_triton

VALUES = 2048  # a program: a few heads, so that 128 threads have 16 values each


def reference(o: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = o.float()
    unit = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
    gate = F.silu(z.float()).view(o.shape)
    return unit.mul_(weight).mul_(gate).to(z.dtype).flatten(1)


def gated_rms_norm(o: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return y [N, Hv·Dv] in the type of z.

    o       [N, Hv, Dv]  float32, contiguous
    z       [N, Hv·Dv]   float32, bfloat16 or float16; may be a slice of wider rows
    weight  [Dv]         float32
    """
    check_rank("o", o, "NHD")
    tokens, heads, width = o.shape
    check("o", o, o.shape, FLOAT32)
    check("z", z, (tokens, heads * width), FLOATS, strided=True)
    check("weight", weight, (width,), FLOAT32)
    if uses_triton(o):
        y = torch.empty(tokens, heads * width, dtype=z.dtype, device=z.device)
        columns = up_to_power_of_2(width)
        together = max(VALUES // columns, 1)
        form = {"HV": heads, "DV": width, "HEADS": together, "COLUMNS": columns}
        launch(
            gated_rms_norm_kernel,
            (tokens, triton.cdiv(heads, together)),
            o,
            z,
            weight,
            y,
            z.stride(0),
            eps,
            **form,
            num_warps=4,
        )
        return y
    return reference(o, z, weight, eps)


@jit()
def gated_rms_norm_kernel(
    o_ptr,
    z_ptr,
    weight_ptr,
    y_ptr,
    z_stride,
    eps,
    HV: tl.constexpr,
    DV: tl.constexpr,
    HEADS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    n = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    v = tl.arange(0, COLUMNS)[None, :]
    inside = (h < HV) & (v < DV)
    at = h * DV + v
    wide = tl.load(o_ptr + n * HV * DV + at, mask=inside, other=0.0)
    gate = tl.load(z_ptr + n * z_stride + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight_ptr + v, mask=v < DV, other=0.0)
    unit = wide * tl.rsqrt(tl.sum(wide * wide, axis=1, keep_dims=True) / DV + eps)
    tl.store(y_ptr + n * HV * DV + at, unit * w * gate * tl.sigmoid(gate), mask=inside)
