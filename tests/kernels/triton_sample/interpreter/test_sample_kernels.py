"""The sampler's kernels against the torch references, which test_sample and test_logits hold against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels import logprobs, mask_logits, min_p, penalties, sample
from kernels.sample_draw import CANDIDATES

ROUNDING = 2e-6  # of a row's sum: how far a sum in another order may lie


def settings(logits: Tensor, vocabulary: int | None = None, **changes: Any) -> tuple[Any, ...]:
    rows = len(logits)
    kinds = {"temperature": torch.float32, "top_k": torch.int64, "top_p": torch.float32, "seeds": torch.int64}
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seeds": 7} | changes
    made = [torch.as_tensor(given[n], dtype=kind).expand(rows).contiguous() for n, kind in kinds.items()]
    return logits, *made, torch.arange(rows) + 3, vocabulary or logits.shape[1]


def kept(logits: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[np.ndarray, np.ndarray]:
    """(ids that may be chosen, where each one's interval of u ends), in float64."""
    x = logits.double().numpy()
    weight = np.exp((x - x.max()) / temperature)
    ranked = np.lexsort((np.arange(len(weight)), -weight))[: top_k or None]
    share = np.cumsum(weight[ranked]) / weight[ranked].sum()
    ids = np.sort(ranked[: int((share < top_p).sum()) + 1])
    return ids, np.cumsum(weight[ids]) / weight[ids].sum()


def agree(given: tuple[Any, ...]) -> None:
    """The kernel takes the reference's token; or u lies within rounding of the border between the two."""
    ours, theirs = sample.sample(*given), sample.reference(*given)
    for row in (ours != theirs).nonzero().flatten().tolist():
        logits, temperature, k, p, seeds, positions, vocabulary = given
        ids, ends = kept(logits[row, :vocabulary], float(temperature[row]), int(k[row]), float(p[row]))
        near = np.searchsorted(ids, sorted((int(ours[row]), int(theirs[row]))))
        u = float(sample.uniforms(seeds, positions)[row])
        assert near[1] - near[0] == 1 and abs(ends[near[0]] - u) < ROUNDING, (row, ours[row], theirs[row])


def test_uniforms_are_those_of_torch() -> None:
    # Over equal logits the token is u itself, to one part in V.
    rows = torch.zeros(40, 1000)
    seeds = torch.randint(-(1 << 63), (1 << 63) - 1, (40,))
    given = settings(rows, seeds=seeds)
    expected = (sample.uniforms(seeds, given[5]).double() * 1000).floor().long()
    assert torch.equal(sample.sample(*given), expected)


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        (30, {"temperature": 0.0}),
        (30, {}),
        (5, {"top_k": 20}),
        (3, {"top_k": 20, "top_p": 0.8, "temperature": 0.6}),
        (2, {"top_p": 0.95}),
        (2, {"top_k": 1}),
        (2, {"top_p": 1e-6}),
        (2, {"temperature": 1e-6, "top_k": 5}),
    ],
)
def test_the_token_is_the_references(rows: int, changes: dict[str, Any]) -> None:
    agree(settings(torch.randn(rows, 9001) * 3, vocabulary=8990, **changes))


@pytest.mark.parametrize("changes", [{"top_p": 0.9}, {"top_k": 3000, "top_p": 0.5}])
def test_settings_that_candidates_do_not_hold_are_exact_too(changes: dict[str, Any]) -> None:
    agree(settings(torch.randn(1, 4100) * 0.01, **changes))  # flat: more ids are kept than registers hold


def test_equals_beyond_the_candidates_rank_by_id() -> None:
    logits = torch.zeros(1, 2 * CANDIDATES + 3)
    assert set(sample.sample(*settings(logits, top_k=3)).tolist()) <= {0, 1, 2}
    agree(settings(logits, top_p=0.25))


def test_greedy_takes_the_first_of_equals_and_padding_is_never_chosen() -> None:
    logits = torch.zeros(3, 9000)
    logits[0, [4500, 8000]] = 5.0
    logits[:, 8990:] = 50.0
    assert sample.sample(*settings(logits, vocabulary=8990, temperature=0.0)).tolist() == [4500, 0, 0]
    assert int(sample.sample(*settings(logits, vocabulary=8990)).max()) < 8990


@pytest.mark.parametrize("changes", [{}, {"top_k": 20, "top_p": 0.9}, {"temperature": 0.0}])
def test_only_what_a_mask_left_is_chosen(changes: dict[str, Any]) -> None:
    logits = torch.full((5, 5000), -torch.inf)
    logits[:, [7, 4999]] = 1.0
    assert set(sample.sample(*settings(logits, **changes)).tolist()) <= {7, 4999}


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(6, 2000) * 2
    mixed = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 1.3, 1.0, 1.0]),
        "top_k": torch.tensor([0, 20, 0, 5, 0, 1]),
        "top_p": torch.tensor([1.0, 0.9, 0.3, 1.0, 1.0, 1.0]),
        "seeds": torch.arange(6),
    }
    given = settings(logits, **mixed)
    agree(given)
    together = sample.sample(*given)
    for row in (1, 4):
        own = [x[row : row + 1] if isinstance(x, Tensor) else x for x in given]
        assert sample.sample(*own).item() == together[row]


def test_an_empty_batch_has_no_tokens() -> None:
    assert sample.sample(*settings(torch.empty(0, 300))).shape == (0,)


@pytest.mark.parametrize("n", [0, 1, 20])
def test_logprobs_are_those_of_the_reference(n: int) -> None:
    logits, ids = torch.randn(4, 8995) * 3, torch.tensor([0, 5000, 8989, 17])
    logits[1] = logits[1].round()  # many equals
    logits[2, 40:] = -torch.inf
    ours, theirs = (run(logits, ids, n, 8990) for run in (logprobs.logprobs, logprobs.reference))
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, atol=5e-6, rtol=0)


@pytest.mark.parametrize("width", [77, 4096, 9001])
def test_what_changes_logits_equals_torch(width: int) -> None:
    logits = torch.randn(4, width)
    rows, words = torch.tensor([3, -1, 0]), -(-width // 32)
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (3, words)).to(torch.int32)
    pairs = torch.tensor([[0, 0, 3, -1, 2], [5, 6, width - 1, 0, 70]])
    counts, strength = torch.tensor([2, 0, 1, 9, 3]), torch.rand(3, 4) + 0.5
    temperature, share = torch.tensor([1.0, 0.6, 0.0, 1.0]), torch.tensor([0.1, 0.3, 0.5, 0.0])
    steps = [
        (mask_logits.mask_logits, mask_logits.reference, (rows, bits)),
        (penalties.penalise, penalties.reference, (*pairs, counts, strength)),
        (penalties.add_bias, penalties.reference_bias, (*pairs, torch.randn(5))),
        (min_p.apply_min_p, min_p.reference, (temperature, share)),
    ]
    for launcher, reference, given in steps:
        ours, theirs = logits.clone(), logits.clone()
        launcher(ours, *given)
        reference(theirs, *given)
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
        assert not torch.equal(ours, logits)
