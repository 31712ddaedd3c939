"""Paged attention against float64, among pages of NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels import paged_decode_attention as decode
from kernels import paged_prefill_attention as prefill
from kernels.constants import PAGE

CONTEXTS = [1, 63, 64, 65, 130]
# Query heads, key heads, width: every width, and 4:1, 7:1, 6:1, 1:1 queries a key.
SHAPES = [(8, 2, 64), (7, 1, 64), (2, 2, 64), (6, 1, 128), (4, 1, 256)]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def pages_of(
    contexts: list[int], kv_heads: int, width: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
    """(k pages, v pages, page table, keys, values): rows lie in scrambled pages, all else is NaN.

    The page table is a slice of a wider one, and beyond a row's pages it points far outside.
    """
    counts = [-(-length // PAGE) for length in contexts]
    free = (1 + torch.randperm(sum(counts))).tolist()
    pools = [torch.full((1 + sum(counts), PAGE, kv_heads, width), torch.nan, dtype=dtype) for _ in range(2)]
    table = torch.full((len(contexts), max(counts) + 1), 10**12)
    kept: tuple[list[Tensor], list[Tensor]] = ([], [])
    for row, (length, count) in enumerate(zip(contexts, counts, strict=True)):
        own = [free.pop() for _ in range(count)]
        table[row, :count] = torch.tensor(own, dtype=torch.int64)
        for pool, rows in zip(pools, kept, strict=True):
            rows.append(torch.randn(length, kv_heads, width).to(dtype))
            for n, page in enumerate(own):
                part = rows[-1][n * PAGE : (n + 1) * PAGE]
                pool[page, : len(part)] = part
    return pools[0], pools[1], table[:, : max(counts)], *kept


def formula(q: Tensor, k: Tensor, v: Tensor) -> np.ndarray:
    """Queries of the last positions of one row, [L, Nq, D], over keys and values [T, Nk, D], in float64."""
    q64, k64, v64 = (x.double() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k64, v64 = (x.repeat_interleave(group, dim=1) for x in (k64, v64))
    scores = torch.einsum("lhd,thd->hlt", q64, k64) * q.shape[2] ** -0.5
    seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
    weight = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hlt,thd->lhd", weight, v64).numpy()


def decode_case(contexts: list[int], shape: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> None:
    heads, kv_heads, width = shape
    k_pages, v_pages, table, keys, values = pages_of(contexts, kv_heads, width, dtype)
    q = torch.randn(len(contexts), heads, width).to(dtype)
    given = (q, k_pages, v_pages, table, torch.tensor(contexts), width**-0.5)
    out = decode.paged_decode_attention(*given)
    tolerance = TOLERANCE[dtype]
    for row in range(len(contexts)):
        expected = formula(q[row : row + 1], keys[row], values[row])
        np.testing.assert_allclose(out[row : row + 1].double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_decode_equals_the_formula_at_page_boundaries(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        decode, "MOST_SPLITS", 4
    )  # more than a row of three pages fills, fewer than would take long
    decode_case(CONTEXTS, shape)


@pytest.mark.parametrize("context", CONTEXTS)
def test_decode_of_a_single_row(context: int) -> None:
    decode_case([context], SHAPES[0])


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_decode_is_the_same_however_it_is_split(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "FEWEST_SPLITS", splits)
    monkeypatch.setattr(decode, "MOST_SPLITS", splits)
    decode_case([300, 1, 129], (4, 2, 64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_decode_in_half_precision(dtype: torch.dtype) -> None:
    decode_case([65, 130], (4, 1, 64), dtype)


def test_decode_equals_the_torch_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MOST_SPLITS", 2)
    k_pages, v_pages, table, _, _ = pages_of(CONTEXTS, 2, 64)
    table = table.clamp(max=len(k_pages) - 1)  # torch gathers the whole table
    given = (torch.randn(len(CONTEXTS), 6, 64), k_pages, v_pages, table, torch.tensor(CONTEXTS), 0.2)
    torch.testing.assert_close(
        decode.paged_decode_attention(*given), decode.gathered(*given), rtol=0, atol=1e-5
    )


def test_decode_of_no_rows_and_of_rows_without_tokens() -> None:
    k_pages, v_pages, table, _, _ = pages_of([1, 1], 2, 64)
    none = torch.zeros(2, dtype=torch.int64)
    q = torch.randn(2, 4, 64)
    assert decode.paged_decode_attention(q[:0], k_pages, v_pages, table[:0], none[:0], 1.0).shape == (
        0,
        4,
        64,
    )
    assert not decode.paged_decode_attention(q, k_pages, v_pages, table, none, 1.0).any()


def test_splits_depend_on_the_bucket_and_are_powers_of_2() -> None:
    of_9b = {rows: decode.splits_of(rows, 4) for rows in (1, 2, 4, 8, 12, 16, 32, 64, 128, 256)}
    assert of_9b == {1: 32, 2: 32, 4: 32, 8: 16, 12: 8, 16: 8, 32: 4, 64: 2, 128: 2, 256: 2}
    assert {decode.splits_of(rows, heads) for rows in range(1, 300) for heads in range(1, 33)} == {
        2,
        4,
        8,
        16,
        32,
    }


def prompt_case(
    cached: list[int], counts: list[int], shape: tuple[int, int, int], dtype: torch.dtype = torch.float32
) -> None:
    heads, kv_heads, width = shape
    contexts = [before + count for before, count in zip(cached, counts, strict=True)]
    k_pages, v_pages, table, keys, values = pages_of(contexts, kv_heads, width, dtype)
    q = torch.randn(sum(counts), heads, width).to(dtype)
    starts = torch.tensor([0, *np.cumsum(counts)])
    given = (k_pages, v_pages, table, torch.tensor(contexts), starts, width**-0.5)
    out = prefill.paged_prefill_attention(q, *given)
    tolerance = TOLERANCE[dtype]
    for row, (start, end) in enumerate(itertools.pairwise(starts.tolist())):
        expected = formula(q[start:end], keys[row], values[row])
        np.testing.assert_allclose(out[start:end].double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cached", [0, 1, 64, 100])
def test_prompt_chunks_equal_the_formula(cached: int) -> None:
    prompt_case([cached] * len(CONTEXTS), CONTEXTS, (4, 1, 64))


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_prompt_chunks_of_every_shape(shape: tuple[int, int, int]) -> None:
    prompt_case([63, 0, 65], [2, 65, 1], shape)


@pytest.mark.parametrize("queries", [16, 64])
def test_prompt_chunks_in_the_tiles_of_other_cards(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prefill.TILES, 64, (queries, 32, 2, 4))
    prompt_case([0, 100], [65, 31], (7, 1, 64))


def test_prompt_rows_beyond_those_looked_at_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "ROWS_AT_ONCE", 2)
    prompt_case([0, 5, 0, 64, 1], [33, 1, 40, 64, 2], (4, 1, 64))


def test_prompt_rows_without_tokens_are_passed_over() -> None:
    prompt_case([3, 0, 7], [0, 40, 0], (4, 1, 64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_prompt_chunks_in_half_precision(dtype: torch.dtype) -> None:
    prompt_case([0, 64], [65, 3], (4, 1, 64), dtype)


def test_prompt_equals_the_torch_launcher() -> None:
    counts, contexts = [65, 3], [65, 67]
    k_pages, v_pages, table, _, _ = pages_of(contexts, 2, 64)
    starts = torch.tensor([0, *np.cumsum(counts)])
    given = (torch.randn(68, 6, 64), k_pages, v_pages, table, torch.tensor(contexts), starts, 0.2)
    torch.testing.assert_close(
        prefill.paged_prefill_attention(*given), prefill.folded(*given), rtol=0, atol=1e-5
    )


def test_prompt_of_no_tokens() -> None:
    k_pages, v_pages, table, _, _ = pages_of([1], 2, 64)
    q, lengths, starts = (
        torch.zeros(0, 4, 64),
        torch.ones(1, dtype=torch.int64),
        torch.zeros(2, dtype=torch.int64),
    )
    assert prefill.paged_prefill_attention(q, k_pages, v_pages, table, lengths, starts, 1.0).shape == (
        0,
        4,
        64,
    )
