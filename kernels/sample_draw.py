"""The Triton kernel of `sample`: one program a row, after the pass of sample_parts. No sort, no host, fixed shapes.

    w_v = exp((l_v − max l) / τ), whose bits as an integer have the order of the weights
    kept = {v: w_v > t} and the first c of {v: w_v = t}, by id;  token = first id where Σ kept w exceeds u · Σ kept w

Without top_k and top_p the mass of the parts says in which part the token lies. Else t is found bit by bit among the
candidates: ids above the k-th highest peak, or where only top_p is asked, above half of the peaks (512 at most). A
row of the 248k vocabulary has some 30 candidates for top_k 20, some 700 for top_p, and registers hold them. Where they
do not fit, or do not reach top_p, the same search passes over the whole row: right for any setting, slow for rare ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.device import jit, launch, tl, up_to_power_of_2
from kernels.sample_parts import PART, PEAK, parts, weights

CANDIDATES = 2048  # 4 registers a thread


def draw_rows(
    logits: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    seeds: Tensor,
    positions: Tensor,
    vocabulary: int,
) -> Tensor:
    """`sample` of CUDA tensors (or under the interpreter), whose contract was checked."""
    rows = logits.shape[0]
    peaks, mass = parts(logits, temperature, vocabulary)
    out = torch.empty(rows, dtype=torch.int64, device=logits.device)
    found = torch.empty(rows, CANDIDATES, device=logits.device)
    found_ids = torch.empty(rows, CANDIDATES, dtype=torch.int32, device=logits.device)
    launch(
        sample_draw_kernel,
        (rows,),
        *(logits, logits.stride(0), temperature, top_k, top_p, seeds, positions, vocabulary),
        *(peaks, mass, mass.shape[1], found, found_ids, out),
        PART=PART,
        PEAK=PEAK,
        PEAKS=up_to_power_of_2(peaks.shape[1]),
        CANDIDATES=CANDIDATES,
        num_warps=16,  # one program a row: all that one multiprocessor can load is wanted where rows are few
    )
    return out


@jit()
def mixed(z):
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@jit()
def uniform(seed, position):
    """`sample.uniforms`; its constants, which have the sign bit, as the negative numbers they are."""
    z = mixed(mixed(seed + -0x61C8864680B583EB) ^ position)
    return ((z >> 40) & 0xFFFFFF).to(tl.float32) * (1.0 / 16777216.0)


@jit()
def bits_of(weight):
    return weight.to(tl.int32, bitcast=True)


@jit()
def weight_of(bits):
    return bits.to(tl.float32, bitcast=True)


@jit()
def short_of(total, u):
    """u · total, but less than total, which rounding might reach and beyond which no id lies."""
    return tl.minimum(u * total, weight_of(tl.maximum(bits_of(total) - 1, 0)))


@jit()
def least_of(bits, weight, enough):
    """The largest t where the weights of bits ≥ t sum to enough; 0 where they never do. Of what is in registers.

    30 bits: no weight is above 1.
    """
    t = 0
    for n in range(30):
        more = t + (1 << (29 - n))
        t = tl.where(tl.sum(tl.where(bits >= more, weight, 0.0)) >= enough, more, t)
    return t


@jit()
def above(row_ptr, vocabulary, top, temperature, t, PART: tl.constexpr):
    """(how many, their sum) of the row's weights with bits ≥ t."""
    count, total = 0, 0.0
    for part in range(tl.cdiv(vocabulary, PART)):
        w = weights(row_ptr, part * PART + tl.arange(0, PART), vocabulary, top, temperature)
        over = bits_of(w) >= t
        count += tl.sum(over.to(tl.int32))
        total += tl.sum(tl.where(over, w, 0.0))
    return count, total


