"""What the engine thread does not survive, nobody waits for."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from node.engine.engine import Engine
from node.engine.pool import PoolError
from node.engine.recording import Recorder
from node.engine.sequence import FinishReason
from node.telemetry.health import FATAL_FAILURES
from tests.engine.drive import alone
from tests.engine.test_engine import SlowRunner, collect, make, with_engine


class Panic(BaseException):
    """As Rust's panics reach Python: not an Exception."""


@pytest.mark.parametrize("error", [PoolError, Panic])
def test_when_the_engine_thread_dies_nobody_waits_for_it(error: type[BaseException]) -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.002
        first = engine.submit(make("a", [1, 2], 200))
        assert await first.next(10)

        def dies() -> None:
            raise error("asked for")

        engine._scheduler.plan = dies
        assert (await asyncio.wait_for(collect(first), 5))[1] is FinishReason.ERROR
        late = engine.submit(make("b", [1], 5))
        assert await asyncio.wait_for(collect(late), 5) == ([], FinishReason.ERROR)
        assert (engine.live, engine.accepting, engine.health.healthy(time.monotonic())) == (0, False, False)
        assert (engine.snapshot.running, engine.snapshot.failures) == (0, FATAL_FAILURES)

    with_engine(test)


def test_a_death_is_not_forgotten_for_the_step_before_it() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        plan = engine._scheduler.plan

        def once():
            if engine.snapshot.steps:  # one has been handed back, and the loop has not looked yet
                raise PoolError("asked for")
            return plan()

        engine._scheduler.plan = once
        generation = engine.submit(make("a", [1, 2], 1))
        engine._thread.join(5)  # the loop thread sees nothing meanwhile
        assert not engine._thread.is_alive()
        assert await asyncio.wait_for(collect(generation), 5)
        await asyncio.sleep(0.01)
        assert engine.health.failures == FATAL_FAILURES

    with_engine(test)


class Panics:
    def mask(self, ids: tuple[int, ...]) -> np.ndarray | None:
        raise Panic("asked for")


def test_a_constraint_that_panics_is_dropped() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        generation = engine.submit(make("a", [1, 2], 5, constraint=Panics()))
        assert await asyncio.wait_for(collect(generation), 5) == alone([1, 2], 5)

    with_engine(test)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that no byte fits in")
def test_a_full_disk_ends_the_recording_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        for name in "ab":
            generation = engine.submit(make(name, [1, 2], 5))
            assert await asyncio.wait_for(collect(generation), 5) == alone([1, 2], 5)

    with_engine(test, Recorder(Path("/dev/full")))
    assert [record.message.partition(":")[0] for record in caplog.records] == ["the recording ends here"]
