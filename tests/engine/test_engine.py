"""The engine thread, plain and planning ahead: hand-back, cancellation, failure, idleness."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.constants import PAGE
from node.engine.drain import LONGEST, DrainRate
from node.engine.engine import Engine, Overloaded
from node.engine.generation import Generation
from node.engine.limits import EngineLimits
from node.engine.recording import Recorder, read_recording
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.settings import Settings
from node.telemetry.health import FATAL_FAILURES
from tests.engine.drive import alone
from tests.engine.memory_runner import MemoryRunner

PAGES, ROWS, SLOTS, CONTEXT = 40, 8, 12, 256
LIMITS = Settings().part(EngineLimits)


class SlowRunner(MemoryRunner):
    """`seconds` a step, and fails `failures` steps."""

    seconds = 0.0
    failures = 0

    def launch(self, plan):
        time.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("asked for")
        return super().launch(plan)


def make(name: str, prompt: list[int], limit: int, **more: object) -> Sequence:
    return Sequence(name, np.array(prompt), limit, Sampling(temperature=0.0), frozenset(), **more)


def with_engine(
    test: Callable[[Engine, SlowRunner], Awaitable[None]], recorder: Recorder | None = None, **bounds: int
) -> None:
    async def main(ahead: bool) -> None:
        runner = SlowRunner(PAGES, SLOTS, recurrent=True)
        scheduler = Scheduler(PAGES, SLOTS, CONTEXT, Budget(ROWS, 64, 16), True)
        limits = replace(LIMITS, **bounds)
        engine = Engine(scheduler, runner, limits, ahead=runner if ahead else None, recorder=recorder)
        engine.start(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(test(engine, runner), 30)
        finally:
            await asyncio.to_thread(engine.stop)

    asyncio.run(main(ahead=False))
    if recorder is None:
        asyncio.run(main(ahead=True))


async def collect(generation: Generation) -> tuple[list[int], FinishReason | None]:
    ids: list[int] = []
    while True:
        delta = await generation.next(10)
        assert delta is not None
        ids += delta.ids
        if delta.finish_reason is not None:
            return ids, delta.finish_reason


async def idle(engine: Engine) -> None:
    while engine.live or engine.snapshot.running or engine.snapshot.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert (engine.snapshot.pages_free, engine.snapshot.state_slots_free) == (PAGES, SLOTS)


def test_fifty_at_once_each_get_the_answer_they_would_get_alone() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        prompts = [[(n * 7 + index) % 50 for index in range(1 + 5 * n % 150)] for n in range(50)]
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
        assert await collect(engine.submit(make("a", [1, 2], 5))) == ([], FinishReason.ERROR)
        assert engine.health.failures == 1
        assert engine.snapshot.state_slots_free == SLOTS
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
        assert engine.health.healthy(now + 10 * LIMITS.unhealthy_timeout)  # idle
        runner.seconds = 0.05
        generation = engine.submit(make("s", [1], 10))
        began = engine.health.progress_at
        assert not engine.health.healthy(began + LIMITS.unhealthy_timeout)
        assert await generation.next(10)
        assert engine.health.progress_at > began
        generation.cancel()
        assert engine.health.healthy(began + 10 * LIMITS.unhealthy_timeout)

    with_engine(test)


def test_a_failure_while_a_step_is_in_flight_loses_no_other_answer() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.002
        first = engine.submit(make("a", [1, 2], 40))
        assert await first.next(10)
        runner.failures = 1
        assert (await collect(first))[1] is FinishReason.ERROR
        answers = await asyncio.gather(*[collect(engine.submit(make(f"b{n}", [n], 9))) for n in range(5)])
        assert answers == [alone([n], 9) for n in range(5)]
        await idle(engine)

    with_engine(test)


def test_one_more_than_the_queue_holds_is_refused() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.05
        generations = [engine.submit(make(f"s{n}", [1], 5)) for n in range(ROWS + 3)]
        with pytest.raises(Overloaded) as refused:
            engine.submit(make("more", [1], 5))
        assert 1 <= refused.value.retry_after <= LONGEST
        generations[0].cancel()
        assert await collect(engine.submit(make("again", [1], 5))) == alone([1], 5)

    with_engine(test, queue_requests=3)


def test_the_queue_is_bounded_by_tokens_too_but_holds_one_of_any_length() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.05
        generations = [engine.submit(make("long", [1] * 200, 5))]
        with pytest.raises(Overloaded):
            engine.submit(make("more", [1], 5))
        generations[0].cancel()
        generations = [engine.submit(make(f"s{n}", [n] * 20, 2)) for n in range(5)]
        with pytest.raises(Overloaded):
            engine.submit(make("more", [1], 5))
        for generation in generations:
            await collect(generation)
        assert await collect(engine.submit(make("again", [1] * 100, 2)))

    with_engine(test, queue_tokens=100)


def test_retry_after_follows_the_rate_at_which_sequences_end() -> None:
    drain = DrainRate()
    assert drain.retry_after(100, 0.0) == 2
    for n in range(101):
        drain.ended(n / 10)
    assert drain.retry_after(100, 10.0) == 5  # half of a hundred at ten a second
    assert drain.retry_after(1, 10.0) == 1
    assert drain.retry_after(10_000, 10.0) == LONGEST
    assert drain.retry_after(100, 20.0) > 10  # nothing has ended for a while


class Countdown:
    """Allows one id: the last one less one. What it is asked for depends on what it has just been told."""

    def __init__(self, start: int) -> None:
        self.next = start

    def mask(self, ids: tuple[int, ...]) -> np.ndarray | None:
        for number in ids:
            assert number == self.next
            self.next -= 1
        bits = np.zeros(2, dtype=np.uint32)
        bits[self.next // 32] = 1 << self.next % 32
        return bits


def test_a_mask_is_built_from_the_id_before_it() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        counting = [engine.submit(make(f"c{n}", [n], 20, constraint=Countdown(40 + n))) for n in range(4)]
        free = [engine.submit(make(f"f{n}", [n], 20)) for n in range(3)]
        for n, generation in enumerate(counting):
            assert await collect(generation) == (list(range(40 + n, 20 + n, -1)), FinishReason.LENGTH)
        for n, generation in enumerate(free):
            assert await collect(generation) == alone([n], 20)

    with_engine(test)


def test_a_deadline_passes_while_it_waits() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.01
        running = [engine.submit(make(f"s{n}", [1], 20)) for n in range(ROWS)]
        late = engine.submit(make("late", [1], 5, deadline=time.monotonic() + 0.03))
        assert await collect(late) == ([], FinishReason.EXPIRED)
        for generation in running:
            assert await collect(generation) == alone([1], 20)
        await idle(engine)

    with_engine(test)


def test_what_was_reused_is_told_with_the_first_news() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        prompt = [index % 50 for index in range(150)]
        for cached in (0, 2 * PAGE):
            generation = engine.submit(make("s", prompt, 3))
            assert generation.cached == 0
            assert await collect(generation) == alone(prompt, 3)
            assert generation.cached == cached
        assert (engine.snapshot.reused_tokens, engine.snapshot.prompt_tokens) == (128, 172)

    with_engine(test)


def test_a_recording_holds_every_plan_and_every_event(tmp_path: Path) -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        generations = [engine.submit(make(f"s{n}", [n] * 70, 4)) for n in range(3)]
        for generation in generations:
            await collect(generation)
        recorded.append(runner)

    recorded: list[SlowRunner] = []
    with_engine(test, Recorder(tmp_path / "record", texts=True))
    events = list(read_recording(tmp_path / "record"))
    plans = [event["plan"] for event in events if event["event"] == "plan"]
    assert len(plans) == len(recorded[0].plans)
    again = SlowRunner(PAGES, SLOTS, recurrent=True)
    for ours, theirs in zip(plans, recorded[0].plans, strict=True):
        assert all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in ours.__slots__)
        again.run(ours)  # plans can be replayed without a scheduler
    ends = {
        name: end for event in events if event["event"] == "progress" for name, end in event["ends"].items()
    }
    assert ends == {f"s{n}": {"finish_reason": "length", "output": 4, "cached": 0} for n in range(3)}
    arrivals = [event for event in events if event["event"] == "arrival"]
    assert [(event["id"], event["prompt"], len(event["pages"])) for event in arrivals] == [
        (f"s{n}", 70, 1) for n in range(3)
    ]


def test_stopped_in_the_midst_everything_is_back() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.002
        generations = [engine.submit(make(f"s{n}", [n] * 100, 50)) for n in range(ROWS + 3)]
        assert await generations[0].next(10)
        await asyncio.to_thread(engine.stop)
        scheduler = engine._scheduler
        scheduler.audit()
        assert not scheduler.has_work
        assert (scheduler.pages.free, scheduler.state_slots_free) == (PAGES, SLOTS)

    with_engine(test)


def test_a_timeout_ends_without_news_and_nothing_is_lost_by_it() -> None:
    async def test(engine: Engine, runner: SlowRunner) -> None:
        runner.seconds = 0.05
        generation = engine.submit(make("s", [1], 3))
        assert await generation.next(0.001) is None
        ids: list[int] = []
        while (delta := await generation.next(0.001)) is None or delta.finish_reason is None:
            ids += delta.ids if delta else ()
        assert ids + list(delta.ids) == alone([1], 3)[0]

    with_engine(test)
