"""A scheduler and a runner that is a memory, joined as the engine joins them, one turn at a time."""

from __future__ import annotations

import itertools

import numpy as np

from kernels.constants import PAGE
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.engine.step import Progress, Step
from tests.engine.memory_runner import MemoryRunner, MemoryStepHandle, next_id

GREEDY = Sampling(temperature=0.0)


def make(name: str, prompt: list[int], limit: int, stop: tuple[int, ...] = (), **more: object) -> Sequence:
    return Sequence(name, np.array(prompt, dtype=np.int64), limit, GREEDY, frozenset(stop), **more)


def alone(prompt: list[int], limit: int, stop: tuple[int, ...] = ()) -> tuple[list[int], FinishReason]:
    """What a sequence must yield whatever shares its steps."""
    output: list[int] = []
    while len(output) < limit:
        output.append(next_id(prompt + output))
        if output[-1] in stop:
            return output, FinishReason.STOP
    return output, FinishReason.LENGTH


def random_ids(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 50, length).tolist()


class Drive:
    """`turn` runs one step as the engine does: alone, or planned while the one before it is in flight."""

    def __init__(
        self,
        pages: int = 64,
        rows: int = 4,
        cached_states: int = 8,
        context: int = 16 * PAGE,
        budget: Budget | None = None,
        recurrent: bool = True,
        ahead: bool = False,
    ) -> None:
        slots = rows + cached_states
        budget = (budget or Budget(tokens=1024)).with_sequences(rows)
        self.scheduler = Scheduler(pages, slots, context, budget, recurrent)
        self.runner = MemoryRunner(pages, slots, recurrent)
        self.ahead = ahead
        self.flight: tuple[Step, MemoryStepHandle] | None = None
        self.names = itertools.count()

    def add(self, prompt: list[int], limit: int = 1, stop: tuple[int, ...] = (), **more: object) -> Sequence:
        sequence = make(f"s{next(self.names)}", prompt, limit, stop, **more)
        self.scheduler.check(sequence)
        self.scheduler.add(sequence)
        return sequence

    def turn(self) -> tuple[Step | None, list[Progress]]:
        """(the step that was planned, what was handed back)."""
        step = self.scheduler.plan()
        launched = None if step is None else (step, self.runner.launch(step.plan))
        if not self.ahead:
            self.flight, launched = launched, None
        progress: list[Progress] = []
        if self.flight is not None:
            progress = self.scheduler.retire(self.flight[0], self.flight[1].ids())
        if launched is not None:
            launched[1].sample(lambda: None)
        self.flight = launched
        self.scheduler.audit()
        return step, progress

    def fail(self) -> list[Progress]:
        """Every step in flight and one more fail."""
        steps = [self.flight[0]] if self.flight else []
        if (step := self.scheduler.plan()) is not None:
            steps.append(step)
        self.flight = None
        progress = [progress for step in steps for progress in self.scheduler.fail(step)]
        self.scheduler.audit()
        return progress

    def run(self) -> list[Progress]:
        """Until nothing waits."""
        progress = []
        while self.scheduler.has_work:
            step, more = self.turn()
            assert step is not None or more or self.flight is None
            progress += more
        return progress

    def answer(self, prompt: list[int], limit: int = 1, **more: object) -> Sequence:
        """Run one sequence to its end."""
        sequence = self.add(prompt, limit, **more)
        self.run()
        assert (sequence.output, sequence.finish_reason) == alone(prompt, limit)
        return sequence
