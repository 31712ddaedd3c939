"""Penalties on ids that a sequence has seen, and biases that its client asked for, in place, before the temperature.

    l[r, v] ← l[r, v] / ρ_r  where l > 0, else l[r, v] · ρ_r      v in the prompt or the output  (Keskar et al. 2019)
    l[r, v] ← l[r, v] − φ_r · n[r, v] − π_r · [n[r, v] > 0]       n: times that v is in the output
    l[r, v] ← l[r, v] + b                                         for K biases b of pairs (r, v)

S rows over V ids; ρ repetition, φ frequency, π presence. The K pairs (row, id) that occurred come as lists; a row of
−1 fills up a captured step and changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank
from kernels.device import jit, launch, tl, uses_triton

TILE = 256  # pairs a program: what is read and written is scattered, so that many small programs hide the way


def reference(logits: Tensor, rows: Tensor, ids: Tensor, counts: Tensor, penalties: Tensor) -> None:
    rows, ids, counts = (x[rows >= 0] for x in (rows, ids, counts))
    repetition, frequency, presence = penalties[:, rows]
    seen = logits[rows, ids]
    seen = torch.where(seen > 0, seen / repetition, seen * repetition)
    logits[rows, ids] = seen - frequency * counts - presence * (counts > 0)


def penalise(logits: Tensor, rows: Tensor, ids: Tensor, counts: Tensor, penalties: Tensor) -> None:
    """Change logits in place. Raises ValueError.

    logits     [S, V]  float32, contiguous
    rows, ids  [K]     int64, no pair twice but for rows of −1
    counts     [K]     int64, times in the output; 0 for an id of the prompt alone
    penalties  [3, S]  float32: repetition (1 for none), frequency and presence (0 for none)
    """
    check_rank("logits", logits, "SV")
    check_rank("rows", rows, "K")
    check("logits", logits, logits.shape, FLOAT32)
    check("rows", rows, rows.shape, INDEX)
    check("ids", ids, rows.shape, INDEX)
    check("counts", counts, rows.shape, INDEX)
    check("penalties", penalties, (3, logits.shape[0]), FLOAT32)
    if not uses_triton(logits):
        reference(logits, rows, ids, counts, penalties)
        return
    given = (logits, *logits.shape, rows, ids, counts, penalties, len(rows))
    launch(penalties_kernel, (-(-len(rows) // TILE),), *given, TILE=TILE, num_warps=4)


def reference_bias(logits: Tensor, rows: Tensor, ids: Tensor, bias: Tensor) -> None:
    rows, ids, bias = (x[rows >= 0] for x in (rows, ids, bias))
    logits[rows, ids] += bias


def add_bias(logits: Tensor, rows: Tensor, ids: Tensor, bias: Tensor) -> None:
    """Add bias [K] float32 to logits in place; the rest as for `penalise`."""
    check_rank("logits", logits, "SV")
    check_rank("rows", rows, "K")
    check("logits", logits, logits.shape, FLOAT32)
    check("rows", rows, rows.shape, INDEX)
    check("ids", ids, rows.shape, INDEX)
    check("bias", bias, rows.shape, FLOAT32)
    if not uses_triton(logits):
        reference_bias(logits, rows, ids, bias)
        return
    given = (logits, logits.shape[1], rows, ids, bias, len(rows))
    launch(bias_kernel, (-(-len(rows) // TILE),), *given, TILE=TILE, num_warps=4)


@jit(
    do_not_specialize=["pairs", "size"],
    do_not_specialize_on_alignment=["rows_ptr", "ids_ptr", "counts_ptr", "penalties_ptr"],
)
def penalties_kernel(
    logits_ptr, size, vocabulary, rows_ptr, ids_ptr, counts_ptr, penalties_ptr, pairs, TILE: tl.constexpr
):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.load(rows_ptr + i, mask=i < pairs, other=-1)
    here = row >= 0
    at = row * vocabulary + tl.load(ids_ptr + i, mask=here, other=0)
    count = tl.load(counts_ptr + i, mask=here, other=0)
    repetition = tl.load(penalties_ptr + row, mask=here, other=1.0)
    frequency = tl.load(penalties_ptr + size + row, mask=here, other=0.0)
    presence = tl.load(penalties_ptr + 2 * size + row, mask=here, other=0.0)
    x = tl.load(logits_ptr + at, mask=here, other=0.0)
    x = tl.where(x > 0, x / repetition, x * repetition)
    x -= frequency * count.to(tl.float32) + tl.where(count > 0, presence, 0.0)
    tl.store(logits_ptr + at, x, mask=here)


@jit(do_not_specialize=["pairs"], do_not_specialize_on_alignment=["rows_ptr", "ids_ptr", "bias_ptr"])
def bias_kernel(logits_ptr, vocabulary, rows_ptr, ids_ptr, bias_ptr, pairs, TILE: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.load(rows_ptr + i, mask=i < pairs, other=-1)
    here = row >= 0
    at = row * vocabulary + tl.load(ids_ptr + i, mask=here, other=0)
    x = tl.load(logits_ptr + at, mask=here, other=0.0) + tl.load(bias_ptr + i, mask=here, other=0.0)
    tl.store(logits_ptr + at, x, mask=here)
