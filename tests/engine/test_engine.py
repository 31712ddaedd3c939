"""The engine thread: hand-back, cancellation, failure, idleness."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from node.engine.engine import Engine, Overloaded
from node.engine.generation import Generation
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Finish, Sequence
from node.telemetry.health import FATAL_FAILURES, UNHEALTHY_SECONDS
from tests.engine.memory_runner import MemoryRunner
from tests.engine.test_scheduler import alone

PAGES, SLOTS, CONTEXT = 40, 8, 256


class SlowRunner(MemoryRunner):
    """`seconds` a step, and fails `failures` steps."""

    seconds = 0.0
    failures = 0

    def run(self, plan, masks):
        time.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("asked for")
        return super().run(plan, masks)


def make(name: str, prompt: list[int], limit: int) -> Sequence:
    return Sequence(name, np.array(prompt), limit, Sampling(temperature=0.0), frozenset())


def with_engine(test: Callable[[Engine, SlowRunner], Awaitable[None]], queue: int = 100) -> None:
    async def main() -> None:
        runner = SlowRunner(PAGES, SLOTS, recurrent=True)
        engine = Engine(Scheduler(PAGES, SLOTS, CONTEXT, Budget(SLOTS, 64, 16), True), runner, queue)
        engine.start(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(test(engine, runner), 30)
        finally:
            await asyncio.to_thread(engine.stop)

    asyncio.run(main())


async def collect(generation: Generation) -> tuple[list[int], Finish | None]:
    ids: list[int] = []
    while True:
        burst = await generation.next(10)
        assert burst is not None
        ids += burst.ids
        if burst.finish is not None:
            return ids, burst.finish


async def idle(engine: Engine) -> None:
    while engine.live or engine.snapshot.running or engine.snapshot.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert (engine.snapshot.pages_free, engine.snapshot.slots_free) == (PAGES, SLOTS)


def test_fifty_at_once_each_get_the_answer_they_would_get_alone() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        prompts = [[(n * 7 + place) % 50 for place in range(1 + 5 * n % 150)] for n in range(50)]
        answers = await asyncio.gather(
            *[collect(engine.submit(make(f"s{n}", prompt, 20))) for n, prompt in enumerate(prompts)]
        )
        assert answers == [alone(prompt, 20) for prompt in prompts]
        await idle(engine)
        assert engine.snapshot.prompt_tokens == sum(map(len, prompts))
        assert engine.snapshot.sampled_tokens == 50 * 20

    with_engine(test)


def test_random_cancellations_lose_nothing_and_hurt_nobody() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        random = np.random.default_rng(1)
        runner.seconds = 0.0005

        async def one(number: int) -> None:
            prompt = random.integers(0, 50, int(random.integers(1, 150))).tolist()
            generation = engine.submit(make(f"s{number}", prompt, 30))
            if number % 2:
                await asyncio.sleep(float(random.random()) * 0.05)
                generation.cancel()
                generation.cancel()  # harmless
            else:
                assert await collect(generation) == alone(prompt, 30)

        await asyncio.gather(*[one(number) for number in range(60)])
        await idle(engine)

    with_engine(test)


def test_a_failed_step_ends_its_sequences_and_the_engine_goes_on() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.failures = 1
        assert await collect(engine.submit(make("a", [1, 2], 5))) == ([], Finish.ERROR)
        assert engine.health.failures == 1
        assert await collect(engine.submit(make("b", [1, 2], 5))) == alone([1, 2], 5)
        assert engine.health.failures == 0
        await idle(engine)

    with_engine(test)


def test_failures_in_a_row_turn_the_node_unhealthy() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.failures = FATAL_FAILURES
        for number in range(FATAL_FAILURES):
            assert engine.health.healthy(time.monotonic())
            await collect(engine.submit(make(f"s{number}", [1], 5)))
        assert not engine.health.healthy(time.monotonic())

    with_engine(test)


def test_health_is_progress_while_something_waits() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        now = engine.health.progress_at
        assert engine.health.healthy(now + 10 * UNHEALTHY_SECONDS)  # idle
        runner.seconds = 0.05
        generation = engine.submit(make("s", [1], 10))
        began = engine.health.progress_at
        assert not engine.health.healthy(began + UNHEALTHY_SECONDS)
        assert await generation.next(10)
        assert engine.health.progress_at > began
        generation.cancel()
        assert engine.health.healthy(began + 10 * UNHEALTHY_SECONDS)

    with_engine(test)


def test_one_more_than_the_queue_holds_is_refused() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.05
        generations = [engine.submit(make(f"s{n}", [1], 5)) for n in range(SLOTS + 3)]
        with pytest.raises(Overloaded):
            engine.submit(make("more", [1], 5))
        generations[0].cancel()
        assert await collect(engine.submit(make("again", [1], 5))) == alone([1], 5)

    with_engine(test, queue=3)


def test_patience_ends_without_news_and_nothing_is_lost_by_it() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.05
        generation = engine.submit(make("s", [1], 3))
        assert await generation.next(0.001) is None
        ids: list[int] = []
        while (burst := await generation.next(0.001)) is None or burst.finish is None:
            ids += burst.ids if burst else ()
        assert ids + list(burst.ids) == alone([1], 3)[0]

    with_engine(test)
