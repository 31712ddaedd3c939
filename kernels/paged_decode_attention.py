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

    Padding reads a row's own first token: a place that nobody wrote may hold NaN, and NaN · 0 is NaN.
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
        places = (used[..., None] * page + torch.arange(page, device=q.device)).flatten(1)[:, :longest]
        mask = torch.arange(longest, device=q.device) < context_lengths[:, None]
        places = torch.where(mask, places, places[:, :1]).flatten()
        mask = mask[:, None, None]
        k, v = (
            one.view(-1, kv_heads * width)
            .index_select(0, places)
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
    return gathered(q, k_pages, v_pages, page_table, context_lengths, scale)
