"""The scheduler's own time. The limits are budgets: what a step of a few milliseconds can hide.

Seconds are those that this thread had the processor: neighbours on the machine do not count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import numpy as np

from bench.registry import Measure, row
from kernels.constants import PAGE
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.engine.step import Progress
from node.settings import Settings

ROWS = 256
CONTEXT = 2048  # tokens of each sequence when the measuring begins
STEPS = 300
PLAN_BUDGET, STEP_BUDGET = 300.0, 1000.0  # microseconds
LONG = 32_768  # tokens of the prompt that is looked up
CHAINS = 390  # prefixes of LONG tokens: 200,000 pages
LOOKUP_BUDGET = 1000.0  # microseconds, once a request


def decoding(rows: int) -> Scheduler:
    """A scheduler whose sequences all decode and will for STEPS steps."""
    pages = rows * (CONTEXT + STEPS + PAGE) // PAGE + rows
    budget = Budget(rows, rows * CONTEXT, rows * CONTEXT)
    scheduler = Scheduler(pages, 2 * rows, 2 * CONTEXT, budget, recurrent=True)
    scheduler.admission.lengths.add(STEPS)
    for number in range(rows):
        prompt = np.random.default_rng(number).integers(0, 1000, CONTEXT)
        scheduler.add(Sequence(str(number), prompt, STEPS + 50, Sampling(seed=number), frozenset({5000})))
    while len(scheduler.running) < rows or scheduler.table.left.sum() > rows * (STEPS + 49):
        step = scheduler.plan()
        assert step is not None
        scheduler.retire(step, np.full(len(step.sampling), 7))
    return scheduler


@row
def host_step() -> Iterator[Measure]:
    """Microseconds of a step of 256 decoding sequences: planning, booking, and handing back on the loop thread."""
    scheduler = decoding(ROWS)
    engine = Engine(scheduler, None, Settings().part(EngineLimits))  # type: ignore[arg-type]  (only its hand-back is used)
    ids = np.full(ROWS, 7)
    plans, steps = [], []

    async def measure() -> None:
        generations = {sequence: engine.submit(sequence) for sequence in scheduler.running}
        assert len(generations) == ROWS
        for _ in range(STEPS - 20):
            began = time.thread_time()
            step = scheduler.plan()
            planned = time.thread_time()
            assert step is not None
            progress: list[Progress] = scheduler.retire(step, ids)
            engine._deliver(progress, 0)
            ended = time.thread_time()
            plans.append((planned - began) * 1e6)
            steps.append((ended - began) * 1e6)

    asyncio.run(measure())
    yield Measure(f"plan, {ROWS} decoding", "us", tuple(plans), PLAN_BUDGET)
    yield Measure(f"host side, {ROWS} decoding", "us", tuple(steps), STEP_BUDGET)


@row
def prefix_lookup() -> Iterator[Measure]:
    """Microseconds to find a prompt of 32k tokens among 200,000 pages, its keys computed and known."""
    pages = LONG // PAGE
    scheduler = Scheduler(CHAINS * pages, 0, LONG + PAGE, Budget(1, LONG, LONG), recurrent=False)
    for chain in range(CHAINS):
        prompt = np.random.default_rng(chain).integers(0, 1000, LONG)
        scheduler.add(Sequence(str(chain), prompt, 1, Sampling(0.0), frozenset()))
        while (step := scheduler.plan()) is not None:
            scheduler.retire(step, np.zeros(len(step.sampling), dtype=np.int64))
    assert scheduler.pages.idle == CHAINS * pages
    for name, known in (("keys computed", False), ("keys known", True)):
        times = []
        for chain in range(0, CHAINS, 10):
            prompt = np.random.default_rng(chain).integers(0, 1000, LONG)
            sequence = Sequence("again", prompt, 1, Sampling(0.0), frozenset())
            if known:
                sequence.page_keys(pages - 1)
            began = time.thread_time()
            assert scheduler.prefix_cache.find(sequence).tokens == LONG - PAGE
            times.append((time.thread_time() - began) * 1e6)
        yield Measure(f"lookup of 32k, {name}", "us", tuple(times), LOOKUP_BUDGET)
    began = time.thread_time()
    scheduler.audit()
    yield Measure("audit of 200,000 pages", "us", ((time.thread_time() - began) * 1e6,), 100_000.0)
