"""State writes deferred to every eighth token give what a write on each token gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.constants import PAGE
from kernels.device import triton
from node.access.keys import Keyring
from node.app import Node as App
from node.chat.chat import Chat
from node.device import memory_plan, read_config
from node.engine.output_lengths import OutputLengths
from node.engine.scheduler import Budget
from node.engine.sequence import Sequence
from node.model.model import Model
from node.run.graph_runner import GraphRunner
from node.run.load import load_model
from node.run.memory import MemoryShares, plan_memory
from node.run.model_runner import ModelRunner
from node.settings import Settings
from tests.model import tiny
from tests.model.drive import Drive
from tests.node_under_test import DEMO
from tests.run.reusing import REORDERED, Node, ids
from tests.run.test_graph_runner import CONTEXT, SMALL, outputs, sequence


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS["qwen3_5"])
    return load_model(folder, torch.float32, "cpu")


@pytest.mark.parametrize("chunk", [1, 63, 127])
def test_hit_equals_cold(model: Model, chunk: int) -> None:
    """127 leaves one token to the cached state, which the ring takes, and longer rows after it."""
    prompt = ids(1, 139)
    budget = Budget(4, chunk, chunk)
    warm, cold = Node(model, budget=budget, deferred=True), Node(model)
    warm.answer(prompt)
    hit = warm.answer(prompt, 12)
    assert hit.cached == 2 * PAGE
    warm.same(hit, cold, cold.answer(prompt, 12), REORDERED)


def test_rows_of_one_token_and_of_several_follow_each_other(model: Model) -> None:
    """A row of several reads the state, which knows nothing yet of the tokens before it."""
    given = ids(5, 60)
    logits = []
    for deferred in (True, False):
        drive = Drive(model, deferred=deferred)
        one, other = drive.begin(given), drive.begin(given)
        for count in (1, 1, 5, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 30):
            drive.step([(one, count), (other, 1)])
        logits.append(np.array(one.logits + other.logits))
    np.testing.assert_allclose(*logits, rtol=0, atol=REORDERED)


@pytest.mark.parametrize("ahead", [False, True])
def test_mixed_steps_and_preemption(model: Model, ahead: bool) -> None:
    """Slots are cleared, restored and taken over while their rings hold something."""
    deferred, plain = (
        Node(model, pages=6, cached_states=2, ahead=ahead, deferred=deferred) for deferred in (True, False)
    )
    pairs = []
    for n in range(5):
        both = []
        for node in (deferred, plain):
            node.scheduler.admission.lengths = OutputLengths(1)
            both.append(node.add(ids(n % 2, 60) + ids(n, n), 40 + n, 0.8 * (n % 2)))
        pairs.append(both)
    deferred.run()
    plain.run()
    assert deferred.scheduler.counts.preemptions > 0
    for ours, theirs in pairs:
        deferred.same(ours, plain, theirs, REORDERED)


def test_static_steps_defer_too(model: Model) -> None:
    def arrivals() -> list[tuple[int, Sequence]]:
        return [(4 * n, sequence(ids(n % 3, 70) + ids(n, n), 5 + 3 * n, 0.8 * (n % 2))) for n in range(8)]

    def runner(deferred: bool) -> ModelRunner:
        return ModelRunner(model, 81, 41, "cpu", deferred)

    expected = outputs(model, runner(False), arrivals(), ahead=False)
    static = GraphRunner(runner(True), CONTEXT, SMALL)
    assert outputs(model, static, arrivals(), ahead=True) == expected


def test_a_state_is_written_at_the_eighth_token_and_when_it_is_settled(model: Model) -> None:
    node = Node(model, deferred=True)
    cache = node.runner.cache
    ring = cache.ring
    assert ring is not None
    node.add(ids(3, 5), 8)
    slot = None
    written = []
    while node.scheduler.has_work:
        before = cache.states.clone()
        step = node.scheduler.plan()
        assert step is not None
        slot = int(step.plan.state_slots[0])
        flight = (step, node.runner.launch(step.plan))
        node.launch_sampling(flight)
        node.scheduler.retire(step, flight[1].ids())
        written.append(not torch.equal(cache.states[:, slot].nan_to_num(), before[:, slot].nan_to_num()))
    assert slot is not None
    # The prompt's own chunk, then seven tokens of which the state knows nothing.
    assert written == [True] + [False] * 7
    assert ring.pending[slot] == 7
    before = cache.states.clone()
    cache.settle(torch.tensor([slot]))
    assert ring.pending.tolist() == [0] * len(ring.pending)
    changed = (cache.states.nan_to_num() != before.nan_to_num()).flatten(2).any(2).any(0)
    assert changed.nonzero().flatten().tolist() == [slot]


def test_the_plan_counts_the_ring(model: Model) -> None:
    plans = [
        plan_memory(
            model.config,
            memory=2**28,
            dtype="float32",
            context=1024,
            sequences=4,
            step_tokens=64,
            shares=Settings().part(MemoryShares),
            deferred=deferred,
        )
        for deferred in (False, True)
    ]
    for plan, deferred in zip(plans, (False, True), strict=True):
        runner = ModelRunner(model, plan.pages + 1, plan.state_slots + 1, "cpu", deferred)
        assert runner.cache.bytes == plan.kv + plan.state
    assert plans[1].slot_bytes - plans[0].slot_bytes == model.config.ring_bytes


@pytest.mark.parametrize("kind", ["qwen3", "qwen2"])
def test_a_model_without_delta_layers_has_nothing_to_defer(kind: str, tmp_path: Path) -> None:
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS[kind]), torch.float32, "cpu")
    assert ModelRunner(model, 2, 1, "cpu", deferred=True).cache.ring is None


def test_the_setting_reaches_the_plan_and_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    if triton is not None:
        monkeypatch.setattr(triton.knobs.compilation, "listener", None)
    plans = []
    for writes in ("each", "eighth"):
        settings = Settings(model=DEMO, device="cpu", device_memory=2**28, state_writes=writes)
        config = read_config(settings)
        plan = memory_plan(settings, config)
        node = App(settings, config, plan, 1024, Chat.read(DEMO), Keyring(frozenset()))
        runner = node._load()._runner
        assert runner.cache.bytes == plan.kv + plan.state
        plans.append(plan)
    assert plans[1].slot_bytes - plans[0].slot_bytes == config.ring_bytes > 0
