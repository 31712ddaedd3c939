"""Attention of one new token a row over the row's pages.

    o[r, h] = Σ_t softmax_t(scale · q[r, h] · K[r, t, h // G]) V[r, t, h // G],   t < context_lengths[r]

R rows, Nq query heads of D, Nk heads of keys and values, G = Nq / Nk. K[r, t] lies in page
page_table[r, t // 64] at offset t mod 64. The softmax is float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, INDEX, check, check_rank
from kernels.device import WIDE, jit, launch, tl, up_to_power_of_2, uses_triton

# The next page is fetched as soon as this one is used, and no earlier: loads whose address is itself loaded get one
# buffer whatever the number. Programs side by side fill the gap: an SM of an H200 holds three at width 256.
STAGES = 2
PROGRAMS = 512  # a launch: about four an SM of an H200, so that rows of unlike length even out
FEWEST_SPLITS, MOST_SPLITS = 2, 32  # one long row must not be one program's; at 2k tokens a row has 32 pages


def reference(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, context_lengths: Tensor, scale: float
) -> Tensor:
    kv_heads, width = k_pages.shape[2:]
    out = torch.empty_like(q)
    for row, length in enumerate(context_lengths.tolist()):
        k, v = (
            pages[page_table[row]].view(-1, kv_heads, width)[:length].float() for pages in (k_pages, v_pages)
        )
        grouped = q[row].view(kv_heads, -1, width).float()
        weight = torch.einsum("hgd,thd->hgt", grouped * scale, k).softmax(dim=-1)
        out[row] = torch.einsum("hgt,thd->hgd", weight, v).reshape(-1, width)
    return out


def gathered(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, context_lengths: Tensor, scale: float
) -> Tensor:
    """The same for all rows at once, padded to the longest. The query heads of one key head stand in the
    query dimension, so that each key and value is read once.

    Padding reads a row's own first token: a slot that nobody wrote may hold NaN, and NaN · 0 is NaN.
    """
    lengths = context_lengths.tolist()
    rows, longest = len(lengths), max(lengths)
    if rows * longest > 2 * sum(lengths):  # one long row among short ones: padding would cost more than calls
        one_by_one = [
            gathered(q[r : r + 1], k_pages, v_pages, page_table[r : r + 1], context_lengths[r : r + 1], scale)
            for r in range(rows)
        ]
        return torch.cat(one_by_one)
    page, kv_heads, width = k_pages.shape[1:]
    used = page_table[:, : -(-longest // page)]
    mask = None
    if min(lengths) == longest:
        k, v = (
            one.index_select(0, used.flatten()).view(rows, -1, kv_heads, width)[:, :longest].transpose(1, 2)
            for one in (k_pages, v_pages)
        )
    else:
        positions = (used[..., None] * page + torch.arange(page, device=q.device)).flatten(1)[:, :longest]
        mask = torch.arange(longest, device=q.device) < context_lengths[:, None]
        positions = torch.where(mask, positions, positions[:, :1]).flatten()
        mask = mask[:, None, None]
        k, v = (
            one.view(-1, kv_heads * width)
            .index_select(0, positions)
            .view(rows, longest, kv_heads, width)
            .transpose(1, 2)
            for one in (k_pages, v_pages)
        )
    grouped = q.view(rows, kv_heads, -1, width)
    return F.scaled_dot_product_attention(grouped, k, v, attn_mask=mask, scale=scale).reshape(q.shape)


def paged_decode_attention(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, context_lengths: Tensor, scale: float
) -> Tensor:
    """Return o [R, Nq, D] in the type of q.

    q                 [R, Nq, D]          float32, bfloat16 or float16, contiguous
    k_pages, v_pages  [pages, 64, Nk, D]  the type of q, contiguous; the new token is in them already
    page_table        [R, P]              int64, pages in order of position
    context_lengths   [R]                 int64, from 1 to P·64
    """
    check_rank("q", q, "RHD")
    check_rank("k_pages", k_pages, "PTHD")
    rows, heads, width = q.shape
    check("q", q, q.shape, FLOATS)
    check("k_pages", k_pages, (*k_pages.shape[:3], width), (q.dtype,))
    check("v_pages", v_pages, k_pages.shape, (q.dtype,))
    if heads % k_pages.shape[2]:
        raise ValueError(f"q: {heads} heads are no multiple of the {k_pages.shape[2]} of k_pages")
    check_rank("page_table", page_table, "RP")
    check("page_table", page_table, (rows, page_table.shape[1]), INDEX, strided=True)
    check("context_lengths", context_lengths, (rows,), INDEX)
    if uses_triton(q):
        return split_and_merged(q, k_pages, v_pages, page_table, context_lengths, scale)
    return gathered(q, k_pages, v_pages, page_table, context_lengths, scale)


def splits_of(rows: int, kv_heads: int) -> int:
    """Into how many programs each row and key head goes: a function of the bucket alone, not of any length."""
    wanted = max(PROGRAMS // (rows * kv_heads), 1)
    return min(max(1 << (wanted.bit_length() - 1), FEWEST_SPLITS), MOST_SPLITS)


def split_and_merged(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, context_lengths: Tensor, scale: float
) -> Tensor:
    """Two kernels (Dao et al., "Flash-Decoding", 2023): attention of each split, then their weighted mean."""
    rows, heads, width = q.shape
    page, kv_heads = k_pages.shape[1:3]
    if width != up_to_power_of_2(width):
        raise ValueError(f"q: heads of {width}, expected a power of 2")
    out = torch.empty_like(q)
    if not rows:
        return out
    splits = splits_of(rows, kv_heads)
    parts = torch.empty(rows, heads, splits, width, dtype=torch.float32, device=q.device)
    logs = torch.empty(rows, heads, splits, dtype=torch.float32, device=q.device)
    group = heads // kv_heads
    form = {"NK": kv_heads, "G": group, "D": width, "PAGE": page, "QUERIES": max(up_to_power_of_2(group), 16)}
    launch(
        decode_attention_kernel, (rows, kv_heads, splits), q, k_pages, v_pages, page_table, context_lengths, parts,
        logs, page_table.stride(0), scale, **form, STAGES=STAGES, WIDE=WIDE, num_warps=4,
    )  # fmt: skip
    launch(merge_splits_kernel, (rows, heads), parts, logs, out, SPLITS=splits, D=width, num_warps=4)
    return out


@jit(
    do_not_specialize=["table_stride"],
    do_not_specialize_on_alignment=["page_table_ptr", "context_lengths_ptr"],
)
def decode_attention_kernel(
    q_ptr, k_pages_ptr, v_pages_ptr, page_table_ptr, context_lengths_ptr, parts_ptr, logs_ptr, table_stride, scale,
    NK: tl.constexpr, G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, QUERIES: tl.constexpr,
    STAGES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """o and log2 Σ exp of one split: a run of the row's pages, for the G query heads of one key head."""
    r, head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    splits = tl.num_programs(2)
    length = tl.load(context_lengths_ptr + r).to(tl.int32)
    pages = tl.cdiv(length, PAGE)
    each = tl.cdiv(pages, splits)
    first = split * each
    last = tl.minimum(first + each, pages)

    g = tl.arange(0, QUERIES)  # tensor cores take 16 rows at least; those beyond G are zeros
    d = tl.arange(0, D)
    t = tl.arange(0, PAGE)
    heads = (r * NK + head) * G + g
    real = g < G
    logs_ptr += heads * splits + split
    if first >= last:
        tl.store(logs_ptr, tl.full([QUERIES], float("-inf"), tl.float32), mask=real)
        return
    q = tl.load(q_ptr + heads[:, None] * D + d[None, :], mask=real[:, None], other=0.0)
    if WIDE:
        q = q.to(tl.float32)
    to_log2 = scale * 1.4426950408889634  # exp2 is one instruction
    peak = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    o = tl.zeros([QUERIES, D], tl.float32)
    at = t[:, None] * (NK * D) + head * D + d[None, :]
    table_ptr = page_table_ptr + r * table_stride
    for i in tl.range(first, last, num_stages=STAGES):
        page = tl.load(table_ptr + i).to(tl.int64) * (PAGE * NK * D)
        seen = t < length - i * PAGE
        k = tl.load((k_pages_ptr + page) + at)
        # Beyond the length may be NaN. In keys it spoils masked scores alone; in values it would stay: NaN · 0 is NaN.
        v = tl.load((v_pages_ptr + page) + at, mask=seen[:, None], other=0.0)
        if WIDE:
            k, v = k.to(tl.float32), v.to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(seen[None, :], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1) * to_log2)
        rescale = tl.exp2(peak - new_peak)
        p = tl.exp2(scores * to_log2 - new_peak[:, None])
        total = total * rescale + tl.sum(p, 1)
        o = tl.dot(p.to(v.dtype), v, o * rescale[:, None], input_precision="ieee")
        peak = new_peak
    where = (heads * splits + split)[:, None] * D + d[None, :]
    tl.store(parts_ptr + where, o / total[:, None], mask=real[:, None])
    tl.store(logs_ptr, peak + tl.log2(total), mask=real)


@jit()
def merge_splits_kernel(parts_ptr, logs_ptr, out_ptr, SPLITS: tl.constexpr, D: tl.constexpr):
    """out = Σ_s w_s · parts_s,  w = softmax of logs. A split without tokens has log −inf, and its part is unwritten."""
    head = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    log = tl.load(logs_ptr + head * SPLITS + s)
    used = log > float("-inf")
    weight = tl.exp2(log - tl.maximum(tl.max(log), -1e30))  # a row without tokens has only −inf
    o = tl.load(parts_ptr + (head * SPLITS + s)[:, None] * D + d[None, :], mask=used[:, None], other=0.0)
    mean = tl.sum(o * weight[:, None], 0) / tl.maximum(tl.sum(weight), 1e-30)
    tl.store(out_ptr + head * D + d, mean)
