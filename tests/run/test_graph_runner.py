"""Decode over static tensors equals the plain runner, token for token."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.constants import BUCKETS, PAGE
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.plan import SamplingMetadata, StepPlan
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.model.model import Model
from node.run.buckets import bucket_of, only_decodes
from node.run.graph_runner import GraphRunner, GraphStepHandle
from node.run.load import load_model
from node.run.model_runner import ModelRunner
from node.settings import Settings
from tests.model import tiny

CONTEXT = 4 * PAGE
ROWS = 17
SMALL = (1, 2, 4, 8, 12, 16, 24)


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3", "qwen2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS[request.param])
    return load_model(folder, torch.float32, "cpu")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS["qwen3_5"])
    return load_model(folder, torch.float32, "cpu")


def runner_of(model: Model, pages: int = 80, slots: int = 40) -> ModelRunner:
    """Its pools are full of NaN, the scratch page and slot too: what padding reads must stay with padding."""
    runner = ModelRunner(model, pages + 1, slots + 1, "cpu")
    for pool in runner.cache.pools:
        pool.fill_(torch.nan)
    return runner


def static_of(model: Model) -> GraphRunner:
    return GraphRunner(runner_of(model), CONTEXT, SMALL)


def scheduler_of(model: Model, budget: Budget | None = None) -> Scheduler:
    recurrent = model.config.delta is not None
    budget = (budget or Budget(tokens=512, mixed_tokens=128)).with_sequences(ROWS)
    return Scheduler(80, 40 if recurrent else 0, CONTEXT, budget, recurrent)


def sequence(prompt: list[int], limit: int, temperature: float = 0.0) -> Sequence:
    return Sequence("s", np.array(prompt), limit, Sampling(temperature, seed=sum(prompt)), frozenset())


def ids(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, tiny.VOCAB, length).tolist()


def outputs(
    model: Model, runner: ModelRunner | GraphRunner, arrivals: list[tuple[int, Sequence]], ahead: bool
) -> list[list[int]]:
    """Run sequences that arrive at these steps, each step planned after the one before it or during it."""
    scheduler, flight, waiting, step_number = scheduler_of(model), None, list(arrivals), 0
    while waiting or scheduler.has_work:
        while waiting and waiting[0][0] <= step_number:
            scheduler.add(waiting.pop(0)[1])
        step_number += 1
        step = scheduler.plan()
        handle = None if step is None else (step, runner.launch(step.plan))
        if not ahead and handle is not None:
            handle[1].sample(lambda: None)
            flight, handle = handle, None
        if flight is not None:
            scheduler.retire(flight[0], flight[1].ids())
        if handle is not None:
            handle[1].sample(lambda: None)
        flight = handle
        scheduler.audit()
    return [one.output for _, one in arrivals]


@pytest.mark.parametrize("rows", range(1, 18))
def test_static_equals_eager_at_every_batch_size(model: Model, rows: int) -> None:
    """Greedy and seeded rows side by side, some of whose contexts cross a page."""

    def arrivals() -> list[tuple[int, Sequence]]:
        return [(0, sequence(ids(n, 3 + 61 * (n % 3)), 5, 0.9 * (n % 2))) for n in range(rows)]

    expected = outputs(model, runner_of(model), arrivals(), ahead=False)
    assert outputs(model, static_of(model), arrivals(), ahead=False) == expected
    assert outputs(model, static_of(model), arrivals(), ahead=True) == expected


def test_mixed_and_decode_only_steps_alternate(model: Model) -> None:
    """Sequences come while others decode, leave at different steps, and share prefixes kept as cached states."""

    def arrivals() -> list[tuple[int, Sequence]]:
        shared = ids(7, 2 * PAGE)
        prompts = [shared[: PAGE * (n % 3)] + ids(n, 1 + 7 * n % 50) for n in range(14)]
        return [(5 * n, sequence(prompt, 4 + n, 0.8 * (n % 3))) for n, prompt in enumerate(prompts)]

    static = static_of(model)
    kinds: list[bool] = []
    launch = static.launch
    static.launch = lambda plan: (kinds.append(static.bucket_of(plan) is not None), launch(plan))[1]  # type: ignore
    expected = outputs(model, runner_of(model), arrivals(), ahead=True)
    assert outputs(model, static, arrivals(), ahead=True) == expected
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    assert changes > 10
    assert sum(kinds) > 10


def test_what_padding_leaves_is_in_the_scratch_page_and_slot_alone(hybrid: Model) -> None:
    static, eager = static_of(hybrid), runner_of(hybrid)
    for runner in (static, eager):
        outputs(hybrid, runner, [(0, sequence(ids(n, 9), 6)) for n in range(3)], ahead=False)
    for ours, theirs in zip(static.runner.cache.pools, eager.cache.pools, strict=True):
        assert torch.allclose(ours[:, 1:], theirs[:, 1:], atol=1e-5, equal_nan=True)


def decode_plan(rows: int, **more: object) -> StepPlan:
    """Rows that begin with their first token, each with a page and a slot of its own."""
    plan = StepPlan(
        token_ids=np.arange(rows) + 5,
        positions=np.zeros(rows, np.int64),
        cu_seqlens=np.arange(rows + 1),
        page_table=np.arange(1, rows + 1)[:, None],
        state_slots=np.arange(1, rows + 1),
        sample_rows=np.arange(rows),
        temperature=np.full(rows, 0.7, np.float32),
        top_p=np.full(rows, 0.9, np.float32),
        top_k=np.arange(rows),
        seeds=np.arange(rows).astype(np.uint64) + np.uint64(1 << 63),
    )
    return dataclasses.replace(plan, **more)  # type: ignore[arg-type]


def test_masks_penalties_and_min_p_come_between_the_halves(hybrid: Model) -> None:
    plan = decode_plan(5, min_p=np.array([0, 0.3, 0, 0, 0.9], np.float32))
    bits = np.zeros((2, tiny.VOCAB // 32), np.uint32)
    bits[0, 0], bits[1, 2] = 1 << 17, 1 << 3
    seen = np.array([[0, 0, 3], [40, 41, 7], [2, 0, 1]])
    penalties = np.array([[1.3, 1, 1, 1.1, 1], [0.5, 0, 0, 0, 0], [0, 0, 0, 90, 0]], np.float32)
    metadata = SamplingMetadata(np.array([1, 3]), bits, seen, penalties)
    expected = runner_of(hybrid).run(plan, lambda: metadata)
    assert expected[[1, 3]].tolist() == [17, 67]
    assert static_of(hybrid).run(plan, lambda: metadata).tolist() == expected.tolist()


def test_restores_and_saves_are_done_around_the_replay(hybrid: Model) -> None:
    first = decode_plan(3, saves=np.array([[1, 20], [3, 21]]))
    restored = dataclasses.replace(
        decode_plan(3), positions=np.ones(3, np.int64), restores=np.array([[20, 2], [21, 1], [20, 3]])
    )
    eager, static = runner_of(hybrid), static_of(hybrid)
    for plan in (first, restored):
        assert static.bucket_of(plan) == 4
        assert static.run(plan).tolist() == eager.run(plan).tolist()
    assert torch.equal(static.runner.cache.states[:, 20:22].isnan(), torch.zeros(2, 2, 4, 8, 12).bool())
    assert torch.allclose(static.runner.cache.states[:, 20:22], eager.cache.states[:, 20:22], atol=1e-5)


def test_future_tokens_without_a_step_before_are_refused(hybrid: Model) -> None:
    with pytest.raises(ValueError, match="future_tokens"):
        static_of(hybrid).launch(decode_plan(2, future_tokens=np.array([[0, 0]])))


def test_ids_outlive_the_step_after(hybrid: Model) -> None:
    static = static_of(hybrid)
    first = static.launch(decode_plan(2))
    first.sample(lambda: None)
    assert isinstance(first, GraphStepHandle)
    second = static.launch(decode_plan(2, token_ids=np.array([70, 71])))
    second.sample(lambda: None)
    eager = runner_of(hybrid)
    assert first.ids().tolist() == eager.run(decode_plan(2)).tolist()


def test_capture_goes_largest_first_into_one_pool(hybrid: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CUDA's capture: it remembers which half was called, and replays by calling it again."""
    static, called, captured = static_of(hybrid), [], []
    for name in ("forward", "sample"):
        half = getattr(static.decode, name)
        monkeypatch.setattr(
            static.decode,
            name,
            lambda bucket, half=half, name=name: (called.append((half, name, bucket)), half(bucket))[1],
        )

    class Graph:
        def replay(self) -> None:
            self.half(self.bucket)

    @contextlib.contextmanager
    def graph(into: Graph, pool: object, capture_error_mode: str) -> Iterator[None]:
        called.clear()
        yield
        ((into.half, name, into.bucket),) = called
        captured.append((name, into.bucket, pool))

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    static.capture()
    order = [(name, bucket, "pool") for bucket in reversed(SMALL) for name in ("forward", "sample")]
    assert captured == order
    arrivals = [[(0, sequence(ids(n, 9), 5, 0.9)) for n in range(5)] for _ in range(2)]
    expected = outputs(hybrid, runner_of(hybrid), arrivals[0], ahead=False)
    assert outputs(hybrid, static, arrivals[1], ahead=True) == expected


