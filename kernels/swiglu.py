"""The gated unit of the MLP (Shazeer, arXiv 2002.05202).

y[n, i] = silu(x[n, i]) · x[n, I + i]        N tokens, I wide; gate and up come merged.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, check, check_rank
from kernels.device import jit, launch, tl, triton, uses_triton

COLUMNS = 1024  # a program: 8 values a thread, one 16-byte load of gate and of up


def reference(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def swiglu(gate_up: Tensor) -> Tensor:
    """Return y [N, I] in the type of gate_up [N, 2·I] (float32, bfloat16 or float16, contiguous)."""
    check_rank("gate_up", gate_up, "NI")
    check("gate_up", gate_up, gate_up.shape, FLOATS)
    if gate_up.shape[1] % 2:
        raise ValueError(f"gate_up: shape {list(gate_up.shape)}, expected an even number of columns")
    if uses_triton(gate_up):
        tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
        y = torch.empty(tokens, width, dtype=gate_up.dtype, device=gate_up.device)
        grid = (tokens, triton.cdiv(width, COLUMNS))
        launch(swiglu_kernel, grid, gate_up, y, I=width, COLUMNS=COLUMNS, num_warps=4)
        return y
    return reference(gate_up)


@jit()
def swiglu_kernel(gate_up_ptr, y_ptr, I: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: E741
    n = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = i < I
    gate = tl.load(gate_up_ptr + n * 2 * I + i, mask=inside).to(tl.float32)
    up = tl.load(gate_up_ptr + n * 2 * I + I + i, mask=inside).to(tl.float32)
    silu = (
        (gate * tl.sigmoid(gate)).to(y_ptr.dtype.element_ty).to(tl.float32)
    )  # rounded where the models round
    tl.store(y_ptr + n * I + i, silu * up, mask=inside)
