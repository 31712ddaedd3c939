"""The sampler: exact against a float64 inverse distribution, and each row on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.sample import NUCLEUS, sample, uniforms

VOCAB = 300
MASK = (1 << 64) - 1


def arguments(logits: Tensor, **changes: Any) -> dict[str, Any]:
    rows = len(logits)
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seeds": 7, "positions": 3} | changes
    kinds = {"temperature": torch.float32, "top_p": torch.float32}
    made: dict[str, Any] = {
        name: torch.as_tensor(value, dtype=kinds.get(name, torch.int64)).expand(rows).contiguous()
        for name, value in given.items()
        if name != "vocabulary"
    }
    return {"logits": logits, "vocabulary": changes.get("vocabulary", logits.shape[1]), **made}


def splitmix(seed: int, position: int) -> float:
    """The same hash in Python's own integers."""

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    return (mix(mix(seed + 0x9E3779B97F4A7C15 & MASK) ^ position) >> 40) / 2**24


def interval(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, token: int
) -> tuple[float, float]:
    """Where u must lie for this token, in float64; empty where the token may not be chosen."""
    weight = np.exp((logits - logits.max()) / temperature)
    ranked = np.lexsort((np.arange(len(weight)), -weight))[: top_k or None]
    share = np.cumsum(weight[ranked]) / weight[ranked].sum()
    kept = ranked[: int((share < top_p - 1e-9).sum()) + 1]
    masked = np.zeros_like(weight)
    masked[kept] = weight[kept]
    below = np.cumsum(masked) / masked.sum()
    return (below[token] - masked[token] / masked.sum(), below[token]) if masked[token] else (2.0, 2.0)


def test_uniforms_are_the_published_hash_of_seed_and_position() -> None:
    seeds, positions = [0, 1, MASK, 1 << 63, 12345], [0, 5, 262143, 1, 77]
    ours = uniforms(torch.from_numpy(np.array(seeds, np.uint64).view(np.int64)), torch.tensor(positions))
    assert ours.tolist() == [splitmix(*pair) for pair in zip(seeds, positions, strict=True)]


def test_uniforms_are_uniform_along_positions_and_along_seeds() -> None:
    count = torch.arange(20000)
    for u in (uniforms(torch.full_like(count, 5), count), uniforms(count, torch.full_like(count, 5))):
        expected = len(u) / 50
        chi = ((torch.histc(u, 50, 0, 1) - expected) ** 2 / expected).sum()
        assert 20 < chi < 95  # 49 degrees of freedom: one in 10,000 lies outside


@pytest.mark.parametrize("top_k", [0, 1, 5, 299, 300, 1000])
@pytest.mark.parametrize("top_p", [1e-6, 0.5, 0.95, 1.0])
def test_every_draw_is_the_inverse_of_the_exact_distribution(top_k: int, top_p: float) -> None:
    draw = torch.Generator().manual_seed(top_k)
    logits = torch.randn(60, VOCAB, generator=draw) * 3
    temperature = 0.3 + torch.rand(60, generator=draw)
    given = arguments(logits, temperature=temperature, top_k=top_k, top_p=top_p, positions=torch.arange(60))
    for row, token in enumerate(sample(**given).tolist()):
        settings = (float(temperature[row]), top_k, top_p, token)
        low, high = interval(logits[row].double().numpy(), *settings)
        assert low - 1e-5 <= splitmix(7, row) <= high + 1e-5


def test_a_flat_nucleus_wider_than_the_first_look_is_exact() -> None:
    logits = torch.randn(3, 4 * NUCLEUS) * 0.01
    given = arguments(logits, top_p=0.9, positions=torch.arange(3))
    for row, token in enumerate(sample(**given).tolist()):
        low, high = interval(logits[row].double().numpy(), 1.0, 0, 0.9, token)
        assert low - 1e-5 <= splitmix(7, row) <= high + 1e-5


def test_greedy_takes_the_first_of_equals() -> None:
    logits = torch.zeros(2, VOCAB)
    logits[0, [9, 200]] = 5.0
    assert sample(**arguments(logits, temperature=0.0)).tolist() == [9, 0]


@pytest.mark.parametrize("only_one", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}])
def test_a_choice_of_one_is_the_greedy_choice(only_one: dict[str, Any]) -> None:
    logits = torch.randn(20, VOCAB)
    given = arguments(logits, positions=torch.arange(20), **only_one)
    assert torch.equal(sample(**given), logits.argmax(-1))


def test_equal_logits_rank_by_id() -> None:
    logits = torch.zeros(200, VOCAB)
    chosen = sample(**arguments(logits, top_k=3, positions=torch.arange(200)))
    assert set(chosen.tolist()) == {0, 1, 2}


def test_the_token_that_crosses_top_p_is_kept() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log().repeat(400, 1)
    chosen = sample(**arguments(logits, top_p=0.6, positions=torch.arange(400)))
    assert set(chosen.tolist()) == {0, 1}


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"top_k": 20}, {"top_p": 0.9}])
def test_padding_ids_are_never_chosen(settings: dict[str, Any]) -> None:
    logits = torch.randn(50, VOCAB)
    logits[:, 250:] = 50.0
    given = arguments(logits, vocabulary=250, positions=torch.arange(50), **settings)
    assert int(sample(**given).max()) < 250


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(40, VOCAB) * 2
    mixed = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 1.3]).repeat(10),
        "top_k": torch.tensor([0, 20, 0, 5, 1]).repeat(8),
        "top_p": torch.tensor([1.0, 0.9, 0.3, 1.0]).repeat(10),
        "seeds": torch.arange(40) % 3,
        "positions": torch.arange(40),
    }
    together = sample(**arguments(logits, **mixed))
    for row in range(40):
        own = {name: value[row : row + 1] for name, value in mixed.items()}
        assert sample(**arguments(logits[row : row + 1], **own)).item() == together[row]


def test_noise_follows_seed_and_position() -> None:
    logits = torch.zeros(64, VOCAB)
    first = sample(**arguments(logits, positions=torch.arange(64)))
    assert torch.equal(first, sample(**arguments(logits, positions=torch.arange(64))))
    assert len(set(first.tolist())) > 40
    other = sample(**arguments(logits, seeds=8, positions=torch.arange(64)))
    assert int((first == other).sum()) < 8


WRONG = {
    "logits": torch.zeros(3, VOCAB).bfloat16(),
    "temperature": torch.zeros(2),
    "top_k": torch.zeros(3),
    "top_p": torch.zeros(3, dtype=torch.float64),
    "seeds": torch.zeros(3, dtype=torch.int32),
    "positions": torch.zeros(3, 1, dtype=torch.int64),
    "vocabulary": VOCAB + 1,
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_argument_that_does_not_fit_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        sample(**{**arguments(torch.zeros(3, VOCAB)), name: WRONG[name]})
