"""The gated unit of the MLP (Shazeer, arXiv 2002.05202).

y[n, i] = silu(x[n, i]) · x[n, I + i]        N tokens, I wide; gate and up come merged.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, check, check_rank


def reference(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def swiglu(gate_up: Tensor) -> Tensor:
    """Return y [N, I] in the type of gate_up [N, 2·I] (float32, bfloat16 or float16, contiguous)."""
    check_rank("gate_up", gate_up, "NI")
    check("gate_up", gate_up, gate_up.shape, FLOATS)
    if gate_up.shape[1] % 2:
        raise ValueError(f"gate_up: shape {list(gate_up.shape)}, expected an even number of columns")
    return reference(gate_up)
