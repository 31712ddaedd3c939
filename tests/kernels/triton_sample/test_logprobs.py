"""Log probabilities and biases in torch, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.logprobs import logprobs
from kernels.mask_logits import mask_logits
from kernels.penalties import add_bias, penalise


def test_logprobs_are_the_logarithm_of_the_softmax_and_equals_rank_by_id() -> None:
    logits = torch.randn(3, 50)
    logits[1] = logits[1].round()
    chosen, values, best = logprobs(logits, torch.tensor([4, 0, 39]), 7, 40)
    for row, token in enumerate((4, 0, 39)):
        x = logits[row, :40].double().numpy()
        expected = x - np.log(np.exp(x).sum())
        order = np.lexsort((np.arange(40), -x))[:7]
        np.testing.assert_allclose(chosen[row], expected[token], atol=1e-5)
        np.testing.assert_allclose(values[row], expected[order], atol=1e-5)
        assert best[row].tolist() == order.tolist()


def test_biases_add_up_and_rows_of_minus_one_change_nothing() -> None:
    logits = torch.zeros(2, 9)
    rows, ids = torch.tensor([0, 1, -1]), torch.tensor([3, 8, 8])
    add_bias(logits, rows, ids, torch.tensor([5.0, -100.0, 7.0]))
    assert logits.nonzero().tolist() == [[0, 3], [1, 8]] and logits.sum() == -95
    before = logits.clone()
    nobody = torch.full((3,), -1)
    penalise(logits, nobody, ids, ids, torch.full((3, 2), 2.0))
    mask_logits(logits, nobody, torch.zeros(3, 1, dtype=torch.int32))
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    ("change", "name"), [({"n": 51}, "n"), ({"vocabulary": 0}, "vocabulary"), ({}, "ids")]
)
def test_the_argument_that_does_not_fit_is_named(change: dict[str, int], name: str) -> None:
    given = {"ids": torch.zeros(3 if change else 2, dtype=torch.int64), "n": 5, "vocabulary": 50} | change
    with pytest.raises(ValueError, match=f"^{name}: "):
        logprobs(torch.zeros(3, 50), **given)
