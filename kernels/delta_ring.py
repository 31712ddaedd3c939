"""delta_decode with deferred state writes: a slot's state is written on every 8th token, not on each.

A ring keeps what the n < 8 tokens since the last write would have added: k_j, e_j = β_j (v_j − S_jᵀ k_j), and
G_j = Σ_{i≤j} g_i. Before token t the slot's true state is exp(G_{n−1}) S + Σ_j exp(G_{n−1} − G_j) k_j e_jᵀ, so

    G = G_{n−1} + g_t;  f_j = exp(G − G_j)
    e = β_t (v_t − exp(G) Sᵀk_t − Σ_j f_j (k_j·k_t) e_j)
    o = exp(G) Sᵀq_t + Σ_j f_j (k_j·q_t) e_j + (k_t·q_t) e
    n = 7:  S ← exp(G) S + Σ_j f_j k_j e_jᵀ + k_t eᵀ;     else append (k_t, e, G)

Letters as in delta_decode. n is the ring's `pending`, which all layers share: `delta_ring` leaves it, `Ring.advance`
moves it on after the last layer, and whoever copies a slot, prompts it or reads its state calls `flush` first.

Bytes a token and layer of the 9B (state 2 MiB, one ring entry 24 KiB): plain 4096 KiB; here 2048 read, 2048 / 8
written, 7/8 · 24 appended and 3.5 · 24 read of the ring, and at the write 1/8 · 7 · 24 again (from cache): 2430 KiB,
which is 0.59 of it. A slot's ring takes 192 KiB beside its state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.constants import RING
from kernels.contract import FLOAT32, INDEX, check, check_rank
from kernels.delta_inputs import DeltaInputs
from kernels.delta_rule import (
    NORM_EPS,
    check_widths,
    conv_step,
    gate_of,
    gates,
    heads,
    shift_conv_state,
    tile_of,
    unit,
)
from kernels.device import jit, launch, tl, uses_triton

TILE = 32  # half of delta_decode's: the held entries and the write of the 8th token want registers too


@dataclass(frozen=True, slots=True)
class Ring:
    """What was not yet written to the states, float32. Entries from `pending` on mean nothing.

    k        [layers, slots, 8, Hk, Dk]
    e        [layers, slots, 8, Hv, Dv]
    g        [layers, slots, 8, Hv]      summed since the last write
    pending  [slots]  int64, entries that count, 0 to 7, in every layer
    """

    k: Tensor
    e: Tensor
    g: Tensor
    pending: Tensor

    @classmethod
    def allocate(cls, states: Tensor, key_heads: int) -> Ring:
        """Beside states [layers, slots, Hv, Dk, Dv]."""
        layers, slots, value_heads, key_dim, value_dim = states.shape
        return cls(
            k=states.new_zeros(layers, slots, RING, key_heads, key_dim),
            e=states.new_zeros(layers, slots, RING, value_heads, value_dim),
            g=states.new_zeros(layers, slots, RING, value_heads),
            pending=states.new_zeros(slots, dtype=torch.int64),
        )

    def layer(self, n: int) -> Ring:
        """The ring of one layer, without the first dimension."""
        return Ring(self.k[n], self.e[n], self.g[n], self.pending)

    def advance(self, state_slots: Tensor) -> None:
        """Count the token that every layer has seen. The scratch slot may stand in several rows."""
        self.pending.index_copy_(0, state_slots, (self.pending.index_select(0, state_slots) + 1) % RING)

    def forget(self, state_slots: Tensor) -> None:
        """Drop what the slots' entries hold."""
        self.pending.index_fill_(0, state_slots, 0)


