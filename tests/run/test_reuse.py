"""Reuse through the real scheduler, runner and network: a hit gives what a cold run gives."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from node.engine.output_lengths import OutputLengths
from node.engine.plan import PAGE, StepPlan
from node.engine.prefixes import Hit
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.engine.step import Step
from node.model.qwen import Qwen
from node.run.batch import batch_of
from node.run.load import load_model
from node.run.runner import Pass, Runner
from tests.model import tiny

TOLERANCE = 1e-5
REORDERED = 5e-5  # where one side ran token by token, or beside others, what the other did not: other sums
CONTEXT = 16 * PAGE


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Qwen:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS[request.param])
    return load_model(folder, torch.float32, "cpu")


def ids(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, tiny.VOCAB, length).tolist()


class Node:
    """A scheduler and a runner, whose pools are full of NaN until somebody writes them."""

    def __init__(
        self,
        model: Qwen,
        pages: int = 40,
        checkpoints: int = 6,
        budget: Budget | None = None,
        ahead: bool = False,
    ) -> None:
        seats, recurrent = 4, model.config.delta is not None
        slots = (seats + checkpoints) if recurrent else 0
        budget = (budget or Budget(tokens=512, mixed_tokens=128)).with_sequences(seats)
        self.scheduler = Scheduler(pages, slots, CONTEXT, budget, recurrent)
        self.runner = Runner(model, pages + 1, slots + 1, "cpu")
        for pool in dataclasses.astuple(self.runner.cache):
            pool.fill_(torch.nan)
        self.ahead = ahead
        self.logits: dict[Sequence, list[np.ndarray]] = {}
        self.rows: tuple[Sequence, ...] = ()
        self.plain_sample = self.runner.sample
        self.runner.sample = self.sample  # type: ignore[method-assign]

    def sample(self, plan: StepPlan, logits: torch.Tensor) -> torch.Tensor:
        for sequence, row in zip(self.rows, logits, strict=True):
            self.logits[sequence].append(row.numpy())
        return self.plain_sample(plan, logits)

    def add(
        self, prompt: list[int], limit: int = 1, temperature: float = 0.0, stop: frozenset[int] = frozenset()
    ) -> Sequence:
        sequence = Sequence("s", np.array(prompt), limit, Sampling(temperature, seed=len(prompt)), stop)
        self.logits[sequence] = []
        self.scheduler.add(sequence)
        return sequence

    def run(self) -> None:
        """Until nothing waits; keeps the logits of every sampled token."""
        flight: tuple[Step, Pass] | None = None
        while self.scheduler.has_work:
            step = self.scheduler.plan()
            launched = None if step is None else (step, self.runner.launch(step.plan))
            if not self.ahead:
                flight, launched = launched, None
                self.launch_sampling(flight)
            if flight is not None:
                self.scheduler.retire(flight[0], flight[1].ids())
            flight = launched
            self.launch_sampling(flight)
            self.scheduler.audit()

    def launch_sampling(self, flight: tuple[Step, Pass] | None) -> None:
        if flight is not None:
            self.rows = flight[0].sampling
            flight[1].sample(lambda: None)

    def answer(self, prompt: list[int], limit: int = 1) -> Sequence:
        sequence = self.add(prompt, limit)
        self.run()
        return sequence

    def same(self, ours: Sequence, other: Node, theirs: Sequence, tolerance: float = TOLERANCE) -> None:
        """The tokens, and the logits of each within `tolerance`."""
        assert ours.output == theirs.output
        for mine, yours in zip(self.logits[ours], other.logits[theirs], strict=False):
            np.testing.assert_allclose(mine, yours, rtol=0, atol=tolerance)


def test_hit_equals_cold_at_every_remainder(model: Qwen) -> None:
    """Four at a time, in mixed steps; the cold node keeps nothing."""
    shared = ids(1, 2 * PAGE)
    warm, cold = Node(model), Node(model, checkpoints=0)
    cold.scheduler.prefixes.find = lambda sequence: Hit([], 0)  # type: ignore[method-assign]
    cold.scheduler.prefixes.follow = lambda sequence, hit: None  # type: ignore[method-assign]
    warm.answer([*shared, 1])
    prompts = [shared + ids(remainder, remainder) for remainder in range(1, PAGE + 2)]
    pairs = [(warm.add(prompt, 2), cold.add(prompt, 2)) for prompt in prompts]
    warm.run()
    cold.run()
    for hit, other in pairs:
        assert (hit.cached, other.cached) == (2 * PAGE, 0)
        warm.same(hit, cold, other)


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 1000])
def test_hit_equals_cold_in_chunks_of_any_size(model: Qwen, chunk: int) -> None:
    prompt = ids(1, 139)
    warm, cold = Node(model, budget=Budget(4, chunk, chunk)), Node(model)
    warm.answer(prompt)
    hit = warm.answer(prompt, 4)
    assert hit.cached == 2 * PAGE
    warm.same(hit, cold, cold.answer(prompt, 4), REORDERED)


def test_hit_equals_cold_beside_others(model: Qwen) -> None:
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


def test_after_eviction_of_a_checkpoint_its_pages_give_the_same(model: Qwen) -> None:
    """The state is computed again over pages that are kept: nothing is written to them."""
    first, other = ids(1, 300), ids(2, 300)
    warm, cold = Node(model, checkpoints=1), Node(model)
    warm.answer(first)
    warm.answer(other)
    named = list(warm.scheduler.pages._idle)
    before = warm.runner.cache.k_pages[:, named].clone()
    again = warm.answer(first, 5)
    assert again.cached == (256 if model.config.delta is None else 0)
    assert torch.equal(warm.runner.cache.k_pages[:, named], before)
    warm.same(again, cold, cold.answer(first, 5))


def test_after_eviction_of_pages_the_rest_gives_the_same(model: Qwen) -> None:
    first = ids(1, 300)
    warm, cold = Node(model, pages=8), Node(model)
    warm.answer(first)
    warm.answer(ids(2, 290))
    warm.same(warm.answer(first, 5), cold, cold.answer(first, 5))


@pytest.mark.parametrize("ahead", [False, True])
def test_preempted_and_resumed_equals_undisturbed(model: Qwen, ahead: bool) -> None:
    prompts = [ids(n, 60) for n in range(3)]
    tight, roomy = Node(model, pages=6, checkpoints=2, ahead=ahead), Node(model)
    tight.scheduler.admission.lengths = OutputLengths(1)
    pairs = [(tight.add(prompt, 80), roomy.add(prompt, 80)) for prompt in prompts]
    tight.run()
    roomy.run()
    assert tight.scheduler.counts.preemptions > 0
    for ours, theirs in pairs:
        tight.same(ours, roomy, theirs, REORDERED)


def test_planned_ahead_equals_plain(model: Qwen) -> None:
    plain, ahead = Node(model), Node(model, ahead=True)
    pairs = []
    for n in range(12):
        prompt = ids(n % 3, 100) + ids(n, 3 * n)
        pairs.append(tuple(node.add(prompt, 20, 0.9, frozenset({95})) for node in (plain, ahead)))
    plain.run()
    ahead.run()
    assert len({tuple(one.output) for one, _ in pairs}) > 6
    assert [one.output for one, _ in pairs] == [other.output for _, other in pairs]


def test_a_plan_stays_as_it_was_planned(model: Qwen) -> None:
    """Relayed ids go to the device's copy: a plan that was recorded is the plan that was made."""
    node = Node(model, ahead=True)
    node.add([1, 2, 3], 5)
    first = node.scheduler.plan()
    assert first is not None
    node.launch_sampling((first, node.runner.launch(first.plan)))
    second = node.scheduler.plan()
    assert second is not None
    assert len(second.plan.relays) == 1
    before = second.plan.token_ids.copy()
    batch = batch_of(second.plan, torch.device("cpu"), node.runner.last_ids)
    assert np.array_equal(second.plan.token_ids, before)
    assert batch.token_ids.tolist() == node.runner.last_ids.tolist()
