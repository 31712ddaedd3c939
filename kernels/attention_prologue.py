"""From the merged projection of a full-attention layer to queries, and keys and values in their pages.

    x = [q | k | v | gate]                     columns Nq·D, Nk·D, Nk·D, and Nq·D or none
    q, k ← norm(q), norm(k)                    each head over D (Qwen3, Qwen3.5)
    u[r] ← u[r] · cos[r] + u[(r + R/2) mod R] · sin[r],  r < R;  u = q, k of each head
    k_pages[slot_mapping] ← k;  v_pages[slot_mapping] ← v

Rotation in halves (Su et al., arXiv 2104.09864): cos and sin repeat their R/2 angles, and the first half of
sin is negated, so that both halves are one formula.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, FLOATS, INDEX, check, check_rank
from kernels.device import jit, launch, tl, triton, up_to_power_of_2, uses_triton
from kernels.rms_norm import normalise, scaled

VALUES = 1024  # a program: a few heads of one token, so that 128 threads have one 16-byte load each


def reference(
    x: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    zero_centred: bool,
    cos: Tensor,
    sin: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    slot_mapping: Tensor,
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
    k_pages.view(-1, kv_heads, width).index_copy_(0, slot_mapping, u[:, heads:])
    v_pages.view(-1, kv_heads * width).index_copy_(0, slot_mapping, x[:, k_end:v_end])
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
    slot_mapping: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor | None]:
    """Return (q [N, Nq, D], gate [N, Nq·D] or None), gate a view of x; write N slots of the pages.

    x                 [N, (Nq + 2 Nk)·D] or [N, (2 Nq + 2 Nk)·D]  float32, bfloat16 or float16, contiguous
    norms             [D] for queries and [D] for keys, in the type of x; None where the model has none
    cos, sin          [N, R]             float32, R even and at most D
    k_pages, v_pages  [pages, 64, Nk, D] the type of x, contiguous
    slot_mapping      [N]                int64, page · 64 + offset of each token
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
    check("slot_mapping", slot_mapping, (tokens,), INDEX)
    if not uses_triton(x):
        return reference(x, norms, eps, zero_centred, cos, sin, k_pages, v_pages, slot_mapping, heads)
    if width != up_to_power_of_2(width):
        raise ValueError(f"k_pages: heads of {width}, expected a power of 2")
    q = torch.empty(tokens, heads, width, dtype=x.dtype, device=x.device)
    tile = min(max(VALUES // width, 1), up_to_power_of_2(heads))
    form = {"NQ": heads, "NK": kv_heads, "D": width, "R": turned, "TILE": tile, "ZERO_CENTRED": zero_centred}
    q_norm, k_norm = norms or (None, None)
    grid = (tokens, triton.cdiv(heads, tile) + 2 * triton.cdiv(kv_heads, tile))
    tensors = (x, q_norm, k_norm, cos, sin, q, k_pages, v_pages, slot_mapping)
    launch(prologue_kernel, grid, *tensors, x.stride(0), eps, **form, num_warps=4)
    return q, x[:, columns:] if x.shape[1] > columns else None


@jit(do_not_specialize_on_alignment=["slot_mapping_ptr"])
def prologue_kernel(
    x_ptr, q_norm_ptr, k_norm_ptr, cos_ptr, sin_ptr, q_ptr, k_pages_ptr, v_pages_ptr, slot_mapping_ptr, x_stride, eps,
    NQ: tl.constexpr, NK: tl.constexpr, D: tl.constexpr, R: tl.constexpr, TILE: tl.constexpr,
    ZERO_CENTRED: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    q_parts = tl.cdiv(NQ, TILE)
    kv_parts = tl.cdiv(NK, TILE)
    x_ptr += n * x_stride
    page_row = tl.load(slot_mapping_ptr + n).to(tl.int64) * NK * D
    if part < q_parts:
        h = part * TILE + tl.arange(0, TILE)
        u = turned(x_ptr, h, h < NQ, q_norm_ptr, cos_ptr + n * R, sin_ptr + n * R, eps, D, R, ZERO_CENTRED)
        tl.store(q_ptr + n * NQ * D + h[:, None] * D + tl.arange(0, D)[None, :], u, mask=(h < NQ)[:, None])
    elif part < q_parts + kv_parts:
        h = (part - q_parts) * TILE + tl.arange(0, TILE)
        u = turned(
            x_ptr + NQ * D, h, h < NK, k_norm_ptr, cos_ptr + n * R, sin_ptr + n * R, eps, D, R, ZERO_CENTRED
        )
        tl.store(
            k_pages_ptr + page_row + h[:, None] * D + tl.arange(0, D)[None, :], u, mask=(h < NK)[:, None]
        )
    else:
        h = (part - q_parts - kv_parts) * TILE + tl.arange(0, TILE)
        at = h[:, None] * D + tl.arange(0, D)[None, :]
        inside = (h < NK)[:, None]
        tl.store(v_pages_ptr + page_row + at, tl.load(x_ptr + (NQ + NK) * D + at, mask=inside), mask=inside)


@jit()
def turned(
    x_ptr,
    h,
    inside,
    norm_ptr,
    cos_ptr,
    sin_ptr,
    eps,
    D: tl.constexpr,
    R: tl.constexpr,
    ZERO_CENTRED: tl.constexpr,
):
    """Heads h of x, normed and turned, in the type of x."""
    d = tl.arange(0, D)
    turning = d < R
    partner = tl.where(d < R // 2, d + R // 2, d - R // 2)  # (d + R/2) mod R
    u = tl.load(x_ptr + h[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
    both = inside[:, None] & turning[None, :]
    across = tl.load(x_ptr + h[:, None] * D + partner[None, :], mask=both, other=0.0)
    if norm_ptr is not None:
        wide = u.to(tl.float32)
        unit = tl.rsqrt(tl.sum(wide * wide, axis=1, keep_dims=True) / D + eps)
        u = scaled(wide * unit, tl.load(norm_ptr + d)[None, :], ZERO_CENTRED)
        weight = tl.load(norm_ptr + partner, mask=turning, other=0.0)[None, :]
        across = scaled(across.to(tl.float32) * unit, weight, ZERO_CENTRED)
    c = tl.load(cos_ptr + d, mask=turning, other=1.0)[None, :]
    s = tl.load(sin_ptr + d, mask=turning, other=0.0)[None, :]
    return (u.to(tl.float32) * c + across.to(tl.float32) * s).to(x_ptr.dtype.element_ty)
