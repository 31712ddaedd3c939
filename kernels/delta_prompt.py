"""A gated delta layer between its projections, for a chunk of new tokens a row.

    window = [conv_columns[slot] ; qkv of the row];  mixed[t, c] = silu(Σ_j taps[j, c] · window[t + j, c])
    q, k, v = split(mixed), q and k of unit length;  g, β from a, b
    o, states[slot] = gated delta rule over the row from states[slot];  conv_columns[slot] ← last of window

Letters as in delta_decode. The rule runs 64 tokens at a time (see delta_rule.chunked).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import INDEX, check
from kernels.delta_decode import check_delta
from kernels.delta_rule import chunked, gates, heads


def reference(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    taps: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    conv_columns: Tensor,
    slots: Tensor,
    row_starts: Tensor,
) -> Tensor:
    value_heads, key_dim, value_dim = states.shape[1:]
    kept = len(taps) - 1
    g, beta = gates(a, b, a_log, dt_bias)
    out = states.new_empty(len(qkv), value_heads, value_dim)
    starts = row_starts.tolist()
    for slot, start, end in zip(slots.tolist(), starts[:-1], starts[1:], strict=True):
        window = torch.cat([conv_columns[slot], qkv[start:end]])
        conv_columns[slot] = window[-kept:]
        mixed = window[: end - start] * taps[0]
        for j in range(1, len(taps)):
            mixed.addcmul_(window[j : j + end - start], taps[j])
        q, k, v = heads(F.silu(mixed), value_heads, key_dim, value_dim)
        out[start:end], states[slot] = chunked(q, k, v, g[start:end], beta[start:end], states[slot])
    return out


def delta_prompt(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    taps: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    conv_columns: Tensor,
    slots: Tensor,
    row_starts: Tensor,
) -> Tensor:
    """Return o [N, Hv, Dv] float32; change the rows' slots of states and conv_columns, and no other slot.

    The arguments are those of delta_decode with N tokens for its R, and
    slots       [R]      int64; each row its own
    row_starts  [R + 1]  int64, from 0 to N
    """
    check_delta(qkv, a, b, taps, a_log, dt_bias, states, conv_columns)
    check("slots", slots, (slots.numel(),), INDEX)
    check("row_starts", row_starts, (slots.numel() + 1,), INDEX)
    return reference(qkv, a, b, taps, a_log, dt_bias, states, conv_columns, slots, row_starts)