@jit()
def from_row(row_ptr, vocabulary, top, temperature, k, p, mass, u, PART: tl.constexpr):
    """The token by passes over the whole row, for what candidates do not settle."""
    t, total = 1, mass
    ties = vocabulary
    if k > 0:
        t = 0
        for n in range(30):
            more = t + (1 << (29 - n))
            count, _ = above(row_ptr, vocabulary, top, temperature, more, PART)
            t = tl.where(count >= k, more, t)
        t = tl.maximum(t, 1)
        count, over = above(row_ptr, vocabulary, top, temperature, t + 1, PART)
        exact, _ = above(row_ptr, vocabulary, top, temperature, t, PART)
        ties = tl.minimum(k, exact) - count
        total = over + ties * weight_of(t)
    if p < 1.0:
        least = t
        t = 0
        for n in range(30):
            more = t + (1 << (29 - n))
            _, over = above(row_ptr, vocabulary, top, temperature, more, PART)
            t = tl.where((more <= least) | (over >= p * total), more, t)
        count, over = above(row_ptr, vocabulary, top, temperature, t + 1, PART)
        wanted = tl.ceil((p * total - over) / weight_of(t)).to(tl.int32)
        ties = tl.minimum(tl.maximum(wanted, 1), tl.where(t == least, ties, vocabulary))
    token, last, below = vocabulary, 0, 0.0 * mass
    for _ in range(2):  # the sum, then the token
        target = short_of(below, u)
        token, seen, last, below = vocabulary, 0, 0, 0.0 * mass
        for part in range(tl.cdiv(vocabulary, PART)):
            ids = part * PART + tl.arange(0, PART)
            w = weights(row_ptr, ids, vocabulary, top, temperature)
            bits = bits_of(w)
            equal = (bits == t).to(tl.int32)
            keep = (bits > t) | ((bits == t) & (seen + tl.cumsum(equal) <= ties))
            seen += tl.sum(equal)
            w = tl.where(keep, w, 0.0)
            reached = below + tl.cumsum(w)
            token = tl.minimum(token, tl.min(tl.where(keep & (reached > target), ids, vocabulary)))
            last = tl.maximum(last, tl.max(tl.where(keep, ids, 0)))
            below = tl.maximum(below, tl.max(reached))
    return tl.minimum(token, last)


@jit()
def from_candidates(w, ids, k, p, mass, u, CANDIDATES: tl.constexpr):
    """The token among candidates in the order of their ids, with zeros behind them."""
    bits = bits_of(w)
    keep, total = bits > 0, mass
    if k > 0:
        t = tl.maximum(least_of(bits, keep.to(tl.float32), k.to(tl.float32)), 1)
        equal = (bits == t).to(tl.int32)
        ties = k - tl.sum((bits > t).to(tl.int32))
        keep = (bits > t) | ((bits == t) & (tl.cumsum(equal) <= ties))
        total = tl.sum(tl.where(keep, w, 0.0))
    if p < 1.0:
        ranked = tl.where(keep, w, 0.0)
        t = tl.maximum(least_of(bits, ranked, p * total), 1)
        equal = keep & (bits == t)
        over = tl.sum(tl.where(bits > t, ranked, 0.0))
        before = (tl.cumsum(equal.to(tl.int32)) - 1).to(tl.float32) * weight_of(t)
        keep = keep & ((bits > t) | (equal & ((over + before < p * total) | (before == 0.0))))
    reached = tl.cumsum(tl.where(keep, w, 0.0))
    j = tl.arange(0, CANDIDATES)
    last = tl.max(tl.where(keep, j, 0))
    chosen = tl.min(tl.where(keep & (reached > short_of(tl.max(reached), u)), j, last))
    return tl.sum(tl.where(j == chosen, ids, 0))


