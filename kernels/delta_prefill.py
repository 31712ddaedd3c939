"""A gated delta layer between its projections, for a chunk of new tokens a row.

    window = [conv_state[slot] ; qkv of the row];  mixed[t, c] = silu(Σ_j conv_weight[j, c] · window[t + j, c])
    q, k, v = split(mixed), q and k of unit length;  g, β from a, b
    o, states[slot] = gated delta rule over the row from states[slot];  conv_state[slot] ← last of window

Letters as in delta_decode. The rule runs 64 tokens at a time (see delta_rule.chunked).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.constants import PAGE
from kernels.contract import INDEX, check
from kernels.delta_inputs import DeltaInputs
from kernels.delta_prefill_kernels import (
    delta_convolve_kernel,
    delta_output_kernel,
    delta_scan_kernel,
    delta_solve_kernel,
)
from kernels.delta_rule import NORM_EPS, check_widths, chunked, gates, heads
from kernels.device import WIDE, has_warpgroups, launch, up_to_power_of_2, uses_triton

# Products that feed the state have operands in tf32, eight times finer than bfloat16, and are summed in float32.
# Products that feed only the output have bfloat16 operands: they add about what the rounding of qkv itself does.
STATE = "ieee" if WIDE else "tf32"
TILE = 32  # value columns a program of the scan: 4 a head, so that one long row of the 9B fills 128 multiprocessors


def reference(inputs: DeltaInputs, state_slots: Tensor, cu_seqlens: Tensor) -> Tensor:
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    value_heads, key_dim, value_dim = states.shape[1:]
    kept = len(conv_weight) - 1
    g, beta = gates(a, b, a_log, dt_bias)
    out = states.new_empty(len(qkv), value_heads, value_dim)
    starts = cu_seqlens.tolist()
    for slot, start, end in zip(state_slots.tolist(), starts[:-1], starts[1:], strict=True):
        window = torch.cat([conv_state[slot], qkv[start:end]])
        conv_state[slot] = window[-kept:]
        mixed = window[: end - start] * conv_weight[0]
        for j in range(1, len(conv_weight)):
            mixed.addcmul_(window[j : j + end - start], conv_weight[j])
        q, k, v = heads(F.silu(mixed), value_heads, key_dim, value_dim)
        out[start:end], states[slot] = chunked(q, k, v, g[start:end], beta[start:end], states[slot])
    return out


def delta_prefill(inputs: DeltaInputs, state_slots: Tensor, cu_seqlens: Tensor) -> Tensor:
    """Return o [N, Hv, Dv] float32; change the rows' slots of states and conv_state, and no other slot.

    inputs       N tokens, row after row
    state_slots  [R]      int64; each row its own
    cu_seqlens   [R + 1]  int64, from 0 to N
    """
    inputs.check()
    check("state_slots", state_slots, (state_slots.numel(),), INDEX)
    check("cu_seqlens", cu_seqlens, (state_slots.numel() + 1,), INDEX)
    if not uses_triton(inputs.qkv):
        return reference(inputs, state_slots, cu_seqlens)
    qkv, a, b, conv_weight, a_log, dt_bias, states, conv_state = inputs
    value_heads, key_dim, value_dim = states.shape[1:]
    check_widths(key_dim, value_dim)
    key_heads, (tokens, rows) = inputs.key_heads, (qkv.shape[0], state_slots.numel())
    chunks = tokens // PAGE + rows  # no row has more than one chunk that is not whole
    half = torch.float32 if WIDE else torch.bfloat16
    single, narrow = partial(states.new_empty, dtype=torch.float32), partial(states.new_empty, dtype=half)
    q, k = narrow(tokens, key_heads, key_dim), single(tokens, key_heads, key_dim)
    w, u = single(tokens, value_heads, key_dim), single(tokens, value_heads, value_dim)
    g, fresh = single(tokens, value_heads), narrow(tokens, value_heads, value_dim)
    starts = narrow(chunks, value_heads, key_dim, value_dim)
    out = torch.empty_like(u)
    sizes = {"HK": key_heads, "RATIO": value_heads // key_heads, "DK": key_dim, "DV": value_dim}
    conv = {"KERNEL": conv_weight.shape[0], "CHUNK": PAGE}
    tile = min(TILE, value_dim)
    layout = (state_slots, cu_seqlens, rows)
    launch(
        delta_convolve_kernel,
        (2 * key_heads, chunks),
        *(qkv, qkv.stride(0), conv_weight, conv_state, *layout, q, k),
        **sizes,
        **conv,
        EPS=NORM_EPS,
        STATE=STATE,
        num_warps=8,
    )
    launch(
        delta_solve_kernel,
        (value_heads, chunks),
        *(qkv, qkv.stride(0), a, a.stride(0), b, b.stride(0), conv_weight, a_log, dt_bias, conv_state),
        *(*layout, k, u, w, g),
        **sizes,
        **conv,
        TILE=min(32, key_dim, value_dim),
        STATE=STATE,
        num_warps=8,
        num_stages=1,
    )
    launch(
        delta_scan_kernel,
        (value_heads, value_dim // tile, rows),
        *(qkv, qkv.stride(0), states, conv_state, state_slots, cu_seqlens, k, u, w, g, fresh, starts),
        **sizes,
        **conv,
        TILE=tile,
        ROWS=up_to_power_of_2(conv_weight.shape[0] - 1),
        STATE=STATE,
        # Where shared memory allows, the next chunk is on its way while this one is multiplied.
        num_warps=8 if has_warpgroups(qkv) else 4,
        num_stages=3 if has_warpgroups(qkv) else 1,
    )
    launch(
        delta_output_kernel,
        (value_heads, chunks),
        *(*layout[1:], q, k, g, fresh, starts, out),
        **sizes,
        CHUNK=PAGE,
        num_warps=8,
    )
    return out
