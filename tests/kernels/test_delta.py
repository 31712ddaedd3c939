"""The gated delta rule: chunks against single tokens, launchers against a float64 formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as arbitrary
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.delta_decode import delta_decode
from kernels.delta_inputs import DeltaInputs
from kernels.delta_prefill import delta_prefill
from kernels.delta_rule import chunked, recurrent

KEY_HEADS, VALUE_HEADS, KEY, VALUE, CONV_KERNEL = 2, 4, 8, 6, 4
COLUMNS = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE
SLOTS = 5


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def inputs_of(tokens: int) -> DeltaInputs:
    draw = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    merged = normal(tokens, COLUMNS + 2 * VALUE_HEADS)  # slices of wider rows, as the model gives them
    return DeltaInputs(
        qkv=merged[:, :COLUMNS],
        a=merged[:, COLUMNS : COLUMNS + VALUE_HEADS],
        b=merged[:, COLUMNS + VALUE_HEADS :],
        conv_weight=normal(CONV_KERNEL, COLUMNS),
        a_log=normal(VALUE_HEADS),
        dt_bias=normal(VALUE_HEADS),
        states=normal(SLOTS, VALUE_HEADS, KEY, VALUE),
        conv_state=normal(SLOTS, CONV_KERNEL - 1, COLUMNS),
    )


def copied(inputs: DeltaInputs) -> DeltaInputs:
    return DeltaInputs(*(x.clone() for x in inputs))


def formula(inputs: DeltaInputs, slot: int, start: int, end: int) -> tuple[np.ndarray, ...]:
    """(o, state, conv_state) of one row in float64."""
    x = {name: value.double().numpy() for name, value in inputs._asdict().items()}
    window = np.concatenate([x["conv_state"][slot], x["qkv"][start:end]])
    state, out = x["states"][slot].copy(), []
    for t in range(end - start):
        mixed = (window[t : t + CONV_KERNEL] * x["conv_weight"]).sum(0)
        mixed = mixed * sigmoid(mixed)
        q, k, v = np.split(mixed, [KEY_HEADS * KEY, 2 * KEY_HEADS * KEY])
        q, k = (np.repeat(y.reshape(KEY_HEADS, KEY), VALUE_HEADS // KEY_HEADS, 0) for y in (q, k))
        q, k = (y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-6) for y in (q, k))
        step = np.log1p(np.exp(x["a"][start + t] + x["dt_bias"]))
        state *= np.exp(-np.exp(x["a_log"]) * step)[:, None, None]
        error = v.reshape(VALUE_HEADS, VALUE) - np.einsum("hkv,hk->hv", state, k)
        state += np.einsum("hk,hv->hkv", k, sigmoid(x["b"][start + t])[:, None] * error)
        out.append(np.einsum("hkv,hk->hv", state, q) / np.sqrt(KEY))
    return np.array(out), state, window[-(CONV_KERNEL - 1) :]


def check_slots(inputs: DeltaInputs, before: DeltaInputs, expected: dict[int, tuple]) -> None:
    for slot in range(SLOTS):
        for name, index in (("states", 1), ("conv_state", 2)):
            now, then = getattr(inputs, name)[slot], getattr(before, name)[slot]
            if slot in expected:
                np.testing.assert_allclose(now, expected[slot][index], atol=1e-5)
            else:
                assert torch.equal(now, then), (name, slot)


def test_decode_equals_the_formula_and_leaves_other_slots() -> None:
    inputs, slots = inputs_of(3), [4, 1, 2]
    before = copied(inputs)
    out = delta_decode(inputs, torch.tensor(slots))
    expected = {slot: formula(before, slot, row, row + 1) for row, slot in enumerate(slots)}
    for row, slot in enumerate(slots):
        np.testing.assert_allclose(out[row : row + 1], expected[slot][0], atol=1e-5)
    check_slots(inputs, before, expected)


def test_prompt_equals_the_formula_at_chunk_borders_and_leaves_other_slots() -> None:
    lengths, slots = [2, 63, 64, 130], [3, 1, 4, 2]
    starts = np.cumsum([0, *lengths])
    inputs = inputs_of(int(starts[-1]))
    before = copied(inputs)
    out = delta_prefill(inputs, torch.tensor(slots), torch.tensor(starts))
    expected = {s: formula(before, s, starts[r], starts[r + 1]) for r, s in enumerate(slots)}
    for row, slot in enumerate(slots):
        np.testing.assert_allclose(out[starts[row] : starts[row + 1]], expected[slot][0], atol=1e-5)
    check_slots(inputs, before, expected)


def rule_inputs(length: int, seed: int) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, length, KEY_HEADS, KEY, generator=draw)
    k = k / k.norm(dim=-1, keepdim=True)
    v = torch.randn(length, VALUE_HEADS, VALUE, generator=draw)
    g = (
        -torch.rand(length, VALUE_HEADS, generator=draw).mul(3).exp()
    )  # down to e^-20: old state all but vanishes
    return q, k, v, g, torch.rand(length, VALUE_HEADS, generator=draw)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 130])
def test_chunks_equal_single_tokens_from_any_state(length: int) -> None:
    inputs, s = rule_inputs(length, length), torch.randn(VALUE_HEADS, KEY, VALUE)
    for ours, truth in zip(chunked(*inputs, s), recurrent(*inputs, s), strict=True):
        np.testing.assert_allclose(ours, truth, atol=1e-4)


@settings(max_examples=25, deadline=None)
@arbitrary(st.integers(2, 140), st.data())
def test_chunks_equal_single_tokens_at_every_split(length: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, length - 1))
    inputs, s = rule_inputs(length, 0), torch.zeros(VALUE_HEADS, KEY, VALUE)
    truth, end = recurrent(*inputs, s)
    first, s = chunked(*(x[:cut] for x in inputs), s)
    second, s = chunked(*(x[cut:] for x in inputs), s)
    np.testing.assert_allclose(torch.cat([first, second]), truth, atol=1e-4)
    np.testing.assert_allclose(s, end, atol=1e-4)


WRONG: dict[str, Any] = {
    "qkv": torch.zeros(3, COLUMNS + 1),
    "a": torch.zeros(3, VALUE_HEADS, dtype=torch.bfloat16),
    "b": torch.zeros(2, VALUE_HEADS),
    "conv_weight": torch.zeros(CONV_KERNEL, COLUMNS - 1),
    "a_log": torch.zeros(VALUE_HEADS, dtype=torch.bfloat16),
    "dt_bias": torch.zeros(1),
    "states": torch.zeros(SLOTS, VALUE_HEADS, VALUE, KEY).transpose(2, 3),
    "conv_state": torch.zeros(SLOTS, COLUMNS, CONV_KERNEL - 1),
    "state_slots": torch.zeros(3, dtype=torch.int32),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_argument_that_does_not_fit_is_named(name: str) -> None:
    inputs, state_slots = inputs_of(3), torch.tensor([1, 2, 3])
    if name == "state_slots":
        state_slots = WRONG[name]
    else:
        inputs = inputs._replace(**{name: WRONG[name]})
    with pytest.raises(ValueError, match=rf"^{name}: "):
        delta_decode(inputs, state_slots)
    with pytest.raises(ValueError, match=rf"^{name}: "):
        delta_prefill(inputs, state_slots, torch.tensor([0, 1, 2, 3]))


def test_prompt_names_cu_seqlens() -> None:
    with pytest.raises(ValueError, match=r"^cu_seqlens: "):
        delta_prefill(inputs_of(3), torch.tensor([1]), torch.tensor([0, 1, 3]))


def test_some_tokens_of_a_layer_share_its_weights_and_states() -> None:
    inputs = inputs_of(5)
    some = inputs.of_tokens(slice(1, 3))
    some.check()
    assert inputs.key_heads == KEY_HEADS
    for name in ("qkv", "a", "b"):
        assert torch.equal(getattr(some, name), getattr(inputs, name)[1:3])
    assert all(ours is theirs for ours, theirs in zip(some[3:], inputs[3:], strict=True))