def reference(inputs: DeltaInputs, state_slots: Tensor, ring: Ring) -> Tensor:
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    value_heads, key_dim, value_dim = states.shape[1:]
    window = torch.cat([conv_state[state_slots], qkv[:, None]], dim=1)
    conv_state[state_slots] = window[:, 1:]
    q, k, v = heads(F.silu((window * conv_weight).sum(dim=1)), value_heads, key_dim, value_dim)
    g, beta = gates(a, b, a_log, dt_bias)
    repeat = value_heads // k.shape[1]
    n = ring.pending[state_slots]
    old_k, old_e, old_g, last, held = _held(ring, state_slots, n)
    g = g + last
    decay = (g[:, None] - old_g).masked_fill(~held, -torch.inf).exp()
    kk, kq = ((old_k * x[:, None]).sum(-1).repeat_interleave(repeat, 2) * decay for x in (k, q))
    s = states[state_slots] * g.exp()[..., None, None]
    qk = (q * k).sum(-1, keepdim=True).repeat_interleave(repeat, 1)
    ring.k[state_slots, n] = k
    q, k = (x.repeat_interleave(repeat, 1) for x in (q, k))
    read = torch.einsum("rhkv,rhk->rhv", s, k) + torch.einsum("rjh,rjhv->rhv", kk, old_e)
    e = beta[..., None] * (v - read)
    out = torch.einsum("rhkv,rhk->rhv", s, q) + torch.einsum("rjh,rjhv->rhv", kq, old_e) + qk * e
    ring.e[state_slots, n], ring.g[state_slots, n] = e, g
    full = state_slots[n == RING - 1]
    _write(states, ring, full, torch.full_like(full, RING))
    return out


def reference_flush(states: Tensor, ring: Ring, state_slots: Tensor) -> None:
    for n in range(len(states)):
        _write(states[n], ring.layer(n), state_slots, ring.pending[state_slots])


