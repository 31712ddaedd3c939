"""The gated delta rule (Yang, Kautz, Hatamizadeh, arXiv 2412.06464), one token at a time and in chunks.

Per value head, with α = exp(g):
    S ← α_t S;  e = v_t − Sᵀ k_t;  S ← S + k_t (β_t e)ᵀ;  o_t = Sᵀ q_t

L tokens, Hk key heads of Dk, Hv value heads of Dv; value head h uses key head h // (Hv / Hk). Everything is
float32. These are the shared parts of delta_decode, delta_prefill and delta_ring: in torch, and below in Triton.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.constants import PAGE
from kernels.device import jit, tl

NORM_EPS = 1e-6  # inside the root, on the sum


def gates(a: Tensor, b: Tensor, a_log: Tensor, dt_bias: Tensor) -> tuple[Tensor, Tensor]:
    """(g, β) = (−exp(A_log) · softplus(a + dt_bias), σ(b)), float32 [L, Hv] each."""
    return -a_log.exp() * F.softplus(a.float() + dt_bias), b.float().sigmoid()


def heads(mixed: Tensor, value_heads: int, key_dim: int, value_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split convolved columns [L, C] into q, k [L, Hk, Dk] and v [L, Hv, Dv].

    q and k get unit length, q is scaled by Dk^−½.
    """
    keys = (mixed.shape[1] - value_heads * value_dim) // 2
    qk = mixed[:, : 2 * keys].unflatten(1, (2, -1, key_dim))
    qk = qk * torch.rsqrt(qk.square().sum(-1, keepdim=True).add_(NORM_EPS))
    return qk[:, 0] * key_dim**-0.5, qk[:, 1], mixed[:, 2 * keys :].unflatten(1, (value_heads, value_dim))


def recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The truth. q, k [L, Hk, Dk]; v [L, Hv, Dv]; g, beta [L, Hv]; s [Hv, Dk, Dv].

    Return (o [L, Hv, Dv], new s).
    """
    repeat = v.shape[1] // k.shape[1]
    q, k = q.repeat_interleave(repeat, dim=1), k.repeat_interleave(repeat, dim=1)
    out = torch.empty_like(v)
    for t in range(len(q)):
        s = s * g[t].exp()[:, None, None]
        e = v[t] - torch.einsum("hkv,hk->hv", s, k[t])
        s = s + torch.einsum("hk,hv->hkv", k[t], beta[t][:, None] * e)
        out[t] = torch.einsum("hkv,hk->hv", s, q[t])
    return out, s


def chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `recurrent`, a chunk of C ≤ 64 tokens at a time. Inside a chunk, G_i = Σ_{t≤i} g_t and

        D_ij = exp(G_i − G_j) for j ≤ i, else 0;   A = strictly lower part of (diag(β) K Kᵀ) ∘ D
        (I + A) U = diag(β) V;   (I + A) W = diag(β) diag(exp G) K
        V' = U − W S;   O = (Q ∘ exp G) S + ((Q Kᵀ) ∘ D) V';   S ← exp(G_C) S + (K ∘ exp(G_C − G))ᵀ V'

    The tail is padded with zeros, which neither decay nor write.
    """
    length, value_heads, value_dim = v.shape
    key_heads, key_dim = k.shape[1:]
    size = min(PAGE, length)
    q, k, v, g, beta = (_chunks(x, size, key_heads) for x in (q, k, v, g, beta))
    g, beta = g[..., 0].cumsum(-1), beta[..., 0]
    upper = torch.ones(size, size, dtype=torch.bool, device=v.device).triu(1)
    # The mask precedes exp, which would overflow above the diagonal.
    decay = (g[..., :, None] - g[..., None, :]).masked_fill_(upper, -torch.inf).exp_()
    kt = k.transpose(-1, -2)
    system = (k @ kt) * decay * beta[..., None]
    grown = g.exp()[..., None]
    sides = torch.cat([v * beta[..., None], k * (grown * beta[..., None])], dim=-1)
    solved = torch.linalg.solve_triangular(system, sides, upper=False, unitriangular=True)
    u, w = solved.split([value_dim, key_dim], dim=-1)
    within, grown_q = (q @ kt) * decay, q * grown
    last = g[..., -1:]
    decayed_kt = (k * (last - g).exp()[..., None]).transpose(-1, -2)
    end = last.exp()[..., None]
    s = s.view(key_heads, -1, key_dim, value_dim)
    out = torch.empty_like(v)
    for n in range(len(v)):
        fresh = u[n] - w[n] @ s
        out[n] = grown_q[n] @ s + within[n] @ fresh
        s = end[n] * s + decayed_kt[n] @ fresh
    out = out.permute(0, 3, 1, 2, 4).reshape(-1, value_heads, value_dim)[:length]
    return out, s.reshape(value_heads, key_dim, value_dim)