def test_buckets_hold_what_they_must() -> None:
    assert [bucket_of(rows) for rows in (1, 2, 3, 5, 9, 17, 193, 256, 257)] == [
        1, 2, 4, 8, 12, 24, 224, 256, None,
    ]  # fmt: skip
    assert list(BUCKETS) == sorted(set(BUCKETS))


def test_steps_that_do_more_than_decode_run_eagerly(hybrid: Model) -> None:
    static = static_of(hybrid)
    assert static.bucket_of(decode_plan(24)) == 24
    assert static.bucket_of(decode_plan(25)) is None
    none = {name: np.zeros(0) for name in ("temperature", "top_p", "top_k", "seeds")}
    assert not only_decodes(decode_plan(2, sample_rows=np.array([1]), **none))
    assert static.bucket_of(decode_plan(1, positions=np.array([CONTEXT]))) is None
    assert not only_decodes(decode_plan(2, rope_positions=np.zeros((3, 2), np.int64)))


def test_the_engine_runs_on_it(hybrid: Model) -> None:
    async def answers(ahead: bool) -> list[list[int]]:
        static = static_of(hybrid)
        engine = Engine(
            scheduler_of(hybrid), static, Settings().part(EngineLimits), ahead=static if ahead else None
        )
        engine.start(asyncio.get_running_loop())
        sampling = Sampling(0.8, seed=3, presence=1.5, min_p=0.05)
        asked = [Sequence("s", np.array(ids(n, 5 + n)), 12, sampling, frozenset()) for n in range(6)]
        for generation in [engine.submit(one) for one in asked]:
            while (await generation.next(30)).finish_reason is None:
                pass
        await asyncio.to_thread(engine.stop)
        return [one.output for one in asked]

    plain = asyncio.run(answers(ahead=False))
    assert all(len(output) == 12 for output in plain)
    assert asyncio.run(answers(ahead=True)) == plain
