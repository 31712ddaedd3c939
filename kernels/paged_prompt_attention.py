"""Causal attention of a chunk of new tokens a row over the row's pages, what came before the chunk included.

    o[n, h] = Σ_t softmax_t(scale · q[n, h] · K[r, t, h // G]) V[r, t, h // G],   t ≤ position of token n

Row r holds tokens row_starts[r] to row_starts[r + 1], the last of its context_lengths[r] positions.
Letters as in paged_decode_attention. The softmax is float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, INDEX, check, check_rank


def reference(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    row_starts: Tensor,
    scale: float,
) -> Tensor:
    out = torch.empty_like(q)
    kv_heads, width = k_pages.shape[2:]
    for row, (start, end, length) in enumerate(spans(row_starts, context_lengths)):
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
    row_starts: Tensor,
    scale: float,
) -> Tensor:
    """The same through torch's fused attention: a key head's query heads form a batch over one copy of it."""
    page, kv_heads, width = k_pages.shape[1:]
    out = torch.empty_like(q)
    for row, (start, end, length) in enumerate(spans(row_starts, context_lengths)):
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


def spans(row_starts: Tensor, context_lengths: Tensor) -> list[tuple[int, int, int]]:
    """(first token, one past the last, context length) of each row."""
    starts = row_starts.tolist()
    return list(zip(starts[:-1], starts[1:], context_lengths.tolist(), strict=True))


def paged_prompt_attention(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    row_starts: Tensor,
    scale: float,
) -> Tensor:
    """Return o [N, Nq, D] in the type of q.

    q                 [N, Nq, D]          float32, bfloat16 or float16, contiguous
    k_pages, v_pages  [pages, 64, Nk, D]  the type of q, contiguous; the new tokens are in them already
    page_table        [R, P]              int64, pages in order of position
    context_lengths   [R]                 int64, at most P·64, the row's new tokens included
    row_starts        [R + 1]             int64, from 0 to N
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
    check("row_starts", row_starts, (rows + 1,), INDEX)
    return folded(q, k_pages, v_pages, page_table, context_lengths, row_starts, scale)
