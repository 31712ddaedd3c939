"""The engine thread: plan, run, retire, hand back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from node.engine.drain import DrainRate
from node.engine.generation import Generation
from node.engine.limits import EngineLimits
from node.engine.plan import GetSamplingMetadata, StepPlan
from node.engine.recording import Recorder
from node.engine.sampling_metadata_builder import SamplingMetadataBuilder
from node.engine.scheduler import Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.engine.step import Progress, Step
from node.telemetry.health import FATAL_FAILURES, Health
from node.telemetry.snapshot import EngineSnapshot

log = logging.getLogger("node.engine")

SETTLED_SECONDS = (
    0.1  # of idleness, before the books are audited: tens of milliseconds that nobody should wait for
)


class StepHandle(Protocol):
    """A forward pass that has been handle."""

    def sample(self, get_metadata: GetSamplingMetadata) -> None:
        """Launch the sampling after it."""
        ...

    def ids(self) -> NDArray[np.int64]:
        """Sampled ids, int64 [S], in the order of plan.sample_rows; waits for them."""
        ...


class StepRunner(Protocol):
    def run(self, plan: StepPlan, get_metadata: GetSamplingMetadata) -> NDArray[np.int64]:
        """`launch`, `sample` and `ids` in one. `get_metadata` is called between the forward pass and sampling."""
        ...


class OverlappedRunner(StepRunner, Protocol):
    def launch(self, plan: StepPlan) -> StepHandle:
        """Begin a step, after those launched before it; the plan's future_tokens are of the last one's samples."""
        ...


class Overloaded(Exception):
    """The queue is full; theirs to retry, after so many seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"try again in {retry_after} s")
        self.retry_after = retry_after


