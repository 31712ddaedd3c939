"""Deferred state writes in torch: any number of tokens, in any order of slots, equals a write on every token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given as arbitrary
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.delta_decode import delta_decode
from kernels.delta_ring import RING, Ring, advance, delta_ring, flush

SLOTS, KEY_HEADS, VALUE_HEADS, KEY, VALUE = 4, 2, 4, 8, 6
COLUMNS = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE

# What happens to the slots: tokens for some of them, or a checkpoint of some of them.
SOME = st.sets(st.integers(0, SLOTS - 1), min_size=1).map(sorted)
EVENTS = st.lists(st.tuples(st.sampled_from(["token"] * 5 + ["flush"]), SOME), max_size=40)


def poisoned() -> Ring:
    ring = Ring.allocate(SLOTS, KEY_HEADS, VALUE_HEADS, KEY, VALUE, torch.device("cpu"))
    for pool in (ring.k, ring.e, ring.g):
        pool.fill_(torch.nan)
    return ring


def tokens(count: int) -> dict[str, Tensor]:
    return {"qkv": torch.randn(count, COLUMNS), **{x: torch.randn(count, VALUE_HEADS) for x in "ab"}}


@settings(max_examples=40, deadline=None)
@arbitrary(EVENTS)
def test_ring_equals_plain_after_any_events(events: list[tuple[str, list[int]]]) -> None:
    torch.manual_seed(1)
    layer = {
        "taps": torch.randn(4, COLUMNS),
        "a_log": torch.randn(VALUE_HEADS),
        "dt_bias": torch.randn(VALUE_HEADS),
    }
    states, columns = torch.randn(SLOTS, VALUE_HEADS, KEY, VALUE), torch.randn(SLOTS, 3, COLUMNS)
    plain = {"states": states.clone(), "conv_columns": columns.clone()}
    ring, pending = poisoned(), torch.zeros(SLOTS, dtype=torch.int64)
    for kind, some in events:
        slots = torch.tensor(some)
        if kind == "token":
            new = {**tokens(len(some)), **layer, "slots": slots}
            out = delta_ring(**new, states=states, conv_columns=columns, ring=ring, pending=pending)
            torch.testing.assert_close(out, delta_decode(**new, **plain), atol=1e-5, rtol=1e-5)
            advance(pending, slots)
        else:
            flush(states, ring, slots, pending)
            pending[slots] = 0
            torch.testing.assert_close(states[slots], plain["states"][slots], atol=1e-5, rtol=1e-5)
    flush(states, ring, torch.arange(SLOTS), pending)
    torch.testing.assert_close(states, plain["states"], atol=1e-5, rtol=1e-5)
    assert torch.equal(columns, plain["conv_columns"])


def test_the_state_is_written_on_the_eighth_token_alone() -> None:
    states, columns = torch.randn(SLOTS, VALUE_HEADS, KEY, VALUE), torch.randn(SLOTS, 3, COLUMNS)
    ring, pending, slots = poisoned(), torch.zeros(SLOTS, dtype=torch.int64), torch.tensor([2])
    layer = (torch.randn(4, COLUMNS), torch.randn(VALUE_HEADS), torch.randn(VALUE_HEADS))
    for n in range(2 * RING):
        before = states.clone()
        delta_ring(*tokens(1).values(), *layer, states, columns, slots, ring, pending)
        advance(pending, slots)
        changed = (states != before).flatten(1).any(1).tolist()
        assert changed == [False, False, n % RING == RING - 1, False]


@pytest.mark.parametrize("name", ["k", "e", "g", "pending"])
def test_the_argument_that_does_not_fit_is_named(name: str) -> None:
    ring, pending = poisoned(), torch.zeros(SLOTS, dtype=torch.int64)
    parts = {"k": ring.k, "e": ring.e, "g": ring.g}
    if name == "pending":
        pending = pending[1:]
    else:
        parts[name] = parts[name][1:]
    states = torch.zeros(SLOTS, VALUE_HEADS, KEY, VALUE)
    with pytest.raises(ValueError, match=rf"^(ring\.)?{name}: "):
        flush(states, Ring(**parts), torch.tensor([1]), pending)
