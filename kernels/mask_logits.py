"""Logits of ids that a constraint forbids become −inf, in place.

    logits[rows[m], v] = −inf  where bit v of bits[m] is 0

M masked rows among S, V ids, W words of 32 bits with W·32 ≥ V; bit v % 32 of word v // 32 stands for id v.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank


def reference(logits: Tensor, rows: Tensor, bits: Tensor) -> None:
    places = torch.arange(32, dtype=torch.int32, device=bits.device)
    allowed = (bits[:, :, None] >> places & 1).flatten(1)[:, : logits.shape[1]].bool()
    logits[rows] = logits[rows].masked_fill(~allowed, float("-inf"))


def mask_logits(logits: Tensor, rows: Tensor, bits: Tensor) -> None:
    """logits [S, V] float32; rows [M] int64, none twice; bits [M, W] int32. Raises ValueError."""
    check_rank("logits", logits, "SV")
    check_rank("bits", bits, "MW")
    check("logits", logits, tuple(logits.shape), FLOAT32)
    check("rows", rows, (bits.shape[0],), INDEX)
    check("bits", bits, tuple(bits.shape), (torch.int32,))
    if bits.shape[1] * 32 < logits.shape[1]:
        raise ValueError(f"bits: {bits.shape[1]} words hold fewer than {logits.shape[1]} bits")
    reference(logits, rows, bits)
