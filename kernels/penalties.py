"""Penalties on ids that a sequence has seen, in place, before the temperature.

    l[r, v] ← l[r, v] / ρ_r  where l > 0, else l[r, v] · ρ_r      v in the prompt or the output  (Keskar et al. 2019)
    l[r, v] ← l[r, v] − φ_r · n[r, v] − π_r · [n[r, v] > 0]       n: times that v is in the output

S rows over V ids; ρ repetition, φ frequency, π presence. The K pairs (row, id) that occurred come as lists.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank


def reference(logits: Tensor, rows: Tensor, ids: Tensor, counts: Tensor, penalties: Tensor) -> None:
    repetition, frequency, presence = penalties[:, rows]
    seen = logits[rows, ids]
    seen = torch.where(seen > 0, seen / repetition, seen * repetition)
    logits[rows, ids] = seen - frequency * counts - presence * (counts > 0)


def penalise(logits: Tensor, rows: Tensor, ids: Tensor, counts: Tensor, penalties: Tensor) -> None:
    """Change logits in place. Raises ValueError.

    logits     [S, V]  float32, contiguous
    rows, ids  [K]     int64, no pair twice
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
    reference(logits, rows, ids, counts, penalties)