def _chunks(x: Tensor, size: int, key_heads: int) -> Tensor:
    """[L, heads, ...] to [chunks, Hk, heads / Hk, C, width], zeros in the tail."""
    x = x.reshape(x.shape[0], key_heads, x.shape[1] // key_heads, -1)
    x = F.pad(x, (0, 0, 0, 0, 0, 0, 0, -x.shape[0] % size))
    return x.unflatten(0, (-1, size)).permute(0, 2, 3, 1, 4).contiguous()


def check_widths(key_dim: int, value_dim: int) -> None:
    """Raise ValueError unless the Triton kernels serve heads of these widths: their tiles are whole heads."""
    for name, width in (("key", key_dim), ("value", value_dim)):
        if width not in (16, 32, 64, 128):
            raise ValueError(f"states: {name} heads of {width}, expected 16, 32, 64 or 128")


def tile_of(key_dim: int, value_dim: int, most: int) -> dict[str, int]:
    """Value columns at a time, at most so many, and the warps for them: 8 where the state is 128 x 128."""
    tile = min(most, value_dim)
    return {"TILE": tile, "num_warps": max(1, 8 * key_dim * tile // (128 * most))}


@jit()
def gate_of(a, b, a_log, dt_bias):
    """(g, β) as `gates`. The quotient is log(1 + z) without the loss of 1 + z near 1."""
    x = a.to(tl.float32) + dt_bias
    z = tl.exp(-tl.abs(x))
    w = 1.0 + z
    softplus = tl.maximum(x, 0.0) + tl.where(w == 1.0, z, tl.log(w) * z / tl.where(w == 1.0, 1.0, w - 1.0))
    return -tl.exp(a_log) * softplus, 1.0 / (1.0 + tl.exp(-b.to(tl.float32)))


@jit()
def silu(x):
    return x / (1.0 + tl.exp(-x))


@jit()
def conv_step(qkv_ptr, window_ptr, conv_weight_ptr, at, width, KERNEL: tl.constexpr):
    """Convolved columns `at` of one new token."""
    mixed = tl.load(conv_weight_ptr + (KERNEL - 1) * width + at) * tl.load(qkv_ptr + at).to(tl.float32)
    for j in tl.static_range(KERNEL - 1):
        mixed += tl.load(conv_weight_ptr + j * width + at) * tl.load(window_ptr + j * width + at).to(
            tl.float32
        )
    return silu(mixed)


@jit()
def shift_conv_state(qkv_ptr, window_ptr, at, width, KERNEL: tl.constexpr):
    """The slot's conv_state moves up by one. Only once every warp has read them: other threads store them than
    load them, so a barrier or a sum across the program's warps must lie between."""
    for j in tl.static_range(KERNEL - 2):
        tl.store(window_ptr + j * width + at, tl.load(window_ptr + (j + 1) * width + at))
    if KERNEL > 1:
        tl.store(window_ptr + (KERNEL - 2) * width + at, tl.load(qkv_ptr + at))


@jit()
def operand(x, PRECISION: tl.constexpr):
    """x as tl.dot of this precision wants it: to the nearest number of 11 bits for tf32, whose units drop the rest,
    which would shrink each product by up to 10⁻³ and the state with it."""
    if PRECISION == "tf32":
        x = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return x


@jit()
def unit(x, axis: tl.constexpr, EPS: tl.constexpr):
    """x at unit length along its last axis."""
    return x * (1.0 / tl.sqrt(tl.sum(x * x, axis, keep_dims=True) + EPS))
