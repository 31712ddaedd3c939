"""The gate on the output of full attention in Qwen3.5.

y[n, c] = o[n, c] · sigmoid(g[n, c])        N tokens, C = Nq·D columns.
"""

from __future__ import annotations

from torch import Tensor

from kernels.contract import FLOATS, check, check_rank


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
    return reference(o, gate)
