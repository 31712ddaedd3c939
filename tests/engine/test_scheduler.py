import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from node.engine.plan import PAGE
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Progress, Scheduler
from node.engine.sequence import Finish, Sequence
from tests.engine.memory_runner import MemoryRunner, next_id

GREEDY = Sampling(temperature=0.0)
CONTEXT = 4 * PAGE
STOP = 7


def make(name: str, prompt: list[int], limit: int, stop: tuple[int, ...] = ()) -> Sequence:
    return Sequence(name, np.array(prompt, dtype=np.int64), limit, GREEDY, frozenset(stop))


def alone(prompt: list[int], limit: int, stop: tuple[int, ...] = ()) -> tuple[list[int], Finish]:
    """What a sequence must yield whatever shares its steps."""
    output: list[int] = []
    while len(output) < limit:
        output.append(next_id(prompt + output))
        if output[-1] in stop:
            return output, Finish.STOP
    return output, Finish.LENGTH


def run_all(scheduler: Scheduler, runner: MemoryRunner) -> list[Progress]:
    """Run until nothing waits."""
    progress = []
    while (step := scheduler.plan()) is not None:
        progress += scheduler.retire(step, runner.run(step.plan))
        scheduler.audit()
    return progress


class SchedulerWalk(RuleBasedStateMachine):
    """Arrivals, steps and cancellations in any order: each answer equals the one alone, nothing is lost."""

    @initialize(
        pages=st.integers(4, 12),
        slots=st.integers(1, 6),
        recurrent=st.booleans(),
        tokens=st.integers(1, 200),
        mixed=st.integers(1, 100),
    )
    def start(self, pages: int, slots: int, recurrent: bool, tokens: int, mixed: int) -> None:
        self.budget = Budget(sequences=5, tokens=tokens, mixed_tokens=mixed)
        self.scheduler = Scheduler(pages, slots, CONTEXT, self.budget, recurrent)
        self.runner = MemoryRunner(pages, slots, recurrent)
        self.live: dict[Sequence, tuple[list[int], Finish]] = {}
        self.names = itertools.count()

    @rule(data=st.data(), length=st.integers(1, 3 * PAGE), limit=st.integers(0, PAGE))
    def arrive(self, data: st.DataObject, length: int, limit: int) -> None:
        seed = data.draw(st.integers(0, 2**20))
        prompt = np.random.default_rng(seed).integers(0, 50, length).tolist()
        sequence = make(f"s{next(self.names)}", prompt, limit, (STOP,))
        self.scheduler.check(sequence)
        self.scheduler.add(sequence)
        self.live[sequence] = alone(prompt, limit, (STOP,))

    @precondition(lambda self: self.live)
    @rule(steps=st.integers(1, 8))
    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.scheduler.plan()
            if step is None:
                assert not self.live
                return
            decoding = [row for row in step.rows if row.decoding]
            prompt_tokens = step.plan.tokens - len(decoding)
            assert step.plan.tokens > 0
            assert prompt_tokens <= (self.budget.mixed_tokens if decoding else self.budget.tokens)
            assert set(decoding) == {row for row in self.scheduler.running if row.decoding}
            lengths = step.plan.row_lengths
            assert (lengths[: step.plan.decode_rows] == 1).all()
            assert (lengths[step.plan.decode_rows :] > 1).all()
            for progress in self.scheduler.retire(step, self.runner.run(step.plan)):
                self.check(progress)

    def check(self, progress: Progress) -> None:
        expected, finish = self.live[progress.sequence]
        output = progress.sequence.output
        assert output == expected[: len(output)]
        if progress.finish is not None:
            assert (output, progress.finish) == (expected, finish)
            del self.live[progress.sequence]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(list(self.live)))
        self.scheduler.cancel(sequence)
        assert sequence.finish is Finish.CANCELLED
        assert len(sequence.pages) == 0
        del self.live[sequence]

    @precondition(lambda self: self.live)
    @rule()
    def fail(self) -> None:
        step = self.scheduler.plan()
        assert step is not None
        for progress in self.scheduler.fail(step):
            assert progress.finish is Finish.ERROR
            del self.live[progress.sequence]

    @invariant()
    def everything_adds_up(self) -> None:
        if hasattr(self, "scheduler"):
            self.scheduler.audit()
            assert {*self.scheduler.running, *self.scheduler.waiting} == set(self.live)

    def teardown(self) -> None:
        if hasattr(self, "scheduler"):
            for progress in run_all(self.scheduler, self.runner):
                self.check(progress)
            assert not self.live
            assert self.scheduler.pages.free == self.scheduler.pages.total