def _write(states: Tensor, ring: Ring, state_slots: Tensor, count: Tensor) -> None:
    """The first `count` [F] entries of a layer's ring into its states."""
    k, e, g, last, held = _held(ring, state_slots, count)
    k = k.repeat_interleave(states.shape[1] // k.shape[2], 2)
    e = e * (last[:, None] - g).masked_fill(~held, -torch.inf).exp()[..., None]
    states[state_slots] = states[state_slots] * last.exp()[..., None, None] + torch.einsum(
        "rjhk,rjhv->rhkv", k, e
    )


def _held(ring: Ring, state_slots: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    """The slots' k, e and g with zeros from entry n on, g of entry n − 1 or 0, and which entries count."""
    held = (torch.arange(RING, device=n.device) < n[:, None])[:, :, None]
    k, e = (x[state_slots].masked_fill(~held[..., None], 0) for x in (ring.k, ring.e))
    last = ring.g[state_slots, n - 1].masked_fill((n == 0)[:, None], 0)
    return k, e, ring.g[state_slots].masked_fill(~held, 0), last, held


def delta_ring(inputs: DeltaInputs, state_slots: Tensor, ring: Ring) -> Tensor:
    """Return o [R, Hv, Dv] float32; change the rows' slots of states, conv_state and ring, and no other slot.

    inputs and state_slots as for delta_decode; ring is the layer's, of as many slots as states.
    """
    inputs.check()
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    key_heads = inputs.key_heads
    check("state_slots", state_slots, (qkv.shape[0],), INDEX)
    check_ring(states, ring, key_heads)
    if not uses_triton(qkv):
        return reference(inputs, state_slots, ring)
    value_heads, key_dim, value_dim = states.shape[1:]
    check_widths(key_dim, value_dim)
    out = states.new_empty(qkv.shape[0], value_heads, value_dim)
    launch(
        delta_ring_kernel,
        (key_heads, qkv.shape[0]),
        *(qkv, qkv.stride(0), a, a.stride(0), b, b.stride(0)),
        *(
            conv_weight,
            a_log,
            dt_bias,
            states,
            conv_state,
            state_slots,
            ring.k,
            ring.e,
            ring.g,
            ring.pending,
            out,
        ),
        HK=key_heads,
        RATIO=value_heads // key_heads,
        DK=key_dim,
        DV=value_dim,
        KERNEL=conv_weight.shape[0],
        EPS=NORM_EPS,
        RING=RING,
        **tile_of(key_dim, value_dim, TILE),
    )
    return out


def flush(states: Tensor, ring: Ring, state_slots: Tensor) -> None:
    """Write what the slots' rings hold into their states, in every layer; after it they hold nothing.

    states       [layers, slots, Hv, Dk, Dv] float32
    state_slots  [F] int64, none twice but for the scratch slot
    """
    check("state_slots", state_slots, (state_slots.numel(),), INDEX)
    check_rank("states", states, "LSHKV")
    check("states", states, states.shape, FLOAT32)
    check_ring(states, ring, ring.k.shape[-2])
    if uses_triton(states):
        layers, _, value_heads, key_dim, value_dim = states.shape
        check_widths(key_dim, value_dim)
        tile = tile_of(key_dim, value_dim, TILE)
        launch(
            delta_flush_kernel,
            (value_heads * (value_dim // tile["TILE"]), state_slots.numel(), layers),
            *(states, ring.k, ring.e, ring.g, state_slots, ring.pending, states.shape[1]),
            HV=value_heads,
            RATIO=value_heads // ring.k.shape[-2],
            DK=key_dim,
            DV=value_dim,
            RING=RING,
            **tile,
        )
    else:
        reference_flush(states, ring, state_slots)
    ring.forget(state_slots)


def check_ring(states: Tensor, ring: Ring, key_heads: int) -> None:
    *pool, value_heads, key_dim, value_dim = states.shape
    check("ring.k", ring.k, (*pool, RING, key_heads, key_dim), FLOAT32)
    check("ring.e", ring.e, (*pool, RING, value_heads, value_dim), FLOAT32)
    check("ring.g", ring.g, (*pool, RING, value_heads), FLOAT32)
    check("ring.pending", ring.pending, (pool[-1],), INDEX)


@jit()
def with_held(
    S, G, count, ring_k_ptr, ring_e_ptr, ring_g_ptr, slot, h, keys, values, HV, RATIO, DK, DV, RING
):
    """exp(G) S and the first `count` entries of the ring, each decayed to G."""
    S *= tl.exp(G)
    for j in range(count):
        entry = slot * RING + j
        k = tl.load(ring_k_ptr + (entry * (HV // RATIO) + h // RATIO) * DK + keys)
        e = tl.load(ring_e_ptr + (entry * HV + h) * DV + values)
        decay = tl.exp(G - tl.load(ring_g_ptr + entry * HV + h))
        S += k[:, None] * (decay * e)[None, :]
    return S


@jit(do_not_specialize_on_alignment=["a_ptr", "b_ptr", "state_slots_ptr", "pending_ptr"])
def delta_ring_kernel(
    qkv_ptr,
    qkv_stride,
    a_ptr,
    a_stride,
    b_ptr,
    b_stride,
    conv_weight_ptr,
    a_log_ptr,
    dt_bias_ptr,
    states_ptr,
    conv_state_ptr,
    state_slots_ptr,
    ring_k_ptr,
    ring_e_ptr,
    ring_g_ptr,
    pending_ptr,
    out_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    TILE: tl.constexpr,
    KERNEL: tl.constexpr,
    EPS: tl.constexpr,
    RING: tl.constexpr,
):
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    slot = tl.load(state_slots_ptr + row)
    n = tl.load(pending_ptr + slot)
    HV: tl.constexpr = HK * RATIO
    WIDTH: tl.constexpr = 2 * HK * DK + HV * DV
    qkv_ptr += row * qkv_stride
    window_ptr = conv_state_ptr + slot * (KERNEL - 1) * WIDTH
    keys = tl.arange(0, DK)
    q = conv_step(qkv_ptr, window_ptr, conv_weight_ptr, head * DK + keys, WIDTH, KERNEL)
    k = conv_step(qkv_ptr, window_ptr, conv_weight_ptr, (HK + head) * DK + keys, WIDTH, KERNEL)
    q, k = unit(q, 0, EPS) * DK**-0.5, unit(k, 0, EPS)
    qk = tl.sum(q * k)
    tl.debug_barrier()
    shift_conv_state(qkv_ptr, window_ptr, head * DK + keys, WIDTH, KERNEL)
    shift_conv_state(qkv_ptr, window_ptr, (HK + head) * DK + keys, WIDTH, KERNEL)
    j = tl.arange(0, RING)
    held, entry = j < n, slot * RING + j
    old_k = tl.load(
        ring_k_ptr + (entry[:, None] * HK + head) * DK + keys[None, :], mask=held[:, None], other=0.0
    )
    kk, kq = tl.sum(old_k * k[None, :], 1), tl.sum(old_k * q[None, :], 1)
    new = slot * RING + n
    if n < RING - 1:
        tl.store(ring_k_ptr + (new * HK + head) * DK + keys, k)
    for i in tl.range(RATIO * (DV // TILE), num_stages=2):
        h = head * RATIO + i // (DV // TILE)
        values = i % (DV // TILE) * TILE + tl.arange(0, TILE)
        S_ptrs = states_ptr + ((slot * HV + h) * DK + keys[:, None]) * DV + values[None, :]
        S = tl.load(S_ptrs)
        old_e = tl.load(
            ring_e_ptr + (entry[:, None] * HV + h) * DV + values[None, :], mask=held[:, None], other=0.0
        )
        old_g = tl.load(ring_g_ptr + entry * HV + h, mask=held, other=0.0)
        v = conv_step(qkv_ptr, window_ptr, conv_weight_ptr, 2 * HK * DK + h * DV + values, WIDTH, KERNEL)
        g, beta = gate_of(
            tl.load(a_ptr + row * a_stride + h),
            tl.load(b_ptr + row * b_stride + h),
            tl.load(a_log_ptr + h),
            tl.load(dt_bias_ptr + h),
        )
        G = g + tl.sum(tl.where(j == n - 1, old_g, 0.0))
        decay = tl.exp(tl.where(held, G - old_g, float("-inf")))
        grown = tl.exp(G)
        read = grown * tl.sum(S * k[:, None], 0) + tl.sum((decay * kk)[:, None] * old_e, 0)
        e = (v - read) * beta
        o = grown * tl.sum(S * q[:, None], 0) + tl.sum((decay * kq)[:, None] * old_e, 0) + qk * e
        tl.store(out_ptr + (row * HV + h) * DV + values, o)
        shift_conv_state(qkv_ptr, window_ptr, 2 * HK * DK + h * DV + values, WIDTH, KERNEL)
        if n < RING - 1:
            tl.store(ring_e_ptr + (new * HV + h) * DV + values, e)
            tl.store(ring_g_ptr + new * HV + h, G)
        else:
            S = with_held(
                S,
                G,
                RING - 1,
                ring_k_ptr,
                ring_e_ptr,
                ring_g_ptr,
                slot,
                h,
                keys,
                values,
                HV,
                RATIO,
                DK,
                DV,
                RING,
            )
            tl.store(S_ptrs, S + k[:, None] * e[None, :])


@jit(do_not_specialize=["pool"], do_not_specialize_on_alignment=["state_slots_ptr", "pending_ptr"])
def delta_flush_kernel(
    states_ptr,
    ring_k_ptr,
    ring_e_ptr,
    ring_g_ptr,
    state_slots_ptr,
    pending_ptr,
    pool,
    HV: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    TILE: tl.constexpr,
    RING: tl.constexpr,
):
    h = tl.program_id(0) // (DV // TILE)
    slot = tl.load(state_slots_ptr + tl.program_id(1))
    n = tl.load(pending_ptr + slot)
    if n > 0:
        slot += tl.program_id(2).to(tl.int64) * pool
        keys, values = tl.arange(0, DK), tl.program_id(0) % (DV // TILE) * TILE + tl.arange(0, TILE)
        S_ptrs = states_ptr + ((slot * HV + h) * DK + keys[:, None]) * DV + values[None, :]
        S = tl.load(S_ptrs)
        G = tl.load(ring_g_ptr + (slot * RING + n - 1) * HV + h)
        S = with_held(
            S, G, n, ring_k_ptr, ring_e_ptr, ring_g_ptr, slot, h, keys, values, HV, RATIO, DK, DV, RING
        )
        tl.store(S_ptrs, S)
