"""What the operator set is what the parts of a node were given."""

import pytest

from kernels.device import triton
from node.access.keys import Keyring
from node.app import Node
from node.chat.chat import Chat
from node.device import memory_plan, read_config, step_budget
from node.run.memory import MemoryPlan
from node.settings import Settings
from tests.node_under_test import DEMO


def planned(**others: object) -> MemoryPlan:
    settings = Settings(**{"model": DEMO, "device": "cpu", "device_memory": 2**29, "context": 1024, **others})
    return memory_plan(settings, read_config(settings))


def test_memory_is_divided_as_was_set() -> None:
    plan = planned()
    assert plan.total <= plan.memory * 0.92
    assert (plan.sequences, plan.cached_states) == (64, 32)
    tight = planned(memory_utilization=0.2)
    assert tight.total <= plan.memory * 0.2 < plan.total
    assert planned(max_num_seqs=5).sequences == 5
    assert planned(max_num_seqs=5).cached_states == 8  # at least
    assert planned(max_num_seqs=5, min_cached_states=0).cached_states == 2
    assert planned(max_num_seqs=6, min_cached_states=0, sequences_per_cached_state=6).cached_states == 1
    starved = planned(state_share=0.01)
    assert 0 < starved.state_slots < plan.state_slots
    assert planned(max_num_batched_tokens=4096).workspace > plan.workspace


def test_the_engine_is_given_its_budget_and_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    if triton is not None:
        monkeypatch.setattr(triton.knobs.compilation, "listener", None)
    settings = Settings(
        model=DEMO,
        device="cpu",
        device_memory=2**28,
        max_num_seqs=7,
        max_num_batched_tokens=200,
        max_prefill_tokens_beside_decode=90,
        max_partial_prefills_per_organization=3,
        queue_requests=5,
        queue_tokens=999,
        unhealthy_timeout=2.0,
        watchdog_timeout=4.0,
    )
    config = read_config(settings)
    plan = memory_plan(settings, config)
    engine = Node(settings, config, plan, 1024, Chat.read(DEMO), Keyring(frozenset()))._load()
    assert engine._scheduler.budget == step_budget(settings, "cpu")
    assert (engine._most_live, engine._most_tokens) == (7 + 5, 999)
    now = engine.health.progress_at
    engine.health.busy = True
    assert engine.health.healthy(now + 1.9) and not engine.health.healthy(now + 2.1)
    exits: list[int] = []
    monkeypatch.setattr("os._exit", exits.append)
    engine.health.exit_if_stuck(now + 3.9)
    assert exits == []
    engine.health.exit_if_stuck(now + 4.1)
    assert exits == [70]
