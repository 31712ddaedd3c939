"""Causal attention of a chunk of new tokens a row over the row's pages, what came before the chunk included.

    o[n, h] = Σ_t softmax_t(scale · q[n, h] · K[r, t, h // G]) V[r, t, h // G],   t ≤ position of token n

Row r holds tokens cu_seqlens[r] to cu_seqlens[r + 1], the last of its context_lengths[r] positions.
Letters as in paged_decode_attention. The softmax is float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, INDEX, check, check_rank
from kernels.device import (
    WIDE,
    has_warpgroups,
    jit,
    launch,
    tl,
    up_to_power_of_2,
    uses_triton,
)

# By head width: (query rows, keys a turn, stages, warps). The accumulator of 256 columns fills the registers: 128 rows
# of it spill nothing in warpgroups (192 KB shared), 64 rows nothing on other cards (68 KB).
TILES = {256: (128, 64, 2, 8), 128: (128, 64, 3, 8), 64: (128, 64, 3, 4)}
SMALL_TILES = {256: (64, 32, 2, 8), 128: (128, 32, 3, 8), 64: (128, 64, 3, 8)}
ROWS_AT_ONCE = 128  # rows looked at in one go to find a tile's own


def reference(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    cu_seqlens: Tensor,
    scale: float,
) -> Tensor:
    out = torch.empty_like(q)
    kv_heads, width = k_pages.shape[2:]
    for row, (start, end, length) in enumerate(spans(cu_seqlens, context_lengths)):
        k, v = (
            pages[page_table[row]].view(-1, kv_heads, width)[:length].float() for pages in (k_pages, v_pages)
        )
        grouped = q[start:end].view(end - start, kv_heads, -1, width).float()
        scores = torch.einsum("lhgd,thd->hglt", grouped * scale, k)
        visible = scores.new_ones(end - start, length, dtype=torch.bool).tril(length - end + start)
        weight = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        out[start:end] = torch.einsum("hglt,thd->lhgd", weight, v).reshape(end - start, -1, width)
    return out


def folded(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    cu_seqlens: Tensor,
    scale: float,
) -> Tensor:
    """The same through torch's fused attention: a key head's query heads form a batch over one copy of it."""
    page, kv_heads, width = k_pages.shape[1:]
    out = torch.empty_like(q)
    for row, (start, end, length) in enumerate(spans(cu_seqlens, context_lengths)):
        count = end - start
        used = page_table[row, : -(-length // page)]
        k, v = (
            pages.index_select(0, used).view(-1, kv_heads, width)[:length].transpose(0, 1)[None]
            for pages in (k_pages, v_pages)
        )
        grouped = q[start:end].view(count, kv_heads, -1, width).permute(2, 1, 0, 3)
        mask = None
        if count < length:
            mask = torch.ones(count, length, dtype=torch.bool, device=q.device).tril(length - count)
        group = (grouped.shape[0], -1, -1, -1)
        o = F.scaled_dot_product_attention(
            grouped, k.expand(group), v.expand(group), attn_mask=mask, is_causal=mask is None, scale=scale
        )
        out[start:end] = o.permute(2, 1, 0, 3).reshape(count, -1, width)
    return out


def spans(cu_seqlens: Tensor, context_lengths: Tensor) -> list[tuple[int, int, int]]:
    """(first token, one past the last, context length) of each row."""
    starts = cu_seqlens.tolist()
    return list(zip(starts[:-1], starts[1:], context_lengths.tolist(), strict=True))


def paged_prefill_attention(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    cu_seqlens: Tensor,
    scale: float,
) -> Tensor:
    """Return o [N, Nq, D] in the type of q.

    q                 [N, Nq, D]          float32, bfloat16 or float16, contiguous
    k_pages, v_pages  [pages, 64, Nk, D]  the type of q, contiguous; the new tokens are in them already
    page_table        [R, P]              int64, pages in order of position
    context_lengths   [R]                 int64, at most P·64, the row's new tokens included
    cu_seqlens        [R + 1]             int64, from 0 to N
    """
    check_rank("q", q, "NHD")
    check_rank("k_pages", k_pages, "PTHD")
    heads, width = q.shape[1:]
    check("q", q, q.shape, FLOATS)
    check("k_pages", k_pages, (*k_pages.shape[:3], width), (q.dtype,))
    check("v_pages", v_pages, k_pages.shape, (q.dtype,))
    if heads % k_pages.shape[2]:
        raise ValueError(f"q: {heads} heads are no multiple of the {k_pages.shape[2]} of k_pages")
    check_rank("page_table", page_table, "RP")
    rows = page_table.shape[0]
    check("page_table", page_table, page_table.shape, INDEX, strided=True)
    check("context_lengths", context_lengths, (rows,), INDEX)
    check("cu_seqlens", cu_seqlens, (rows + 1,), INDEX)
    if uses_triton(q):
        return tiled(q, k_pages, v_pages, page_table, context_lengths, cu_seqlens, scale)
    return folded(q, k_pages, v_pages, page_table, context_lengths, cu_seqlens, scale)


def tiled(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    cu_seqlens: Tensor,
    scale: float,
) -> Tensor:
    """One kernel (Dao, arXiv 2307.08691). A program takes TOKENS tokens of one row and the G heads of one key head."""
    tokens, heads, width = q.shape
    rows, (page, kv_heads) = page_table.shape[0], k_pages.shape[1:3]
    group = heads // kv_heads
    if width != up_to_power_of_2(width):
        raise ValueError(f"q: heads of {width}, expected a power of 2")
    tiles = TILES if has_warpgroups(q) else SMALL_TILES
    queries, keys, stages, warps = tiles.get(width, tiles[64])
    out = torch.empty_like(q)
    # How many tiles each row has is known on the device alone; this many are enough, and the rest leave at once.
    grid = (tokens // (queries // group) + rows, kv_heads) if tokens else (0,)
    form = {"NK": kv_heads, "G": group, "D": width, "PAGE": page, "QUERIES": queries, "KEYS": keys}
    launch(
        prefill_attention_kernel, grid, q, k_pages, v_pages, page_table, context_lengths, cu_seqlens, out, rows,
        page_table.stride(0), scale, **form, STAGES=stages, WIDE=WIDE, ROWS_AT_ONCE=ROWS_AT_ONCE, num_warps=warps,
    )  # fmt: skip
    return out


@jit(
    do_not_specialize=["rows", "table_stride"],
    do_not_specialize_on_alignment=["page_table_ptr", "context_lengths_ptr", "cu_seqlens_ptr"],
)
def prefill_attention_kernel(
    q_ptr, k_pages_ptr, v_pages_ptr, page_table_ptr, context_lengths_ptr, cu_seqlens_ptr, out_ptr, rows, table_stride,
    scale,
    NK: tl.constexpr, G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, STAGES: tl.constexpr, WIDE: tl.constexpr, ROWS_AT_ONCE: tl.constexpr,
):  # fmt: skip
    TOKENS: tl.constexpr = QUERIES // G
    # The last tile of a long row sees most keys: it starts first, so that it does not end alone.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    row, tiles_before, tiles_seen = 0, 0, 0
    for base in range(0, rows, ROWS_AT_ONCE):
        some = base + tl.arange(0, ROWS_AT_ONCE)
        there = some < rows
        starts = tl.load(cu_seqlens_ptr + some, mask=there, other=0)
        ends = tl.load(cu_seqlens_ptr + some + 1, mask=there, other=0)
        tiles = tl.cdiv(ends - starts, TOKENS).to(tl.int32)
        upto = tiles_seen + tl.cumsum(tiles)
        earlier = there & (upto <= tile)
        row += tl.sum(earlier.to(tl.int32))
        tiles_before += tl.sum(tl.where(earlier, tiles, 0))
        tiles_seen += tl.sum(tiles)
    if row >= rows:
        return
    start = tl.load(cu_seqlens_ptr + row)
    count = (tl.load(cu_seqlens_ptr + row + 1) - start).to(tl.int32)
    length = tl.load(context_lengths_ptr + row).to(tl.int32)

    m = tl.arange(0, QUERIES)
    d = tl.arange(0, D)
    t = tl.arange(0, KEYS)
    token = (tile - tiles_before) * TOKENS + m // G
    position = length - count + token
    # The accumulator leaves few registers for addresses: scalars have 64 bits, tiles 32.
    corner = (start * NK + head) * (G * D)
    q = tl.load(
        (q_ptr + corner) + offsets(token, m, NK, G, D), mask=real(token, m, count, G)[:, None], other=0.0
    )
    if WIDE:
        q = q.to(tl.float32)
    to_log2 = scale * 1.4426950408889634  # exp2 is one instruction
    peak = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    o = tl.zeros([QUERIES, D], tl.float32)
    visible = tl.minimum(length, length - count + (tile - tiles_before + 1) * TOKENS)
    offset = t[:, None] * (NK * D) + d[None, :]
    table_ptr = page_table_ptr + tl.cast(row, tl.int64) * table_stride
    for first in tl.range(0, visible, KEYS, num_stages=STAGES):
        page = tl.load(table_ptr + first // PAGE).to(tl.int64) * PAGE + first % PAGE
        page = (page * NK + head) * D
        written = first + t < visible
        k = tl.load((k_pages_ptr + page) + offset)
        # Beyond may be NaN. In keys it spoils masked scores alone; in values it would stay: NaN · 0 is NaN.
        v = tl.load((v_pages_ptr + page) + offset, mask=written[:, None], other=0.0)
        if WIDE:
            k, v = k.to(tl.float32), v.to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where((first + t)[None, :] <= position[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1) * to_log2)
        rescale = tl.exp2(peak - new_peak)
        p = tl.exp2(scores * to_log2 - new_peak[:, None])
        total = total * rescale + tl.sum(p, 1)
        o = tl.dot(p.to(v.dtype), v, o * rescale[:, None], input_precision="ieee")
        peak = new_peak
    # Out of a value read anew, the offsets of the store are too, instead of staying in 26 registers all the while.
    token += (tl.load(cu_seqlens_ptr + row, volatile=True) - start).to(tl.int32)
    tl.store(
        (out_ptr + corner) + offsets(token, m, NK, G, D),
        o / total[:, None],
        mask=real(token, m, count, G)[:, None],
    )


@jit()
def offsets(token, m, NK: tl.constexpr, G: tl.constexpr, D: tl.constexpr):
    """Of query row m, head m mod G of a token, from the first head of its group in the row's first token."""
    return (token * (NK * G) + m % G)[:, None] * D + tl.arange(0, D)[None, :]


@jit()
def real(token, m, count, G: tl.constexpr):
    return (m < m.shape[0] // G * G) & (token < count)
