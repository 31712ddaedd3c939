"""The delta kernels against the recurrence in float64, one token at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels import copy_slots, delta_decode, delta_prefill, delta_ring
from kernels.delta_inputs import DeltaInputs
from kernels.delta_rule import operand
from kernels.device import jit, tl

CONV_KERNEL, SLOTS = 4, 6


def inputs_of(
    tokens: int, key_heads: int, ratio: int, key: int, value: int, dtype: torch.dtype = torch.float32
) -> DeltaInputs:
    draw = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    heads = key_heads * ratio
    columns = 2 * key_heads * key + heads * value
    merged = normal(tokens, columns + 3 + 2 * heads).to(
        dtype
    )  # slices of wider rows, as the model gives them
    return DeltaInputs(
        qkv=merged[:, :columns],
        a=merged[:, columns + 3 : columns + 3 + heads],
        b=merged[:, columns + 3 + heads :],
        conv_weight=normal(CONV_KERNEL, columns),
        a_log=normal(heads),
        dt_bias=normal(heads),
        states=normal(SLOTS, heads, key, value),
        conv_state=normal(SLOTS, CONV_KERNEL - 1, columns).to(dtype),
    )


def copied(inputs: DeltaInputs) -> DeltaInputs:
    return inputs._replace(states=inputs.states.clone(), conv_state=inputs.conv_state.clone())


def formula(inputs: DeltaInputs, slot: int, start: int, end: int) -> tuple[np.ndarray, ...]:
    """(o, state, conv_state) of one row in float64."""
    x = {name: value.double().numpy() for name, value in inputs._asdict().items()}
    _, heads, key, value = x["states"].shape
    keys = (x["qkv"].shape[1] - heads * value) // 2
    ratio = heads * key // keys
    window = np.concatenate([x["conv_state"][slot], x["qkv"][start:end]])
    state, out = x["states"][slot].copy(), np.empty((end - start, heads, value))
    for t in range(end - start):
        mixed = (window[t : t + CONV_KERNEL] * x["conv_weight"]).sum(0)
        mixed = mixed / (1 + np.exp(-mixed))
        q, k, v = np.split(mixed, [keys, 2 * keys])
        q, k = (np.repeat(y.reshape(-1, key), ratio, 0) for y in (q, k))
        q, k = (y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-6) for y in (q, k))
        decay = -np.exp(x["a_log"]) * np.log1p(np.exp(x["a"][start + t] + x["dt_bias"]))
        state *= np.exp(decay)[:, None, None]
        beta = 1 / (1 + np.exp(-x["b"][start + t]))
        error = beta[:, None] * (v.reshape(heads, value) - np.einsum("hkv,hk->hv", state, k))
        state += np.einsum("hk,hv->hkv", k, error)
        out[t] = np.einsum("hkv,hk->hv", state, q) / np.sqrt(key)
    return out, state, window[-(CONV_KERNEL - 1) :]


def compare(
    inputs: DeltaInputs, before: DeltaInputs, rows: dict[int, tuple[int, int]], out: Tensor, atol: float
) -> None:
    """Rows as slot: (start, end) hold what the formula says; other slots hold what they held."""
    for slot in range(SLOTS):
        if slot not in rows:
            assert torch.equal(inputs.states[slot], before.states[slot]), slot
            assert torch.equal(inputs.conv_state[slot], before.conv_state[slot]), slot
            continue
        o, state, conv_state = formula(before, slot, *rows[slot])
        np.testing.assert_allclose(out[slice(*rows[slot])].double().numpy(), o, atol=atol)
        np.testing.assert_allclose(inputs.states[slot].double().numpy(), state, atol=atol)
        np.testing.assert_array_equal(inputs.conv_state[slot].double().numpy(), conv_state)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((2, 2, 128, 128), torch.bfloat16),  # the 9B's heads, a few of them
        ((1, 3, 128, 128), torch.float32),  # the 27B's
        ((2, 1, 64, 64), torch.bfloat16),  # the demo model's
        ((2, 2, 16, 32), torch.float16),
    ],
)
def test_decode_equals_the_formula(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    slots = [4, 1, 2]
    inputs = inputs_of(3, *sizes, dtype)
    before, torch_way = copied(inputs), copied(inputs)
    out = delta_decode.delta_decode(inputs, torch.tensor(slots))
    compare(inputs, before, {slot: (row, row + 1) for row, slot in enumerate(slots)}, out, 5e-6)
    expected = delta_decode.reference(torch_way, torch.tensor(slots))
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=1e-5)


def test_an_empty_batch_changes_nothing() -> None:
    inputs = inputs_of(0, 2, 2, 16, 16)
    before, none = copied(inputs), torch.empty(0, dtype=torch.int64)
    assert delta_decode.delta_decode(inputs, none).shape == (0, 4, 16)
    assert delta_prefill.delta_prefill(inputs, none, torch.zeros(1, dtype=torch.int64)).shape[0] == 0
    compare(inputs, before, {}, torch.empty(0), 0)


@pytest.mark.parametrize(
    ("lengths", "sizes", "dtype"),
    [
        ([1, 63, 64, 65, 130], (1, 1, 16, 32), torch.float32),
        ([0, 3, 0, 40, 2], (1, 2, 16, 16), torch.bfloat16),  # empty rows, and shorter than the conv_weight
        ([70], (1, 1, 128, 128), torch.bfloat16),
        ([5], (1, 1, 64, 64), torch.float16),
    ],
)
def test_prompt_equals_the_formula_at_chunk_borders(
    lengths: list[int], sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    slots = [3, 1, 4, 2, 5][: len(lengths)]
    starts = np.cumsum([0, *lengths])
    inputs = inputs_of(int(starts[-1]), *sizes, dtype)
    before = copied(inputs)
    out = delta_prefill.delta_prefill(inputs, torch.tensor(slots), torch.tensor(starts))
    compare(inputs, before, {s: (starts[r], starts[r + 1]) for r, s in enumerate(slots)}, out, 1e-5)


def test_prompt_in_two_chunks_equals_the_whole() -> None:
    inputs, slot = inputs_of(66, 1, 1, 16, 16), torch.tensor([2])
    once = copied(inputs)
    whole = delta_prefill.delta_prefill(once, slot, torch.tensor([0, 66]))
    parts = []
    for start, end in ((0, 31), (31, 66)):
        cut = inputs.of_tokens(slice(start, end))
        parts.append(delta_prefill.delta_prefill(cut, slot, torch.tensor([0, end - start])))
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(inputs.states, once.states, atol=1e-5, rtol=0)


def test_the_solve_holds_where_one_token_repeats_without_decay() -> None:
    inputs = inputs_of(130, 1, 1, 16, 16)
    inputs = inputs._replace(
        qkv=inputs.qkv[:1].expand(130, -1).contiguous(),
        a=torch.full((130, 1), -30.0),  # α = 1
        b=torch.full((130, 1), 12.0),  # β = 1
    )
    before = copied(inputs)
    out = delta_prefill.delta_prefill(inputs, torch.tensor([3]), torch.tensor([0, 130]))
    compare(inputs, before, {3: (0, 130)}, out, 1e-5)


@pytest.mark.parametrize("sizes", [(1, 2, 16, 64), (2, 1, 32, 16)])
def test_the_ring_equals_single_writes_at_every_phase(sizes: tuple[int, ...]) -> None:
    key_heads, ratio, key, value = sizes
    inputs = inputs_of(1, *sizes)
    plain, torch_way = copied(inputs), copied(inputs)
    heads = key_heads * ratio
    layers = torch.empty(2, SLOTS, heads, key, value)
    ring, twin = (delta_ring.Ring.allocate(layers, key_heads) for _ in range(2))
    for pool in (ring.k, ring.e, ring.g):
        pool.fill_(torch.nan)  # entries that were not written must not be read
    untouched = inputs.states[0].clone()
    for step in range(12):
        slots = torch.tensor([[5, 2], [2, 4, 1], [3, 2]][step % 3])
        new = inputs_of(len(slots), *sizes)
        columns = {name: getattr(new, name).contiguous() + step * 0.1 for name in ("qkv", "a", "b")}
        ours, theirs, twins = (x._replace(**columns) for x in (inputs, plain, torch_way))
        out = delta_ring.delta_ring(ours, slots, ring.layer(1))
        torch.testing.assert_close(out, delta_decode.reference(theirs, slots), atol=5e-6, rtol=1e-5)
        twin_out = delta_ring.reference(twins, slots, twin.layer(1))
        torch.testing.assert_close(out, twin_out, atol=5e-6, rtol=1e-5)
        ring.advance(slots)
        twin.advance(slots)
    assert ring.pending.tolist() == [0, 4, 12 % 8, 4, 4, 4]
    torch.testing.assert_close(inputs.conv_state, plain.conv_state, atol=0, rtol=0)
    ring.k[0], ring.e[0], ring.g[0] = ring.k[1], ring.e[1], ring.g[1]
    layers[:] = inputs.states
    half = torch.tensor([2, 4])
    delta_ring.flush(layers, ring, half)
    assert ring.pending.tolist() == [0, 4, 0, 4, 0, 4]
    for states in layers:
        torch.testing.assert_close(states[half], plain.states[half], atol=1e-5, rtol=1e-5)
    delta_ring.flush(layers, ring, torch.tensor([0, 1, 3, 5]))
    for states in layers:
        torch.testing.assert_close(states, plain.states, atol=1e-5, rtol=1e-5)
        assert torch.equal(states[0], untouched)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2, 7, 3, 1), torch.bfloat16), ((3, 7, 2, 65, 64), torch.float32), ((1, 7, 4096), torch.float16)],
)
def test_slots_are_copied_in_every_layer(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Bit for bit, and nothing beside them: one slot is copied onto itself, one to two others."""
    pool = torch.randn(shape).to(dtype)
    twin = pool.clone()
    pairs = torch.tensor([[1, 5], [1, 2], [0, 0], [6, 3]])
    copy_slots.copy_slots(pool, pairs)
    copy_slots.reference(twin, pairs)
    assert torch.equal(pool, twin)
    assert torch.equal(pool[:, 5], pool[:, 2]) and not torch.equal(pool[:, 4], pool[:, 2])


