"""The gate on the output of full attention in Qwen3.5.

y[n, c] = o[n, c] · sigmoid(g[n, c])        N tokens, C = Nq·D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOATS, check, check_rank
from kernels.device import jit, launch, tl, triton, uses_triton

COLUMNS = 1024  # a program: 8 values a thread, one 16-byte load of o and of gate


def reference(o: Tensor, gate: Tensor) -> Tensor:
    return gate.sigmoid().mul_(o)


def output_gate(o: Tensor, gate: Tensor) -> Tensor:
    """Return y [N, C] in the type of o.

    o     [N, C]  float32, bfloat16 or float16, contiguous
    gate  [N, C]  the same type; may be a slice of wider rows
    """
    check_rank("o", o, "NC")
    check("o", o, o.shape, FLOATS)
    check("gate", gate, o.shape, (o.dtype,), strided=True)
    if uses_triton(o):
        y = torch.empty_like(o)
        tokens, width = o.shape
        grid = (tokens, triton.cdiv(width, COLUMNS))
        launch(output_gate_kernel, grid, o, gate, y, gate.stride(0), C=width, COLUMNS=COLUMNS, num_warps=4)
        return y
    return reference(o, gate)


@jit()
def output_gate_kernel(o_ptr, gate_ptr, y_ptr, gate_stride, C: tl.constexpr, COLUMNS: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < C
    g = tl.load(gate_ptr + n * gate_stride + c, mask=inside).to(tl.float32)
    g = tl.sigmoid(g).to(y_ptr.dtype.element_ty).to(tl.float32)  # rounded where the model rounds
    tl.store(y_ptr + n * C + c, tl.load(o_ptr + n * C + c, mask=inside).to(tl.float32) * g, mask=inside)
