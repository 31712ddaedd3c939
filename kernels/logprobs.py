"""Log probabilities of the chosen ids and of the n likeliest of each row.

    log p[s, v] = l[s, v] − ln Σ_v exp l[s, v];   chosen[s] = log p[s, ids[s]];   best: the n largest, equals by id

S rows over V ids, float32, of the logits as they are given: a caller decides whether penalties and temperature count.
The Triton kernel holds a tournament per row: the winner of the 970 peaks (see sample_parts) is next, and of its 256 ids
the likeliest one after it becomes their new peak. n rounds read n · 1 KiB, whatever the distribution.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank
from kernels.device import jit, launch, tl, up_to_power_of_2, uses_triton
from kernels.sample_parts import PART, PEAK, parts


def reference(logits: Tensor, ids: Tensor, n: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    logits = logits[:, :vocabulary].log_softmax(-1)
    ranked = logits.sort(dim=-1, descending=True, stable=True)  # topk leaves the order of equals open
    return logits.gather(1, ids[:, None])[:, 0], ranked.values[:, :n], ranked.indices[:, :n]


def logprobs(logits: Tensor, ids: Tensor, n: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (chosen float32 [S], values float32 [S, n], their ids int64 [S, n], likeliest first). Raises ValueError.

    Where fewer than n ids are more than −∞, the values behind them are −∞ and their ids mean nothing.

    logits      [S, V]  float32, contiguous
    ids         [S]     int64, below vocabulary
    n           how many of the likeliest, 0 to vocabulary; meant for 20 and fewer
    vocabulary  ids from here on are padding of the table; at most V
    """
    check_rank("logits", logits, "SV")
    rows = logits.shape[0]
    check("logits", logits, logits.shape, FLOAT32)
    check("ids", ids, (rows,), INDEX)
    if not 0 < vocabulary <= logits.shape[1]:
        raise ValueError(f"vocabulary: {vocabulary}, expected 1 to {logits.shape[1]}")
    if not 0 <= n <= vocabulary:
        raise ValueError(f"n: {n}, expected 0 to {vocabulary}")
    if not uses_triton(logits):
        return reference(logits, ids, n, vocabulary)
    peaks, mass = parts(logits, torch.ones(rows, device=logits.device), vocabulary)
    chosen, values = (torch.empty(*shape, device=logits.device) for shape in ((rows,), (rows, n)))
    best = torch.empty(rows, n, dtype=torch.int64, device=logits.device)
    launch(
        logprobs_kernel,
        (rows,),
        *(logits, logits.stride(0), ids, vocabulary, peaks, mass, mass.shape[1], n, chosen, values, best),
        PART=PART,
        PEAK=PEAK,
        PEAKS=up_to_power_of_2(peaks.shape[1]),
        num_warps=4,
    )
    return chosen, values, best


@jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["ids_ptr"])
def logprobs_kernel(
    logits_ptr,
    stride,
    ids_ptr,
    vocabulary,
    peaks_ptr,
    mass_ptr,
    parts,
    n,
    chosen_ptr,
    values_ptr,
    best_ptr,
    PART: tl.constexpr,
    PEAK: tl.constexpr,
    PEAKS: tl.constexpr,
):
    s = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + s * stride
    A_PART: tl.constexpr = PART // PEAK
    j, part = tl.arange(0, PEAKS), tl.arange(0, PEAKS // A_PART)
    peak = tl.load(peaks_ptr + s * parts * A_PART + j, mask=j < parts * A_PART, other=float("-inf"))
    top = tl.max(peak)
    highest = tl.max(tl.reshape(peak, [PEAKS // A_PART, A_PART]), 1)
    share = tl.load(mass_ptr + s * parts + part, mask=part < parts, other=0.0)
    total = tl.sum(tl.where(highest > float("-inf"), share * tl.exp(highest - top), 0.0))
    norm = top + tl.log(total)
    tl.store(chosen_ptr + s, tl.load(row_ptr + tl.load(ids_ptr + s)) - norm)
    taken = tl.zeros(
        [PEAKS], tl.int32
    )  # where a group has no id left that is more than −∞, its ids come in order
    for rank in range(n):
        best_peak = tl.max(peak)
        group = tl.min(tl.where(peak == best_peak, j, PEAKS - 1))
        v = group * PEAK + tl.arange(0, PEAK)
        x = tl.load(row_ptr + v, mask=v < vocabulary, other=float("-inf"))
        # The last id taken of this group, −1 for none: what is likelier, or equal and not after it, has been taken.
        last = tl.sum(tl.where(j == group, taken, 0)) - 1
        winner = tl.min(tl.where((x == best_peak) & (v > last), v, vocabulary - 1))
        tl.store(values_ptr + s * n + rank, best_peak - norm)
        tl.store(best_ptr + s * n + rank, winner.to(tl.int64))
        left = (x < best_peak) | ((x == best_peak) & (v > winner))
        following = tl.max(tl.where(left & (v < vocabulary), x, float("-inf")))
        peak = tl.where(j == group, following, peak)
        taken = tl.where(j == group, tl.where(following == best_peak, winner + 1, 0), taken)
