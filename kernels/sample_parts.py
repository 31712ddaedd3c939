"""One pass over logits, which every row's choice begins with: where the peaks are, and how much lies in each part.

    peaks[s, j] = max l[s, v] over v // 256 = j;     mass[s, p] = Σ exp((l[s, v] − m) / τ_s) over v // 4096 = p

with m the largest logit of the part, τ the temperature, 1 where it is 0. Ids from `vocabulary` on are −∞. What follows
reads a few parts, where a sort would move the whole vocabulary several times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.device import jit, launch, tl

PART = (
    4096  # a program's ids: 61 programs a row of the 248k vocabulary, so that one row fills half the device
)
PEAK = 256  # 970 peaks a row: the 20 likeliest ids are above the 20th highest peak, and few others are


def parts(logits: Tensor, temperature: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """(peaks [S, 16 P], mass [S, P]) float32, of CUDA tensors (or under the interpreter)."""
    rows, count = logits.shape[0], -(-vocabulary // PART)
    peaks = torch.empty(rows, count * (PART // PEAK), device=logits.device)
    mass = torch.empty(rows, count, device=logits.device)
    launch(
        sample_parts_kernel,
        (count, rows),
        *(logits, logits.stride(0), temperature, vocabulary, peaks, mass),
        PART=PART,
        PEAK=PEAK,
        num_warps=8,
    )
    return peaks, mass


@jit()
def weights(row_ptr, ids, vocabulary, top, temperature):
    """exp((l − top) / temperature) of ids, 0 for what may not be chosen; never more than 1."""
    logits = tl.load(row_ptr + ids, mask=ids < vocabulary, other=float("-inf"))
    return tl.where(logits > float("-inf"), tl.exp((logits - top) / temperature), 0.0)


@jit(do_not_specialize_on_alignment=["temperature_ptr"])
def sample_parts_kernel(
    logits_ptr,
    stride,
    temperature_ptr,
    vocabulary,
    peaks_ptr,
    mass_ptr,
    PART: tl.constexpr,
    PEAK: tl.constexpr,
):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    count = tl.num_programs(0)
    ids = part * PART + tl.arange(0, PART)
    x = tl.load(logits_ptr + row * stride + ids, mask=ids < vocabulary, other=float("-inf"))
    highest = tl.max(tl.reshape(x, [PART // PEAK, PEAK]), 1)
    tl.store(peaks_ptr + (row * count + part) * (PART // PEAK) + tl.arange(0, PART // PEAK), highest)
    temperature = tl.load(temperature_ptr + row)
    temperature = tl.where(temperature > 0, temperature, 1.0)
    weight = tl.where(x > float("-inf"), tl.exp((x - tl.max(highest)) / temperature), 0.0)
    tl.store(mass_ptr + row * count + part, tl.sum(weight))
