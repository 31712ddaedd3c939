"""The norm at the end of a gated delta layer.

    y[n, h, v] = o[n, h, v] / sqrt(mean_v o[n, h, v]² + eps) · w[v] · silu(z[n, h, v])

N tokens, Hv heads, Dv wide. The norm precedes the gate, and all of it is float32 until the last cast.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOAT32, FLOATS, check, check_rank


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
    return reference(o, z, weight, eps)