SchedulerWalk.TestCase.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
TestSchedulerWalk = SchedulerWalk.TestCase


@settings(max_examples=60, deadline=None)
@given(chunk=st.integers(1, 200), length=st.integers(1, 3 * PAGE), recurrent=st.booleans())
def test_any_chunk_size_gives_the_same_tokens(chunk: int, length: int, recurrent: bool) -> None:
    prompt = [(place * 13 + 5) % 50 for place in range(length)]
    scheduler = Scheduler(4, 1, CONTEXT, Budget(4, chunk, chunk), recurrent)
    sequence = make("s", prompt, 10)
    scheduler.add(sequence)
    run_all(scheduler, MemoryRunner(4, 1, recurrent))
    assert (sequence.output, sequence.finish) == alone(prompt, 10)


def test_a_long_prompt_stalls_no_decode() -> None:
    scheduler = Scheduler(64, 4, 32 * PAGE, Budget(4, tokens=1024, mixed_tokens=128), recurrent=True)
    runner = MemoryRunner(64, 4, recurrent=True)
    scheduler.add(short := make("short", [1, 2, 3], 40))
    step = scheduler.plan()
    assert step is not None
    scheduler.retire(step, runner.run(step.plan))
    scheduler.add(long := make("long", [4] * 1000, 5))
    sizes = []
    while not long.decoding:
        step = scheduler.plan()
        assert step is not None
        assert short in step.rows
        sizes.append(step.plan.tokens)
        scheduler.retire(step, runner.run(step.plan))
    assert sizes == [129] * 7 + [1 + 1000 - 7 * 128]


def test_first_come_first_served_even_when_a_later_one_would_fit() -> None:
    scheduler = Scheduler(4, 4, CONTEXT, Budget(4), recurrent=False)
    first, big, small = make("a", [1] * 65, 1), make("b", [1] * 200, 1), make("c", [1], 1)
    for sequence in (first, big, small):
        scheduler.add(sequence)
    step = scheduler.plan()
    assert step is not None
    assert step.rows == (first,)
    assert list(scheduler.waiting) == [big, small]


def test_a_limit_of_zero_runs_the_prompt_and_samples_nothing() -> None:
    scheduler = Scheduler(4, 1, CONTEXT, Budget(4, 3, 3), recurrent=True)
    sequence = make("s", [1, 2, 3, 4], 0)
    scheduler.add(sequence)
    progress = run_all(scheduler, MemoryRunner(4, 1, recurrent=True))
    assert [(p.ids, p.finish) for p in progress] == [((), Finish.LENGTH)]
    assert (sequence.output, sequence.computed) == ([], 4)


@pytest.mark.parametrize(
    ("prompt", "limit", "pages"), [(1, 0, 1), (64, 0, 1), (64, 1, 1), (64, 2, 2), (1, 64, 1), (1, 65, 2)]
)
def test_the_last_sampled_token_needs_no_page(prompt: int, limit: int, pages: int) -> None:
    assert make("s", [1] * prompt, limit).most_pages == pages


def test_what_could_never_run_is_refused_at_once() -> None:
    scheduler = Scheduler(3, 1, CONTEXT, Budget(4), recurrent=False)
    with pytest.raises(ValueError, match="needs 4 pages, a sequence can have 3"):
        scheduler.check(make("s", [1] * 193, 1))
