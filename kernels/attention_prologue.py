"""From the merged projection of a full-attention layer to queries, and keys and values in their pages.

    x = [q | k | v | gate]                     columns Nq·D, Nk·D, Nk·D, and Nq·D or none
    q, k ← norm(q), norm(k)                    each head over D (Qwen3, Qwen3.5)
    u[r] ← u[r] · cos[r] + u[(r + R/2) mod R] · sin[r],  r < R;  u = q, k of each head
    k_pages[place] ← k;  v_pages[place] ← v

Rotation in halves (Su et al., arXiv 2104.09864): cos and sin repeat their R/2 angles, and the first half of
sin is negated, so that both halves are one formula.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, FLOATS, INDEX, check, check_rank
from kernels.rms_norm import normalise


def reference(
    x: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    zero_centred: bool,
    cos: Tensor,
    sin: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    places: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor | None]:
    kv_heads, width = k_pages.shape[2:]
    k_end, v_end = (heads + kv_heads) * width, (heads + 2 * kv_heads) * width
    u = x[:, :k_end].unflatten(1, (-1, width))
    if norms is not None:
        parts = zip((u[:, :heads], u[:, heads:]), norms, strict=True)
        u = torch.cat([normalise(part, norm, eps, zero_centred) for part, norm in parts], dim=1)
    turned = cos.shape[1]
    wide = u[..., :turned].float()
    wide = (wide * cos[:, None]).addcmul_(wide.roll(turned // 2, -1), sin[:, None]).to(x.dtype)
    u = wide if turned == width else torch.cat([wide, u[..., turned:]], dim=-1)
    k_pages.view(-1, kv_heads, width).index_copy_(0, places, u[:, heads:])
    v_pages.view(-1, kv_heads * width).index_copy_(0, places, x[:, k_end:v_end])
    return u[:, :heads].contiguous(), x[:, v_end:] if x.shape[1] > v_end else None


def attention_prologue(
    x: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    zero_centred: bool,
    cos: Tensor,
    sin: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    places: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor | None]:
    """Return (q [N, Nq, D], gate [N, Nq·D] or None), gate a view of x; write N places of the pages.

    x                 [N, (Nq + 2 Nk)·D] or [N, (2 Nq + 2 Nk)·D]  float32, bfloat16 or float16, contiguous
    norms             [D] for queries and [D] for keys, in the type of x; None where the model has none
    cos, sin          [N, R]             float32, R even and at most D
    k_pages, v_pages  [pages, 64, Nk, D] the type of x, contiguous
    places            [N]                int64, page · 64 + offset of each token
    heads             Nq
    """
    check_rank("k_pages", k_pages, "PTHD")
    check_rank("x", x, "NC")
    kv_heads, width = k_pages.shape[2:]
    tokens, columns = x.shape[0], (heads + 2 * kv_heads) * width
    check("x", x, (tokens, columns + (heads * width if x.shape[1] > columns else 0)), FLOATS)
    for name, norm in zip(("q_norm", "k_norm"), norms or (), strict=False):
        check(name, norm, (width,), (x.dtype,))
    turned = cos.shape[-1]
    if turned % 2 or turned > width:
        raise ValueError(f"cos: {turned} columns, expected an even number of at most {width}")
    check("cos", cos, (tokens, turned), FLOAT32)
    check("sin", sin, (tokens, turned), FLOAT32)
    check("k_pages", k_pages, k_pages.shape, (x.dtype,))
    check("v_pages", v_pages, k_pages.shape, (x.dtype,))
    check("places", places, (tokens,), INDEX)
    return reference(x, norms, eps, zero_centred, cos, sin, k_pages, v_pages, places, heads)