@jit(
    do_not_specialize_on_alignment=[
        "temperature_ptr",
        "top_k_ptr",
        "top_p_ptr",
        "seeds_ptr",
        "positions_ptr",
        "out_ptr",
    ]
)
def sample_draw_kernel(
    logits_ptr,
    stride,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    seeds_ptr,
    positions_ptr,
    vocabulary,
    peaks_ptr,
    mass_ptr,
    parts,
    found_ptr,
    found_ids_ptr,
    out_ptr,
    PART: tl.constexpr,
    PEAK: tl.constexpr,
    PEAKS: tl.constexpr,
    CANDIDATES: tl.constexpr,
):
    s = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + s * stride
    A_PART: tl.constexpr = PART // PEAK
    PARTS: tl.constexpr = PEAKS // A_PART
    j = tl.arange(0, PEAKS)
    peak = tl.load(peaks_ptr + s * parts * A_PART + j, mask=j < parts * A_PART, other=float("-inf"))
    top = tl.max(peak)
    temperature = tl.load(temperature_ptr + s)
    if temperature == 0:
        at_peak = tl.min(tl.where(peak == top, j, PEAKS - 1)) * PEAK + tl.arange(0, PEAK)
        x = tl.load(row_ptr + at_peak, mask=at_peak < vocabulary, other=float("-inf"))
        token = tl.min(tl.where((x == top) & (at_peak < vocabulary), at_peak, vocabulary - 1))
    else:
        k, p = tl.load(top_k_ptr + s), tl.load(top_p_ptr + s)
        k = tl.where(k < vocabulary, k, 0).to(tl.int32)
        u = uniform(tl.load(seeds_ptr + s), tl.load(positions_ptr + s))
        n = tl.arange(0, PARTS)
        highest = tl.max(tl.reshape(peak, [PARTS, A_PART]), 1)
        share = tl.load(mass_ptr + s * parts + n, mask=n < parts, other=0.0)
        share *= tl.where(highest > float("-inf"), tl.exp((highest - top) / temperature), 0.0)
        reached = tl.cumsum(share)
        total = tl.max(reached)
        if (k <= 0) & (p >= 1.0):
            target = short_of(total, u)
            part = tl.min(tl.where(reached > target, n, PARTS))
            part = tl.minimum(part, tl.max(tl.where(share > 0, n, 0)))
            before = tl.max(tl.where(n < part, reached, 0.0))
            near = part * PART + tl.arange(0, PART)
            w = weights(row_ptr, near, vocabulary, top, temperature)
            token = tl.min(tl.where((w > 0) & (before + tl.cumsum(w) > target), near, vocabulary))
            token = tl.minimum(token, tl.max(tl.where(w > 0, near, 0)))
        else:
            height = tl.where(peak > float("-inf"), tl.exp((peak - top) / temperature), 0.0)
            wanted = tl.where(k > 0, k, tl.minimum(512, parts * A_PART // 2))
            floor = least_of(bits_of(height), tl.full([PEAKS], 1.0, tl.float32), wanted.to(tl.float32))
            floor = tl.where(vocabulary <= CANDIDATES, 1, tl.maximum(floor, 1))
            has = tl.max(tl.reshape(bits_of(height), [PARTS, A_PART]), 1) >= floor
            count = 0
            part = tl.min(tl.where(has, n, PARTS))
            while part < PARTS:
                look = part * PART + tl.arange(0, PART)
                # Of a part only the ids below a peak that is high enough: 256 of 4096 as a rule.
                near = tl.load(peaks_ptr + (s * parts + part) * A_PART + tl.arange(0, A_PART))
                tall = (
                    bits_of(tl.where(near > float("-inf"), tl.exp((near - top) / temperature), 0.0)) >= floor
                )
                tall = tl.reshape(tl.broadcast_to(tall[:, None], [A_PART, PEAK]), [PART])
                weight = weights(row_ptr, tl.where(tall, look, vocabulary), vocabulary, top, temperature)
                pick = bits_of(weight) >= floor
                at = count + tl.cumsum(pick.to(tl.int32)) - 1
                tl.store(found_ptr + s * CANDIDATES + at, weight, mask=pick & (at < CANDIDATES))
                tl.store(found_ids_ptr + s * CANDIDATES + at, look, mask=pick & (at < CANDIDATES))
                count += tl.sum(pick.to(tl.int32))
                part = tl.min(tl.where(has & (n > part), n, PARTS))
            tl.debug_barrier()  # what other threads have stored is read next
            i = tl.arange(0, CANDIDATES)
            kept = tl.load(found_ptr + s * CANDIDATES + i, mask=i < count, other=0.0)
            settled = (k > 0) | (floor == 1) | (tl.sum(kept) >= p * total)
            if settled & (count <= CANDIDATES):
                kept_ids = tl.load(found_ids_ptr + s * CANDIDATES + i, mask=i < count, other=0)
                token = from_candidates(kept, kept_ids, k, p, total, u, CANDIDATES)
            else:
                token = from_row(row_ptr, vocabulary, top, temperature, k, p, total, u, PART)
    tl.store(out_ptr + s, tl.minimum(token, vocabulary - 1).to(tl.int64))
