"""Logits of ids that a constraint forbids become −inf, in place.

    logits[rows[m], v] = −inf  where bit v of bits[m] is 0

M masked rows among S, V ids, W words of 32 bits with W·32 ≥ V; bit v % 32 of word v // 32 stands for id v.
A row of −1 fills up a captured step and masks nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank
from kernels.device import jit, launch, tl, uses_triton

TILE = 4096  # ids a program: only the forbidden ones are written, and nothing but the words is read


def reference(logits: Tensor, rows: Tensor, bits: Tensor) -> None:
    shifts = torch.arange(32, dtype=torch.int32, device=bits.device)
    allowed = (bits[:, :, None] >> shifts & 1).flatten(1)[:, : logits.shape[1]].bool()
    rows, allowed = rows[rows >= 0], allowed[rows >= 0]
    logits[rows] = logits[rows].masked_fill(~allowed, float("-inf"))


def mask_logits(logits: Tensor, rows: Tensor, bits: Tensor) -> None:
    """logits [S, V] float32; rows [M] int64, none twice but −1; bits [M, W] int32. Raises ValueError."""
    check_rank("logits", logits, "SV")
    check_rank("bits", bits, "MW")
    check("logits", logits, tuple(logits.shape), FLOAT32)
    check("rows", rows, (bits.shape[0],), INDEX)
    check("bits", bits, tuple(bits.shape), (torch.int32,))
    if bits.shape[1] * 32 < logits.shape[1]:
        raise ValueError(f"bits: {bits.shape[1]} words hold fewer than {logits.shape[1]} bits")
    if not uses_triton(logits):
        reference(logits, rows, bits)
        return
    vocabulary, words = logits.shape[1], bits.shape[1]
    grid = (-(-vocabulary // TILE), len(rows))
    launch(mask_logits_kernel, grid, logits, vocabulary, rows, bits, words, TILE=TILE, num_warps=4)


@jit(do_not_specialize_on_alignment=["rows_ptr"])
def mask_logits_kernel(logits_ptr, vocabulary, rows_ptr, bits_ptr, words, TILE: tl.constexpr):
    m = tl.program_id(1).to(tl.int64)
    row = tl.load(rows_ptr + m)
    v = tl.program_id(0) * TILE + tl.arange(0, TILE)
    word = tl.load(bits_ptr + m * words + v // 32, mask=v < vocabulary, other=-1)
    forbidden = ((word >> (v % 32)) & 1) == 0
    tl.store(logits_ptr + row * vocabulary + v, float("-inf"), mask=forbidden & (v < vocabulary) & (row >= 0))
