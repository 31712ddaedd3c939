"""Deferred state writes in torch: any number of tokens, in any order of slots, equals a write on every token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given as arbitrary
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.constants import RING
from kernels.delta_decode import delta_decode
from kernels.delta_inputs import DeltaInputs
from kernels.delta_ring import Ring, delta_ring, flush

SLOTS, KEY_HEADS, VALUE_HEADS, KEY, VALUE = 4, 2, 4, 8, 6
COLUMNS = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE

# What happens to the slots: tokens for some of them, or a checkpoint of some of them.
SOME = st.sets(st.integers(0, SLOTS - 1), min_size=1).map(sorted)
EVENTS = st.lists(st.tuples(st.sampled_from(["token"] * 5 + ["flush"]), SOME), max_size=40)


def poisoned() -> Ring:
    """Of two layers, the second of which the tests use."""
    ring = Ring.allocate(torch.empty(2, SLOTS, VALUE_HEADS, KEY, VALUE), KEY_HEADS)
    for pool in (ring.k, ring.e, ring.g):
        pool.fill_(torch.nan)
    return ring


def tokens(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """qkv, a and b."""
    return torch.randn(count, COLUMNS), torch.randn(count, VALUE_HEADS), torch.randn(count, VALUE_HEADS)


@settings(max_examples=40, deadline=None)
@arbitrary(EVENTS)
def test_ring_equals_plain_after_any_events(events: list[tuple[str, list[int]]]) -> None:
    torch.manual_seed(1)
    weights = torch.randn(4, COLUMNS), torch.randn(VALUE_HEADS), torch.randn(VALUE_HEADS)
    layers, conv_state = torch.zeros(2, SLOTS, VALUE_HEADS, KEY, VALUE), torch.randn(SLOTS, 3, COLUMNS)
    states = layers[1].normal_()
    plain_states, plain_conv_state = states.clone(), conv_state.clone()
    ring = poisoned()
    for kind, some in events:
        slots = torch.tensor(some)
        if kind == "token":
            inputs = DeltaInputs(*tokens(len(some)), *weights, states, conv_state)
            plain = inputs._replace(states=plain_states, conv_state=plain_conv_state)
            out = delta_ring(inputs, slots, ring.layer(1))
            torch.testing.assert_close(out, delta_decode(plain, slots), atol=1e-5, rtol=1e-5)
            ring.advance(slots)
        else:
            flush(layers, ring, slots)
            torch.testing.assert_close(states[slots], plain_states[slots], atol=1e-5, rtol=1e-5)
    flush(layers, ring, torch.arange(SLOTS))
    assert ring.pending.tolist() == [0] * SLOTS
    torch.testing.assert_close(states, plain_states, atol=1e-5, rtol=1e-5)
    assert torch.equal(conv_state, plain_conv_state)


def test_the_state_is_written_on_the_eighth_token_alone() -> None:
    states, conv_state = torch.randn(SLOTS, VALUE_HEADS, KEY, VALUE), torch.randn(SLOTS, 3, COLUMNS)
    ring, slots = poisoned(), torch.tensor([2])
    weights = torch.randn(4, COLUMNS), torch.randn(VALUE_HEADS), torch.randn(VALUE_HEADS)
    for n in range(2 * RING):
        before = states.clone()
        delta_ring(DeltaInputs(*tokens(1), *weights, states, conv_state), slots, ring.layer(1))
        ring.advance(slots)
        changed = (states != before).flatten(1).any(1).tolist()
        assert changed == [False, False, n % RING == RING - 1, False]


@pytest.mark.parametrize("name", ["k", "e", "g", "pending"])
def test_the_argument_that_does_not_fit_is_named(name: str) -> None:
    ring = poisoned()
    parts = {"k": ring.k, "e": ring.e, "g": ring.g, "pending": ring.pending}
    parts[name] = parts[name][1:]
    with pytest.raises(ValueError, match=rf"^ring\.{name}: "):
        flush(torch.zeros(2, SLOTS, VALUE_HEADS, KEY, VALUE), Ring(**parts), torch.tensor([1]))
