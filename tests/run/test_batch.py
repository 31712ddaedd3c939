"""What shares a batch with a sequence changes none of its tokens."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch

from kernels.constants import PAGE
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.model.model import Model
from node.run.graph_runner import GraphRunner
from node.run.load import load_model
from node.run.model_runner import ModelRunner
from tests.model import tiny

ROWS, PAGES, CONTEXT, LIMIT = 64, 200, 4 * PAGE, 12


@pytest.fixture(scope="module", params=sorted(tiny.CONFIGS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS[request.param])
    return load_model(folder, torch.float32, "cpu")


def ask(number: int) -> Sequence:
    """A greedy question of 1 to 130 tokens."""
    draw = np.random.default_rng(number)
    prompt = draw.integers(0, tiny.VOCAB, 1 + 43 * number % 130)
    return Sequence(f"s{number}", prompt, LIMIT, Sampling(), frozenset())


def answers(model: Model, numbers: Iterable[int], static: bool) -> tuple[list[list[int]], int]:
    """The tokens of each of these questions, asked at once, and the most rows that decoded in one step."""
    recurrent = model.config.delta is not None
    runner: ModelRunner | GraphRunner = ModelRunner(model, PAGES + 1, ROWS + 1, "cpu")
    if static:
        runner = GraphRunner(runner, CONTEXT, (1, ROWS))
    budget = Budget(sequences=ROWS, tokens=512, mixed_tokens=512)
    scheduler = Scheduler(PAGES, ROWS if recurrent else 0, CONTEXT, budget, recurrent)
    sequences, most = [ask(number) for number in numbers], 0
    for sequence in sequences:
        scheduler.add(sequence)
    while scheduler.has_work:
        step = scheduler.plan()
        assert step is not None
        most = max(most, step.plan.decode_rows)
        scheduler.retire(step, runner.run(step.plan))
    return [sequence.output for sequence in sequences], most


@pytest.mark.parametrize("static", [False, True])
def test_a_sequence_alone_and_in_a_batch_of_64_gives_the_same_tokens(model: Model, static: bool) -> None:
    batch, most = answers(model, range(ROWS), static)
    assert most == ROWS
    for number in range(0, ROWS, 9):
        assert answers(model, [number], static) == ([batch[number]], 1), number