class Engine:
    """Owns the scheduler and the runner on a thread of its own.

    The loop thread calls `submit`; messages cross to the engine thread through an inbox that is read between
    steps, and what a step did crosses back in one call a step. Nothing else is shared.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        runner: StepRunner,
        limits: EngineLimits,
        ahead: OverlappedRunner | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """With `ahead` each step is planned and launched while the one before it runs."""
        self._scheduler = scheduler
        self._runner = runner
        self._ahead = ahead
        self._recorder = recorder
        self._metadata_builder = SamplingMetadataBuilder()
        self._flight: tuple[Step, StepHandle] | None = None
        self._most_live = scheduler.budget.sequences + limits.queue_requests
        self._most_tokens = limits.queue_tokens
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        # of the loop thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live: dict[Sequence, Generation] = {}
        self._queued_tokens = 0
        self._drain = DrainRate()
        self._dead = False
        self.accepting = True  # false while the node drains
        self.health = Health(limits.unhealthy_timeout, limits.watchdog_timeout, progress_at=time.monotonic())
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
        self._metadata_builder.stop()
        if self._recorder is not None:
            self._recorder.close()

    @property
    def live(self) -> int:
        """Sequences submitted and not yet ended."""
        return len(self._live)

    def submit(self, sequence: Sequence) -> Generation:
        """Queue `sequence`; raises Overloaded when too many wait, ValueError when it could never run here."""
        queued = self._queued_tokens + len(sequence.prompt)
        if len(self._live) >= self._most_live or (self._queued_tokens and queued > self._most_tokens):
            waiting = max(1, len(self._live) - self._scheduler.budget.sequences)
            raise Overloaded(self._drain.retry_after(waiting, time.monotonic()))
        self._scheduler.check(sequence)
        generation = Generation(lambda: self._withdraw(sequence), sequence)
        if self._dead:
            generation.deliver((), FinishReason.ERROR)
            return generation
        if not self._live:
            self.health.progress_at = time.monotonic()
        self._live[sequence] = generation
        self._queued_tokens = queued
        self.health.busy = True
        self._send(lambda: self._arrive(sequence))
        return generation

    def _withdraw(self, sequence: Sequence) -> None:
        generation = self._live.pop(sequence, None)
        if generation is not None:
            self._begin(generation)
            self.health.busy = bool(self._live)
            self._send(lambda: self._scheduler.cancel(sequence))

    def _begin(self, generation: Generation) -> None:
        """Its prompt no longer counts as waiting."""
        if not generation.begun:
            generation.begun = True
            self._queued_tokens -= len(generation.sequence.prompt)

    def _send(self, message: Callable[[], None]) -> None:
        self._inbox.append(message)
        self._wake.set()

    def _deliver(self, progress: list[Progress], failures: int) -> None:
        """On the loop thread: the hand-back of one step."""
        now = time.monotonic()
        self.health.progress_at = now
        self.health.failures = failures
        for sequence, ids, finish_reason in progress:
            generation = self._live.get(sequence)
            if generation is None:
                continue  # withdrawn while the step ran
            self._begin(generation)
            if finish_reason is not None:
                self._live.pop(sequence, None)  # `stop` withdraws from a thread of its own
                self._drain.ended(now)
            generation.deliver(ids, finish_reason)
        self.health.busy = bool(self._live)

    def _die(self) -> None:
        """On the loop thread, after all that was handed back: nothing runs any more, so nobody may wait for it."""
        self._dead = True
        self.accepting = False
        self.snapshot = replace(self.snapshot, running=0, waiting=0, failures=FATAL_FAILURES)
        self._deliver(
            [Progress(sequence, (), FinishReason.ERROR) for sequence in list(self._live)], FATAL_FAILURES
        )

    # the engine thread

    def _work(self) -> None:
        turn = self._plain_turn if self._ahead is None else self._overlapped_turn
        try:
            while not self._stopping:
                self._read_inbox()
                if expired := self._scheduler.expire(time.monotonic()):
                    self._hand_back(expired, self.snapshot.failures)
                if not turn():
                    self._rest()
            self._read_inbox()
            if self._flight is not None:
                self._finish(*self._flight)
        except BaseException:  # a panic of a library in Rust is no Exception
            log.critical("the engine thread has died", exc_info=True)
            self._tell(self._die)

    def _read_inbox(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def _plain_turn(self) -> bool:
        """One step from plan to hand-back; False when there is nothing to run."""
        step = self._scheduler.plan()
        if step is None:
            return False
        self._record(step)
        try:
            ids = self._runner.run(step.plan, self._metadata_builder.begin(step.sampling))
        except Exception:
            self._fail(step)
        else:
            self._retire(step, ids)
        return True

    def _overlapped_turn(self) -> bool:
        """Launch the next step, then hand back the one before it; False when there is neither."""
        assert self._ahead is not None
        before, self._flight = self._flight, None
        step = self._scheduler.plan()
        handle = None
        if step is not None:
            self._record(step)
            try:
                handle = self._ahead.launch(step.plan)
            except Exception:
                if before is not None:
                    self._finish(*before)
                self._fail(step)
                return True
        if before is not None:
            self._finish(*before)
        if step is not None and handle is not None:
            try:
                handle.sample(
                    self._metadata_builder.begin(step.sampling)
                )  # the ids they depend on are known by now
            except Exception:
                self._fail(step)
            else:
                self._flight = step, handle
        return step is not None or before is not None

    def _finish(self, step: Step, handle: StepHandle) -> None:
        try:
            ids = handle.ids()
        except Exception:
            self._fail(step)
        else:
            self._retire(step, ids)

    def _retire(self, step: Step, ids: NDArray[np.int64]) -> None:
        progress = self._scheduler.retire(step, ids)
        for sequence, _, finish_reason in progress:
            if finish_reason is FinishReason.ERROR:
                log.error("%s: its logits were not finite numbers; it ends alone", sequence.id)
        self._done(progress, failures=0)

    def _fail(self, step: Step) -> None:
        log.exception("a step failed; its requests: %s", " ".join(row.id for row in step.sequences))
        self._done(self._scheduler.fail(step), self.snapshot.failures + 1)

    def _done(self, progress: list[Progress], failures: int) -> None:
        self.snapshot = self._picture(self.snapshot.steps + 1, failures)
        self._hand_back(progress, failures)

    def _hand_back(self, progress: list[Progress], failures: int) -> None:
        if self._recorder is not None:
            self._recorder.progress(progress)
        self._tell(self._deliver, progress, failures)

    def _tell(self, call: Callable[..., None], *given: object) -> None:
        """Have the loop thread make a call, after those it was told before."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *given)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            self._stopping = True

    def _rest(self) -> None:
        self.snapshot = self._picture(self.snapshot.steps, self.snapshot.failures)
        if not self._wake.wait(SETTLED_SECONDS) and not self._scheduler.has_work:
            self._scheduler.audit()
        self._wake.wait()
        self._wake.clear()

    def _arrive(self, sequence: Sequence) -> None:
        if self._recorder is not None:
            self._recorder.arrival(sequence)
        self._scheduler.add(sequence)

    def _record(self, step: Step) -> None:
        if self._recorder is not None:
            self._recorder.plan(step)

    def _picture(self, steps: int, failures: int) -> EngineSnapshot:
        scheduler = self._scheduler
        pages, states, counts = scheduler.pages, scheduler.prefix_cache.state_cache, scheduler.counts
        return EngineSnapshot(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            pages_free=pages.free,
            pages_idle=pages.idle,
            pages_total=pages.total,
            state_slots_free=scheduler.state_slots_free,
            state_slots_total=scheduler.state_slots_total,
            cached_states=len(states),
            cached_states_total=states.total,
            steps=steps,
            prompt_tokens=counts.prompt,
            sampled_tokens=counts.sampled,
            reused_tokens=counts.reused,
            recomputed_tokens=counts.recomputed,
            preemptions=counts.preemptions,
            failures=failures,
        )
