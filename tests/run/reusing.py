"""A scheduler, a runner and a network, for tests of what is reused."""

from __future__ import annotations

import numpy as np
import torch

from kernels.constants import PAGE
from node.engine.plan import StepPlan
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.engine.step import Step
from node.model.model import Model
from node.run.model_runner import ModelRunner, StepHandle
from tests.model import tiny

TOLERANCE = 1e-5
REORDERED = 5e-5  # where one side ran token by token, or beside others, what the other did not: other sums
CONTEXT = 16 * PAGE


def ids(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, tiny.VOCAB, length).tolist()


class Node:
    """A scheduler and a runner, whose pools are full of NaN until somebody writes them."""

    def __init__(
        self,
        model: Model,
        pages: int = 40,
        cached_states: int = 6,
        budget: Budget | None = None,
        ahead: bool = False,
        deferred: bool = False,
    ) -> None:
        rows, recurrent = 4, model.config.delta is not None
        slots = (rows + cached_states) if recurrent else 0
        budget = (budget or Budget(tokens=512, mixed_tokens=128)).with_sequences(rows)
        self.scheduler = Scheduler(pages, slots, CONTEXT, budget, recurrent)
        self.runner = ModelRunner(model, pages + 1, slots + 1, "cpu", deferred)
        for pool in self.runner.cache.pools:
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
        flight: tuple[Step, StepHandle] | None = None
        while self.scheduler.has_work:
            step = self.scheduler.plan()
            handle = None if step is None else (step, self.runner.launch(step.plan))
            if not self.ahead:
                flight, handle = handle, None
                self.launch_sampling(flight)
            if flight is not None:
                self.scheduler.retire(flight[0], flight[1].ids())
            flight = handle
            self.launch_sampling(flight)
            self.scheduler.audit()

    def launch_sampling(self, flight: tuple[Step, StepHandle] | None) -> None:
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
