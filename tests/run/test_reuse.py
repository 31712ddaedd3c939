"""Reuse through the real scheduler, runner and network: a hit gives what a cold run gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.constants import PAGE
from node.engine.output_lengths import OutputLengths
from node.engine.prefix_cache import Hit
from node.engine.scheduler import Budget
from node.model.model import Model
from node.run.batch import batch_of
from node.run.load import load_model
from tests.model import tiny
from tests.run.reusing import REORDERED, Node, ids


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS[request.param])
    return load_model(folder, torch.float32, "cpu")


def test_hit_equals_cold_at_every_remainder(model: Model) -> None:
    """Four at a time, in mixed steps; the cold node keeps nothing."""
    shared = ids(1, 2 * PAGE)
    warm, cold = Node(model), Node(model, cached_states=0)
    cold.scheduler.prefix_cache.find = lambda sequence: Hit([], 0)  # type: ignore[method-assign]
    cold.scheduler.prefix_cache.follow = lambda sequence, hit: None  # type: ignore[method-assign]
    warm.answer([*shared, 1])
    prompts = [shared + ids(remainder, remainder) for remainder in range(1, PAGE + 2)]
    pairs = [(warm.add(prompt, 2), cold.add(prompt, 2)) for prompt in prompts]
    warm.run()
    cold.run()
    for hit, other in pairs:
        assert (hit.cached, other.cached) == (2 * PAGE, 0)
        warm.same(hit, cold, other)


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 1000])
def test_hit_equals_cold_in_chunks_of_any_size(model: Model, chunk: int) -> None:
    prompt = ids(1, 139)
    warm, cold = Node(model, budget=Budget(4, chunk, chunk)), Node(model)
    warm.answer(prompt)
    hit = warm.answer(prompt, 4)
    assert hit.cached == 2 * PAGE
    warm.same(hit, cold, cold.answer(prompt, 4), REORDERED)


def test_hit_equals_cold_beside_others(model: Model) -> None:
    prompts = [ids(0, 200) + ids(n, 30 * n) for n in range(1, 5)]
    warm = Node(model)
    warm.answer(ids(0, 200))
    hits = [warm.add(prompt, 6, 0.8) for prompt in prompts]
    warm.run()
    for hit, prompt in zip(hits, prompts, strict=True):
        fresh = Node(model)
        alone = fresh.add(prompt, 6, 0.8)
        fresh.run()
        warm.same(hit, fresh, alone, REORDERED)
        assert hit.cached >= 2 * PAGE


def test_after_eviction_of_a_cached_state_its_pages_give_the_same(model: Model) -> None:
    """The state is computed again over pages that are kept: nothing is written to them."""
    first, other = ids(1, 300), ids(2, 300)
    warm, cold = Node(model, cached_states=1), Node(model)
    warm.answer(first)
    warm.answer(other)
    named = list(warm.scheduler.pages._idle)
    before = warm.runner.cache.k_pages[:, named].clone()
    again = warm.answer(first, 5)
    assert again.cached == (256 if model.config.delta is None else 0)
    assert torch.equal(warm.runner.cache.k_pages[:, named], before)
    warm.same(again, cold, cold.answer(first, 5))


def test_after_eviction_of_pages_the_rest_gives_the_same(model: Model) -> None:
    first = ids(1, 300)
    warm, cold = Node(model, pages=8), Node(model)
    warm.answer(first)
    warm.answer(ids(2, 290))
    warm.same(warm.answer(first, 5), cold, cold.answer(first, 5))


@pytest.mark.parametrize("ahead", [False, True])
def test_preempted_and_resumed_equals_undisturbed(model: Model, ahead: bool) -> None:
    prompts = [ids(n, 60) for n in range(3)]
    tight, ample = Node(model, pages=6, cached_states=2, ahead=ahead), Node(model)
    tight.scheduler.admission.lengths = OutputLengths(1)
    pairs = [(tight.add(prompt, 80), ample.add(prompt, 80)) for prompt in prompts]
    tight.run()
    ample.run()
    assert tight.scheduler.counts.preemptions > 0
    for ours, theirs in pairs:
        tight.same(ours, ample, theirs, REORDERED)


def test_planned_ahead_equals_plain(model: Model) -> None:
    plain, ahead = Node(model), Node(model, ahead=True)
    pairs = []
    for n in range(12):
        prompt = ids(n % 3, 100) + ids(n, 3 * n)
        pairs.append(tuple(node.add(prompt, 20, 0.9, frozenset({95})) for node in (plain, ahead)))
    plain.run()
    ahead.run()
    assert len({tuple(one.output) for one, _ in pairs}) > 6
    assert [one.output for one, _ in pairs] == [other.output for _, other in pairs]


def test_a_plan_stays_as_it_was_planned(model: Model) -> None:
    """Ids that are still on the device go to the device's copy: a plan that was recorded is the plan that was made."""
    node = Node(model, ahead=True)
    node.add([1, 2, 3], 5)
    first = node.scheduler.plan()
    assert first is not None
    node.launch_sampling((first, node.runner.launch(first.plan)))
    second = node.scheduler.plan()
    assert second is not None
    assert len(second.plan.future_tokens) == 1
    before = second.plan.token_ids.copy()
    batch = batch_of(second.plan, torch.device("cpu"), node.runner.last_ids)
    assert np.array_equal(second.plan.token_ids, before)
    assert batch.token_ids.tolist() == node.runner.last_ids.tolist()