@jit()
def operand_kernel(x, y, N: tl.constexpr, PRECISION: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(y + n, operand(tl.load(x + n), PRECISION))


def test_operands_of_tf32_are_rounded_to_its_11_bits_and_others_left() -> None:
    """Half way from 1 to the next of tf32, 1 + 2⁻¹⁰, goes away from zero; a bit less goes back."""
    step, bit = 2.0**-10, 2.0**-23
    given = [1.0, 1 + step / 2 - bit, 1 + step / 2, 1 + step - bit, 2 - bit, 3e-30, 0.0, math.inf]
    wanted = [1.0, 1.0, 1 + step, 1 + step, 2.0, None, 0.0, math.inf]
    x = torch.tensor([*given, *(-value for value in given)])
    rounded, left = torch.empty_like(x), torch.empty_like(x)
    for y, precision in ((rounded, "tf32"), (left, "ieee")):
        operand_kernel[(1,)](x, y, N=len(x), PRECISION=precision)
    assert torch.equal(left, x)
    assert (rounded.view(torch.int32) & 0x1FFF == 0).all()
    assert torch.equal(rounded[len(given) :], -rounded[: len(given)])
    for value, expected in zip(rounded.tolist(), wanted, strict=False):
        assert value == (pytest.approx(3e-30, rel=2.0**-11) if expected is None else expected)
