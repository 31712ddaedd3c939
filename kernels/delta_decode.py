"""A gated delta layer between its projections, for one new token a row.

    window = [conv_state[slot] ; qkv];  mixed[c] = silu(Σ_j conv_weight[j, c] · window[j, c]);  keep window[1:]
    q, k, v = split(mixed), q and k of unit length;  g, β from a, b
    S = states[slot];  one step of the gated delta rule (see delta_rule);  states[slot] ← S

R rows, C = 2·Hk·Dk + Hv·Dv columns, a convolution of K tokens. States are float32 and change in place.

The Triton kernel takes one program for a row's key head and its value heads in turn: q and k are convolved once, and
nobody else reads what of conv_state the program moves. A whole state of 128 x 128 would lie in 64 registers of each of
256 threads and take 255 with what goes on around it, one program a multiprocessor; so 64 value columns at a time, which
takes 128, with the next 64 on their way meanwhile: 32 KB in flight a program, two programs a multiprocessor, where
27 KB keep an H200's memory busy.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import INDEX, check
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
from kernels.device import has_warpgroups, jit, launch, tl, uses_triton

TILE = 64  # value columns at a time


def reference(inputs: DeltaInputs, state_slots: Tensor) -> Tensor:
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    value_heads, key_dim, value_dim = states.shape[1:]
    window = torch.cat([conv_state.index_select(0, state_slots), qkv[:, None]], dim=1)
    conv_state.index_copy_(0, state_slots, window[:, 1:])
    mixed = F.silu((window * conv_weight).sum(dim=1))
    q, k, v = heads(mixed, value_heads, key_dim, value_dim)
    g, beta = gates(a, b, a_log, dt_bias)
    # [R, Hk, Hv / Hk, Dk, Dv]: the value heads of one key head stand side by side.
    s = states.index_select(0, state_slots).unflatten(1, (k.shape[1], -1))
    q, k = (x[:, :, None, None] for x in (q, k))
    v, alpha, beta = (x.view(*s.shape[:3], 1, -1) for x in (v, g.exp(), beta))
    s *= alpha
    e = (v - k @ s) * beta
    s.addcmul_(k.transpose(-1, -2), e)
    states.index_copy_(0, state_slots, s.flatten(1, 2))
    return (q @ s).view(-1, value_heads, value_dim)


def delta_decode(inputs: DeltaInputs, state_slots: Tensor) -> Tensor:
    """Return o [R, Hv, Dv] float32; change the rows' slots of states and conv_state, and no other slot.

    inputs       a token a row: N = R
    state_slots  [R]  int64; each row its own, but for the scratch slot
    """
    inputs.check()
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    check("state_slots", state_slots, (qkv.shape[0],), INDEX)
    if not uses_triton(qkv):
        return reference(inputs, state_slots)
    value_heads, key_dim, value_dim = states.shape[1:]
    check_widths(key_dim, value_dim)
    key_heads = inputs.key_heads
    out = states.new_empty(qkv.shape[0], value_heads, value_dim)
    launch(
        delta_decode_kernel,
        (key_heads, qkv.shape[0]),
        *(qkv, qkv.stride(0), a, a.stride(0), b, b.stride(0)),
        *(conv_weight, a_log, dt_bias, states, conv_state, state_slots, out),
        HK=key_heads,
        RATIO=value_heads // key_heads,
        DK=key_dim,
        DV=value_dim,
        KERNEL=conv_weight.shape[0],
        EPS=NORM_EPS,
        STAGES=3 if has_warpgroups(qkv) else 2,  # two programs of 69 KB each fit into 227 KB, and not into 99
        **tile_of(key_dim, value_dim, TILE),
    )
    return out


@jit(do_not_specialize_on_alignment=["a_ptr", "b_ptr", "state_slots_ptr"])
def delta_decode_kernel(
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
    out_ptr,
    HK: tl.constexpr,
    RATIO: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    TILE: tl.constexpr,
    KERNEL: tl.constexpr,
    EPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    slot = tl.load(state_slots_ptr + row)
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
    for i in tl.range(RATIO * (DV // TILE), num_stages=STAGES):
        h = head * RATIO + i // (DV // TILE)
        values = i % (DV // TILE) * TILE + tl.arange(0, TILE)
        S_ptrs = states_ptr + ((slot * HV + h) * DK + keys[:, None]) * DV + values[None, :]
        S = tl.load(S_ptrs)
        v = conv_step(qkv_ptr, window_ptr, conv_weight_ptr, 2 * HK * DK + h * DV + values, WIDTH, KERNEL)
        g, beta = gate_of(
            tl.load(a_ptr + row * a_stride + h),
            tl.load(b_ptr + row * b_stride + h),
            tl.load(a_log_ptr + h),
            tl.load(dt_bias_ptr + h),
        )
        S *= tl.exp(g)
        # Sᵀq after the write is Sᵀq before it plus (k·q) e: both reads share one pass over S.
        e = (v - tl.sum(S * k[:, None], 0)) * beta
        o = tl.sum(S * q[:, None], 0) + qk * e
        tl.store(S_ptrs, S + k[:, None] * e[None, :])
        shift_conv_state(qkv_ptr, window_ptr, 2 * HK * DK + h * DV + values, WIDTH, KERNEL)
        tl.store(out_ptr + (row * HV + h) * DV + values, o)
