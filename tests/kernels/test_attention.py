"""Paged attention and its prologue against float64 formulas, among pages of NaN."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels import paged_decode_attention as decode
from kernels import paged_prefill_attention as prefill
from kernels.attention_prologue import attention_prologue
from kernels.constants import PAGE

KV_HEADS, HEADS, WIDTH = 2, 6, 8
SCALE = WIDTH**-0.5
CONTEXTS = [1, 63, 64, 65, 130]
# Padded to the longest, one by one, and of one length.
MIXED = [[63, 65, 130], [64, 40], [1, 2, 300], CONTEXTS, [70, 70]]


def pages_of(contexts: list[int]) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
    """(k pages, v pages, page table, keys, values): rows lie in scrambled pages, all else is NaN."""
    draw = torch.Generator().manual_seed(0)
    width = max(-(-length // PAGE) for length in contexts)
    count = 1 + sum(-(-length // PAGE) for length in contexts)
    free = (1 + torch.randperm(count - 1, generator=draw)).tolist()
    pools = [torch.full((count, PAGE, KV_HEADS, WIDTH), torch.nan) for _ in range(2)]
    table, kept = torch.zeros(len(contexts), width, dtype=torch.int64), ([], [])
    for row, length in enumerate(contexts):
        own = [free.pop() for _ in range(-(-length // PAGE))]
        table[row, : len(own)] = torch.tensor(own)
        for pool, rows in zip(pools, kept, strict=True):
            rows.append(torch.randn(length, KV_HEADS, WIDTH, generator=draw))
            for n, page in enumerate(own):
                part = rows[-1][n * PAGE : (n + 1) * PAGE]
                pool[page, : len(part)] = part
    return pools[0], pools[1], table, *kept


def formula(q: Tensor, k: Tensor, v: Tensor) -> np.ndarray:
    """Queries of the last positions of one row, [L, Nq, D], over keys and values [T, Nk, D], in float64."""
    q64, k64, v64 = (x.double().numpy() for x in (q, k, v))
    out = np.zeros_like(q64)
    for i in range(len(q64)):
        seen = len(k64) - len(q64) + i + 1
        for h in range(HEADS):
            own = h // (HEADS // KV_HEADS)
            weight = np.exp(k64[:seen, own] @ q64[i, h] * SCALE)
            out[i, h] = weight @ v64[:seen, own] / weight.sum()
    return out


@pytest.mark.parametrize("contexts", [[length] for length in CONTEXTS] + MIXED)
@pytest.mark.parametrize("way", [decode.paged_decode_attention, decode.reference])
def test_decode_equals_the_formula(contexts: list[int], way: Any) -> None:
    k_pages, v_pages, table, keys, values = pages_of(contexts)
    q = torch.randn(len(contexts), HEADS, WIDTH)
    out = way(q, k_pages, v_pages, table, torch.tensor(contexts), SCALE)
    for row in range(len(contexts)):
        expected = formula(q[row : row + 1], keys[row], values[row])
        np.testing.assert_allclose(out[row : row + 1], expected, atol=1e-5)


@pytest.mark.parametrize("cached", [0, 1, 64, 100])
@pytest.mark.parametrize("way", [prefill.paged_prefill_attention, prefill.reference])
def test_prompt_chunks_equal_the_formula(cached: int, way: Any) -> None:
    counts = CONTEXTS
    contexts = [cached + count for count in counts]
    k_pages, v_pages, table, keys, values = pages_of(contexts)
    q = torch.randn(sum(counts), HEADS, WIDTH)
    starts = torch.tensor([0, *np.cumsum(counts)])
    out = way(q, k_pages, v_pages, table, torch.tensor(contexts), starts, SCALE)
    for row, (start, end) in enumerate(itertools.pairwise(starts)):
        expected = formula(q[start:end], keys[row], values[row])
        np.testing.assert_allclose(out[start:end], expected, atol=1e-5)


def prologue_arguments(turned: int, gated: bool, normed: bool) -> dict[str, Any]:
    tokens = 5
    columns = (HEADS + 2 * KV_HEADS + (HEADS if gated else 0)) * WIDTH
    angles = torch.randn(tokens, turned // 2)
    return {
        "x": torch.randn(tokens, columns),
        "norms": (torch.randn(WIDTH), torch.randn(WIDTH)) if normed else None,
        "eps": 1e-6,
        "zero_centred": gated,
        "cos": torch.cat([angles.cos(), angles.cos()], -1),
        "sin": torch.cat([-angles.sin(), angles.sin()], -1),
        "k_pages": torch.full((3, PAGE, KV_HEADS, WIDTH), torch.nan),
        "v_pages": torch.full((3, PAGE, KV_HEADS, WIDTH), torch.nan),
        "slot_mapping": torch.tensor([64, 191, 65, 130, 127]),
        "heads": HEADS,
    }


@pytest.mark.parametrize(
    ("turned", "gated", "normed"), [(4, True, True), (8, False, True), (8, False, False)]
)
def test_prologue_norms_turns_and_writes_only_its_slots(turned: int, gated: bool, normed: bool) -> None:
    given = prologue_arguments(turned, gated, normed)
    q, gate = attention_prologue(**given)
    x = given["x"].double().unflatten(1, (-1, WIDTH)).numpy()
    heads = x[:, : HEADS + KV_HEADS].copy()
    if normed:
        heads /= np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6)
        q_norm, k_norm = (norm.double().numpy() + gated for norm in given["norms"])
        heads[:, :HEADS] *= q_norm
        heads[:, HEADS:] *= k_norm
    half = turned // 2
    cos, sin = (given[name][:, None, half:].double().numpy() for name in ("cos", "sin"))
    a, b = heads[..., :half].copy(), heads[..., half:turned].copy()
    heads[..., :half], heads[..., half:turned] = a * cos - b * sin, b * cos + a * sin
    np.testing.assert_allclose(q, heads[:, :HEADS], atol=1e-5)
    slot_mapping = given["slot_mapping"]
    k, v = (given[name].view(-1, KV_HEADS, WIDTH) for name in ("k_pages", "v_pages"))
    np.testing.assert_allclose(k[slot_mapping], heads[:, HEADS:], atol=1e-5)
    np.testing.assert_array_equal(v[slot_mapping], x[:, HEADS + KV_HEADS : HEADS + 2 * KV_HEADS])
    assert (
        int((~k.isnan()).any(-1).any(-1).sum())
        == int((~v.isnan()).any(-1).any(-1).sum())
        == len(slot_mapping)
    )
    if gated:
        np.testing.assert_array_equal(gate, x[:, HEADS + 2 * KV_HEADS :].reshape(len(x), -1))
    else:
        assert gate is None


WRONG_PROLOGUE = {
    "x": torch.zeros(5, 7),
    "cos": torch.zeros(4, 8),
    "sin": torch.zeros(5, 8, dtype=torch.float64),
    "q_norm": (torch.zeros(3), torch.zeros(8)),
    "k_norm": (torch.zeros(8), torch.zeros(3)),
    "v_pages": torch.zeros(3, PAGE, KV_HEADS, WIDTH + 1),
    "slot_mapping": torch.zeros(5, dtype=torch.int32),
}


@pytest.mark.parametrize("name", sorted(WRONG_PROLOGUE))
def test_prologue_names_the_argument_that_does_not_fit(name: str) -> None:
    given = prologue_arguments(8, False, True)
    given["norms" if name.endswith("norm") else name] = WRONG_PROLOGUE[name]
    with pytest.raises(ValueError, match=rf"^{name}: "):
        attention_prologue(**given)


WRONG_ATTENTION = {
    "q": torch.zeros(2, 5, WIDTH),
    "k_pages": torch.zeros(3, PAGE, KV_HEADS, WIDTH).transpose(0, 1),
    "v_pages": torch.zeros(3, PAGE, KV_HEADS, WIDTH, dtype=torch.bfloat16),
    "page_table": torch.zeros(2, dtype=torch.int64),
    "context_lengths": torch.zeros(3, dtype=torch.int64),
    "cu_seqlens": torch.zeros(2, dtype=torch.int64),
}


@pytest.mark.parametrize("name", sorted(WRONG_ATTENTION))
def test_attention_names_the_argument_that_does_not_fit(name: str) -> None:
    given = {
        "q": torch.zeros(2, HEADS, WIDTH),
        "k_pages": torch.zeros(3, PAGE, KV_HEADS, WIDTH),
        "v_pages": torch.zeros(3, PAGE, KV_HEADS, WIDTH),
        "page_table": torch.zeros(2, 1, dtype=torch.int64),
        "context_lengths": torch.ones(2, dtype=torch.int64),
        "scale": 1.0,
    } | {name: WRONG_ATTENTION[name]}
    with pytest.raises(ValueError, match=rf"^{name}: "):
        prefill.paged_prefill_attention(**{"cu_seqlens": torch.tensor([0, 1, 2]), **given})
    if name != "cu_seqlens":
        with pytest.raises(ValueError, match=rf"^{name}: "):
            decode.paged_decode_attention(**given)
