"""The engine thread: plan, run, retire, hand back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from node.engine.constraint import MaskBuilder
from node.engine.generation import Generation
from node.engine.plan import GetMasks, StepPlan
from node.engine.scheduler import Progress, Scheduler
from node.engine.sequence import Sequence
from node.telemetry.health import FATAL_FAILURES, Health
from node.telemetry.snapshot import EngineSnapshot

log = logging.getLogger("node.engine")


class Runner(Protocol):
    def run(self, plan: StepPlan, masks: GetMasks) -> NDArray[np.int64]:
        """Sampled ids, int64 [S], in the order of plan.sample_rows.

        `masks` is called once, between the forward pass and sampling: they are built meanwhile.
        """
        ...


class Overloaded(Exception):
    """The queue is full; theirs to retry."""


class Engine:
    """Owns the scheduler and the runner on a thread of its own.

    The loop thread calls `submit`; messages cross to the engine thread through an inbox that is read between
    steps, and what a step did crosses back in one call a step. Nothing else is shared.
    """

    def __init__(self, scheduler: Scheduler, runner: Runner, queue: int = 1024) -> None:
        """`queue` bounds the sequences that wait; one more is refused."""
        self._scheduler = scheduler
        self._runner = runner
        self._masks = MaskBuilder()
        self._most_live = scheduler.budget.sequences + queue
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        # of the loop thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live: dict[Sequence, Generation] = {}
        self.accepting = True  # false while the node drains
        self.health = Health(progress_at=time.monotonic())
        # written by the engine thread, whole, once a step
        self.snapshot = self._picture(steps=0, failures=0)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """End the thread once the step in flight is done. Sequences that still live are cancelled."""
        for generation in list(self._live.values()):
            generation.cancel()
        self._stopping = True
        self._wake.set()
        self._thread.join()
        self._masks.stop()

    @property
    def live(self) -> int:
        """Sequences submitted and not yet ended."""
        return len(self._live)

    def submit(self, sequence: Sequence) -> Generation:
        """Queue `sequence`; raises Overloaded when too many wait, ValueError when it could never run here."""
        if len(self._live) >= self._most_live:
            raise Overloaded
        self._scheduler.check(sequence)
        generation = Generation(lambda: self._withdraw(sequence))
        if not self._live:
            self.health.progress_at = time.monotonic()
        self._live[sequence] = generation
        self.health.busy = True
        self._send(lambda: self._scheduler.add(sequence))
        return generation

    def _withdraw(self, sequence: Sequence) -> None:
        if self._live.pop(sequence, None) is not None:
            self.health.busy = bool(self._live)
            self._send(lambda: self._scheduler.cancel(sequence))

    def _send(self, message: Callable[[], None]) -> None:
        self._inbox.append(message)
        self._wake.set()

    def _deliver(self, progress: list[Progress], failures: int) -> None:
        """On the loop thread: the hand-back of one step."""
        self.health.progress_at = time.monotonic()
        self.health.failures = failures
        for step in progress:
            generation = self._live.get(step.sequence)
            if generation is None:
                continue  # withdrawn while the step ran
            if step.finish is not None:
                del self._live[step.sequence]
            generation.deliver(step.ids, step.finish)
        self.health.busy = bool(self._live)

    # the engine thread

    def _work(self) -> None:
        try:
            while not self._stopping:
                while self._inbox:
                    self._inbox.popleft()()
                if not self._step():
                    self._wake.wait()
                    self._wake.clear()
        except Exception:
            log.critical("the engine thread has died", exc_info=True)
            self.health.failures = FATAL_FAILURES

    def _step(self) -> bool:
        """Run one step; False when there is nothing to run."""
        last = self.snapshot
        step = self._scheduler.plan()
        if step is None:
            if not self._scheduler.has_work:
                self._scheduler.audit()
            self.snapshot = self._picture(last.steps, last.failures)
            return False
        try:
            masks = self._masks.begin(step.sampling)
            progress, failures = self._scheduler.retire(step, self._runner.run(step.plan, masks)), 0
        except Exception:
            log.exception("a step failed; its requests: %s", " ".join(row.id for row in step.rows))
            progress, failures = self._scheduler.fail(step), last.failures + 1
        self.snapshot = self._picture(last.steps + 1, failures)
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._deliver, progress, failures)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            self._stopping = True
        return True

    def _picture(self, steps: int, failures: int) -> EngineSnapshot:
        scheduler = self._scheduler
        return EngineSnapshot(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            pages_free=scheduler.pages.free,
            pages_total=scheduler.pages.total,
            slots_free=scheduler.slots.free,
            slots_total=scheduler.slots.total,
            steps=steps,
            prompt_tokens=scheduler.prompt_tokens,
            sampled_tokens=scheduler.sampled_tokens,
            failures=failures,
        )
