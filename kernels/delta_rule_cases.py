"""Calls of the delta launchers with meta tensors, in the shapes of a model: what kernels.aot compiles ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from kernels.copy_slots import copy_slots
from kernels.delta_decode import delta_decode
from kernels.delta_inputs import DeltaInputs
from kernels.delta_prefill import delta_prefill
from kernels.delta_ring import Ring, delta_ring, flush

CONV_KERNEL, SLOTS, LAYERS = 4, 5, 2

Case = tuple[str, Callable[[], Any]]


def delta_cases(
    key_heads: int, value_heads: int, width: int = 128, dtype: torch.dtype = torch.bfloat16
) -> Iterator[Case]:
    """(op, call) of every delta launcher; each has one form a model, whatever the rows and tokens."""
    empty = partial(torch.empty, device="meta", dtype=dtype)
    single = partial(torch.empty, device="meta", dtype=torch.float32)
    whole = partial(torch.empty, device="meta", dtype=torch.int64)
    values = value_heads * width
    columns = 2 * key_heads * width + values
    rows, tokens = 3, 130

    def inputs(count: int) -> DeltaInputs:
        merged = empty(count, columns + values + 2 * value_heads)  # qkv, z, b, a of one projection
        b, a = merged[:, columns + values :].split(value_heads, 1)
        gates = single(value_heads), single(value_heads)
        pools = single(SLOTS, value_heads, width, width), empty(SLOTS, CONV_KERNEL - 1, columns)
        return DeltaInputs(merged[:, :columns], a, b, single(CONV_KERNEL, columns), *gates, *pools)

    state_slots, starts = whole(rows), whole(rows + 1)
    yield "delta_decode", partial(delta_decode, inputs(rows), state_slots)
    yield "delta_prefill", partial(delta_prefill, inputs(tokens), state_slots, starts)
    states = single(LAYERS, SLOTS, value_heads, width, width)
    ring = Ring.allocate(states, key_heads)
    yield "delta_ring", partial(delta_ring, inputs(rows), state_slots, ring.layer(0))
    yield "copy_slots", partial(copy_slots, states, whole(3, 2))
    yield "copy_slots", partial(copy_slots, empty(LAYERS, SLOTS, CONV_KERNEL - 1, columns), whole(3, 2))
    yield "delta_ring.flush", partial(flush, states, ring, state_slots)
