"""The engine, a real network and a crowd that comes and goes: nothing is lost, nobody is answered twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch

from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.model.model import Model
from node.run.load import load_model
from node.run.model_runner import ModelRunner
from node.settings import Settings
from tests.model import tiny

CLIENTS, DISTINCT, PAGES, ROWS, CACHED_STATES, CONTEXT = 200, 99, 60, 12, 6, 512


@pytest.fixture(scope="module", params=["tiny", pytest.param("demo", marks=pytest.mark.real)])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = Path(__file__).parents[2] / "weights" / "demo"
    if request.param == "tiny":
        folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS["qwen3_5"])
    return load_model(folder, torch.float32, "cpu")


def ask(number: int) -> Sequence:
    """One of 200 questions: they share beginnings, some are equal, some are sampled, limits differ."""
    draw = np.random.default_rng(number % DISTINCT)
    begin = np.random.default_rng(number % 3).integers(0, tiny.VOCAB, 100)
    own = draw.integers(0, tiny.VOCAB, int(draw.integers(1, 80)))
    prompt = np.concatenate([begin[: int(draw.choice([0, 64, 100]))], own])
    sampling = Sampling(float(draw.choice([0.0, 0.9])), seed=number % DISTINCT)
    limit = int(draw.integers(1, 14))
    organization = f"org{number % 3}"
    return Sequence(f"s{number}", prompt, limit, sampling, frozenset({5}), organization=organization)


def build(model: Model, ahead: bool, pages: int = PAGES) -> Engine:
    slots = ROWS + CACHED_STATES
    runner = ModelRunner(model, pages + 1, slots + 1, "cpu")
    scheduler = Scheduler(pages, slots, CONTEXT, Budget(ROWS, 256, 96), recurrent=True)
    return Engine(scheduler, runner, Settings().part(EngineLimits), ahead=runner if ahead else None)


async def answer(engine: Engine, sequence: Sequence, leave_after: float | None = None) -> list[int] | None:
    """The whole answer, or None for one who left `leave_after` seconds into it."""
    generation = engine.submit(sequence)
    ids: list[int] = []
    began = asyncio.get_running_loop().time()
    while True:
        delta = await generation.next(0.01)
        if leave_after is not None and asyncio.get_running_loop().time() - began > leave_after:
            generation.cancel()
            return None
        if delta is not None:
            ids += delta.ids
            if delta.finish_reason is not None:
                assert delta.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
                return ids


def test_two_hundred_clients_some_of_whom_leave(model: Model) -> None:
    async def alone() -> list[list[int] | None]:
        engine = build(model, ahead=False)
        engine.start(asyncio.get_running_loop())
        answers = [await answer(engine, ask(number)) for number in range(DISTINCT)]
        await asyncio.to_thread(engine.stop)
        return answers

    async def crowd(ahead: bool) -> list[list[int] | None]:
        engine = build(model, ahead, pages=14)
        engine.start(asyncio.get_running_loop())
        draw = np.random.default_rng(1)
        leaving = [float(draw.random()) if draw.random() < 0.3 else None for _ in range(CLIENTS)]
        answers = await asyncio.gather(
            *(answer(engine, ask(number), leaves) for number, leaves in enumerate(leaving))
        )
        while engine.snapshot.running or engine.snapshot.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        picture = engine.snapshot
        assert engine.live == picture.failures == 0
        assert (picture.pages_free, picture.state_slots_free) == (
            picture.pages_total,
            picture.state_slots_total,
        )
        assert picture.reused_tokens > 0
        await asyncio.to_thread(engine.stop)
        engine._scheduler.audit()
        return answers

    expected = asyncio.run(alone())
    for ahead in (False, True):
        answers = asyncio.run(crowd(ahead))
        stayed = [number for number, ids in enumerate(answers) if ids is not None]
        assert len(stayed) > CLIENTS // 2
        for number in stayed:
            assert answers[number] == expected[number % DISTINCT], number
