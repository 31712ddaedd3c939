"""A gated delta layer between its projections, for one new token a row.

    window = [conv_columns[slot] ; qkv];  mixed[c] = silu(Σ_j taps[j, c] · window[j, c]);  keep window[1:]
    q, k, v = split(mixed), q and k of unit length;  g, β from a, b
    S = states[slot];  one step of the gated delta rule (see delta_rule);  states[slot] ← S

R rows, C = 2·Hk·Dk + Hv·Dv columns, K taps. States are float32 and change in place.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOAT32, FLOATS, INDEX, check, check_rank
from kernels.delta_rule import gates, heads


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
) -> Tensor:
    value_heads, key_dim, value_dim = states.shape[1:]
    window = torch.cat([conv_columns.index_select(0, slots), qkv[:, None]], dim=1)
    conv_columns.index_copy_(0, slots, window[:, 1:])
    mixed = F.silu((window * taps).sum(dim=1))
    q, k, v = heads(mixed, value_heads, key_dim, value_dim)
    g, beta = gates(a, b, a_log, dt_bias)
    # [R, Hk, Hv / Hk, Dk, Dv]: the value heads of one key head stand side by side.
    s = states.index_select(0, slots).unflatten(1, (k.shape[1], -1))
    q, k = (x[:, :, None, None] for x in (q, k))
    v, alpha, beta = (x.view(*s.shape[:3], 1, -1) for x in (v, g.exp(), beta))
    s *= alpha
    e = (v - k @ s) * beta
    s.addcmul_(k.transpose(-1, -2), e)
    states.index_copy_(0, slots, s.flatten(1, 2))
    return (q @ s).view(-1, value_heads, value_dim)


def delta_decode(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    taps: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    conv_columns: Tensor,
    slots: Tensor,
) -> Tensor:
    """Return o [R, Hv, Dv] float32; change the rows' slots of states and conv_columns, and no other slot.

    qkv            [R, C]                float32, bfloat16 or float16; may be a slice of wider rows
    a, b           [R, Hv]               the same
    taps           [K, C]                float32, the newest token's last
    a_log, dt_bias [Hv]                  float32
    states         [slots, Hv, Dk, Dv]   float32, contiguous
    conv_columns   [slots, K − 1, C]     the type of qkv, contiguous, oldest first
    slots          [R]                   int64; each row its own, but for the scratch slot
    """
    check_delta(qkv, a, b, taps, a_log, dt_bias, states, conv_columns)
    check("slots", slots, (qkv.shape[0],), INDEX)
    return reference(qkv, a, b, taps, a_log, dt_bias, states, conv_columns, slots)


def check_delta(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    taps: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    conv_columns: Tensor,
) -> None:
    """What decode and prompt ask of the tensors they share."""
    check_rank("states", states, "SHKV")
    check_rank("taps", taps, "KC")
    check_rank("qkv", qkv, "NC")
    value_heads, key_dim, value_dim = states.shape[1:]
    kernel, columns = taps.shape
    keys = columns - value_heads * value_dim
    if keys <= 0 or keys % (2 * key_dim) or value_heads % (keys // (2 * key_dim)):
        raise ValueError(f"taps: {columns} columns do not hold q, k and v of {states.shape[1:]}")
    check("taps", taps, taps.shape, FLOAT32)
    check("states", states, states.shape, FLOAT32)
    check("qkv", qkv, (qkv.shape[0], columns), FLOATS, strided=True)
    for name, gate in (("a", a), ("b", b)):
        check(name, gate, (qkv.shape[0], value_heads), (qkv.dtype,), strided=True)
    check("a_log", a_log, (value_heads,), FLOAT32)
    check("dt_bias", dt_bias, (value_heads,), FLOAT32)
    check("conv_columns", conv_columns, (states.shape[0], kernel - 1, columns), (qkv.dtype,))
