"""Penalties and min_p through the engine, the runner and a network: against the formula, step by step."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from kernels.constants import PAGE
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.model.model import Model
from node.run.load import load_model
from node.run.model_runner import ModelRunner
from node.settings import Settings
from tests.model import tiny

STEPS = 24
PROMPTS = [[5, 9, 9, 40, 41], [7] * 20, [30, 3]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS["qwen3_5"])
    return load_model(folder, torch.float32, "cpu")


def generate(model: Model, samplings: list[Sampling], ahead: bool) -> list[list[int]]:
    """What sequences with these samplings write when they share their steps."""

    async def main() -> list[list[int]]:
        runner = ModelRunner(model, 33, 9, "cpu")
        scheduler = Scheduler(32, 8, 4 * PAGE, Budget(4, 64, 64), True)
        engine = Engine(scheduler, runner, Settings().part(EngineLimits), ahead=runner if ahead else None)
        engine.start(asyncio.get_running_loop())
        sequences = [
            Sequence(f"s{n}", np.array(prompt), STEPS, sampling, frozenset())
            for n, (prompt, sampling) in enumerate(zip(PROMPTS, samplings, strict=True))
        ]
        for generation in [engine.submit(sequence) for sequence in sequences]:
            while (await generation.next(30)).finish_reason is None:
                pass
        await asyncio.to_thread(engine.stop)
        return [sequence.output for sequence in sequences]

    return asyncio.run(main())


def expected(model: Model, prompt: list[int], sampling: Sampling) -> list[int]:
    """Greedy, each token from a whole pass over all before it and the formula in float64."""
    output: list[int] = []
    for _ in range(STEPS):
        logits = plain_logits(model, prompt + output)
        for token in {*prompt, *output}:
            value = logits[token]
            value = value / sampling.repetition if value > 0 else value * sampling.repetition
            count = output.count(token)
            logits[token] = value - sampling.frequency * count - (sampling.presence if count else 0.0)
        output.append(int(logits.argmax()))
    return output


def plain_logits(model: Model, tokens: list[int]) -> np.ndarray:
    runner = ModelRunner(model, 5, 3, "cpu")
    scheduler = Scheduler(4, 2, 4 * PAGE, Budget(1, 256, 256), True)
    scheduler.add(Sequence("s", np.array(tokens), 1, Sampling(0.0), frozenset()))
    step = scheduler.plan()
    assert step is not None
    hidden = runner.forward(step.plan)
    with torch.inference_mode():
        return runner.model.logits(hidden[-1:])[0, : model.vocabulary].double().numpy()


@pytest.mark.parametrize("ahead", [False, True])
def test_penalties_follow_the_formula_whatever_shares_the_step(model: Model, ahead: bool) -> None:
    samplings = [
        Sampling(0.0, presence=-2.0, frequency=0.75),
        Sampling(0.0),
        Sampling(0.0, repetition=1.5),
    ]
    written = generate(model, samplings, ahead)
    plain = [expected(model, prompt, Sampling(0.0)) for prompt in PROMPTS]
    assert written == [expected(model, *pair) for pair in zip(PROMPTS, samplings, strict=True)]
    assert written[1] == plain[1]
    assert written[0] != plain[0]  # else nothing was shown
    assert written[2] != plain[2]


def test_min_p_of_one_leaves_the_likeliest_alone(model: Model) -> None:
    greedy = generate(model, [Sampling(0.0)] * 3, False)
    narrow = generate(model, [Sampling(1.5, seed=n, min_p=1.0) for n in range(3)], False)
    wide = generate(model, [Sampling(1.5, seed=n) for n in range(3)], False)
    assert narrow == greedy != wide
