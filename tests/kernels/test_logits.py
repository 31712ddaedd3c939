"""What changes logits before they are sampled: masks, penalties, min_p; against plain loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.mask_logits import mask_logits
from kernels.min_p import apply_min_p
from kernels.penalties import penalise

V = 77


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


def test_a_mask_forbids_exactly_the_ids_whose_bit_is_not_set(random: np.random.Generator) -> None:
    logits = torch.from_numpy(random.standard_normal((4, V)).astype(np.float32))
    allowed = random.random((2, 96)) < 0.3
    bits = np.packbits(allowed, axis=1, bitorder="little").view(np.int32)
    masked = logits.clone()
    mask_logits(masked, torch.tensor([3, 1]), torch.from_numpy(bits))
    for row, mask in ((3, allowed[0]), (1, allowed[1])):
        for v in range(V):
            assert masked[row, v] == (logits[row, v] if mask[v] else -torch.inf)
    assert torch.equal(masked[[0, 2]], logits[[0, 2]])


def test_the_highest_bit_of_a_word_is_an_id_like_any_other() -> None:
    logits = torch.zeros(1, 64)
    bits = torch.from_numpy(np.array([[1 << 31, 0]], np.uint32).view(np.int32))
    mask_logits(logits, torch.tensor([0]), bits)
    assert logits.isfinite().nonzero().tolist() == [[0, 31]]


def test_penalties_are_those_of_the_formula(random: np.random.Generator) -> None:
    logits = random.standard_normal((3, V)).astype(np.float32)
    repetition, frequency, presence = [1.3, 1.0, 0.8], [0.0, 0.5, -0.2], [1.5, 0.0, 0.3]
    seen = {(0, 5): 2, (0, 6): 0, (1, 5): 1, (2, 70): 3, (2, 0): 0}
    expected = logits.astype(np.float64)
    for (row, v), count in seen.items():
        value = expected[row, v]
        value = value / repetition[row] if value > 0 else value * repetition[row]
        expected[row, v] = value - frequency[row] * count - (presence[row] if count else 0)
    got = torch.from_numpy(logits.copy())
    rows, ids = torch.tensor(list(seen)).T.contiguous()
    penalise(
        got, rows, ids, torch.tensor(list(seen.values())), torch.tensor([repetition, frequency, presence])
    )
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def test_min_p_keeps_what_reaches_its_share_of_the_likeliest(random: np.random.Generator) -> None:
    logits = random.standard_normal((4, V)).astype(np.float32)
    temperature, min_p = np.array([1.0, 0.6, 1.0, 0.0]), np.array([0.1, 0.3, 0.0, 0.5])
    got = torch.from_numpy(logits.copy())
    apply_min_p(got, torch.tensor(temperature, dtype=torch.float32), torch.tensor(min_p, dtype=torch.float32))
    for row in range(2):
        weight = np.exp(logits[row] / temperature[row])
        share = weight / weight.sum()
        kept = share >= min_p[row] * share.max()
        assert 1 < kept.sum() < V
        np.testing.assert_array_equal(got[row].isfinite().numpy(), kept)
    np.testing.assert_array_equal(got[2:].numpy(), logits[2:])


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (
            lambda x: mask_logits(x.double(), torch.tensor([0]), torch.zeros(1, 3, dtype=torch.int32)),
            "logits",
        ),
        (lambda x: mask_logits(x, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.int32)), "bits"),
        (lambda x: mask_logits(x, torch.tensor([0, 1]), torch.zeros(1, 3, dtype=torch.int32)), "rows"),
        (lambda x: apply_min_p(x, torch.ones(2), torch.ones(3)), "min_p"),
        (lambda x: penalise(x, *[torch.tensor([0])] * 3, torch.ones(2, 2)), "penalties"),
    ],
)
def test_wrong_shapes_and_types_are_named(run, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        run(torch.zeros(2, V))
