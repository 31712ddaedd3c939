"""The scheduler in any order of events, and what it promises of one step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernels.constants import PAGE
from node.engine.output_lengths import OutputLengths
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.engine.step import Progress
from tests.engine.drive import Drive, alone, make, random_ids

CONTEXT = 4 * PAGE
STOP = 7


class SchedulerWalk(RuleBasedStateMachine):
    """Arrivals that share prefixes, steps, cancellations, failures, pages and cached states too few for all of it:
    each answer equals the one alone, nothing is lost, and everything is explained after every event."""

    @initialize(
        pages=st.integers(4, 14),
        rows=st.integers(1, 5),
        cached_states=st.integers(0, 4),
        recurrent=st.booleans(),
        ahead=st.booleans(),
        tokens=st.integers(1, 200),
        mixed=st.integers(1, 100),
        guess=st.sampled_from([1, 20, 500]),
    )
    def start(
        self,
        pages: int,
        rows: int,
        cached_states: int,
        recurrent: bool,
        ahead: bool,
        tokens: int,
        mixed: int,
        guess: int,
    ) -> None:
        self.budget = Budget(tokens=tokens, mixed_tokens=mixed)
        self.drive = Drive(pages, rows, cached_states, CONTEXT, self.budget, recurrent, ahead)
        self.scheduler = self.drive.scheduler
        self.scheduler.admission.lengths = OutputLengths(guess)
        self.live: dict[Sequence, tuple[list[int], FinishReason]] = {}

    @rule(
        shared=st.sampled_from([0, 30, 64, 100, 128, 150]),
        own=st.integers(0, 40),
        seed=st.integers(0, 2**20),
        limit=st.integers(0, 3 * PAGE),
        organization=st.sampled_from(["a", "b"]),
        boundary=st.none() | st.integers(1, 150),
    )
    def arrive(
        self, shared: int, own: int, seed: int, limit: int, organization: str, boundary: int | None
    ) -> None:
        prompt = random_ids(0, shared) + random_ids(seed, max(own, 1 - shared))
        boundaries = () if boundary is None else (min(boundary, len(prompt)),)
        limit = min(limit, CONTEXT - len(prompt))
        more = {"organization": organization, "boundaries": boundaries}
        self.live[self.drive.add(prompt, limit, (STOP,), **more)] = alone(prompt, limit, (STOP,))

    @precondition(lambda self: self.live)
    @rule(steps=st.integers(1, 40))
    def run(self, steps: int) -> None:
        for _ in range(steps):
            if not self.scheduler.has_work:
                assert not self.live
                return
            step, progress = self.drive.turn()
            if step is not None:
                prompt_tokens = step.plan.tokens - step.decoding
                assert step.plan.tokens > 0
                assert prompt_tokens <= (self.budget.mixed_tokens if step.decoding else self.budget.tokens)
                lengths = step.plan.row_lengths
                assert (lengths[: step.plan.decode_rows] == 1).all()
                assert (lengths[step.plan.decode_rows :] > 1).all()
            self.check(progress)

    def check(self, progress: list[Progress]) -> None:
        for sequence, _, finish_reason in progress:
            expected, ending = self.live[sequence]
            assert sequence.output == expected[: len(sequence.output)]
            if finish_reason is not None:
                assert (sequence.output, finish_reason) == (expected, ending)
                del self.live[sequence]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(list(self.live)))
        self.scheduler.cancel(sequence)
        assert sequence.finish_reason is FinishReason.CANCELLED
        assert self.drive.ahead or sequence.row < 0
        del self.live[sequence]

    @precondition(lambda self: self.live)
    @rule()
    def fail(self) -> None:
        for sequence, _, finish_reason in self.drive.fail():
            assert finish_reason is FinishReason.ERROR
            del self.live[sequence]

    @rule()
    def forget(self) -> None:
        self.scheduler.prefix_cache.clear()

    @invariant()
    def everything_is_explained(self) -> None:
        if hasattr(self, "scheduler"):
            self.scheduler.audit()
            leaving = {sequence for sequence in self.scheduler._leaving if sequence.finish_reason is None}
            assert {*self.scheduler.running, *self.scheduler.waiting, *leaving} == set(self.live)
            for sequence in self.scheduler.running:
                named = int(self.scheduler.table.named[sequence.row])
                mine = self.scheduler.table.pages(sequence.row)[:named].tolist()
                assert self.scheduler.pages.find(sequence.page_keys(named)) == mine

    def teardown(self) -> None:
        if hasattr(self, "scheduler"):
            self.check(self.drive.run())
            assert not self.live
            assert self.scheduler.pages.free == self.scheduler.pages.total
            assert self.scheduler.state_slots_free == self.scheduler.state_slots_total


SchedulerWalk.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestSchedulerWalk = SchedulerWalk.TestCase


@settings(max_examples=60, deadline=None)
@given(
    chunk=st.integers(1, 200), length=st.integers(1, 3 * PAGE), recurrent=st.booleans(), ahead=st.booleans()
)
def test_any_chunk_size_gives_the_same_tokens(chunk: int, length: int, recurrent: bool, ahead: bool) -> None:
    drive = Drive(context=CONTEXT, budget=Budget(4, chunk, chunk), recurrent=recurrent, ahead=ahead)
    drive.answer(random_ids(5, length), 10)


def test_a_long_prompt_stalls_no_decode() -> None:
    drive = Drive(context=32 * PAGE, budget=Budget(4, tokens=1024, mixed_tokens=128))
    short = drive.add([1, 2, 3], 40)
    drive.turn()
    long = drive.add([4] * 1000, 5)
    sizes = []
    while not long.output:
        step, _ = drive.turn()
        assert step is not None
        assert short in step.sequences
        sizes.append(step.plan.tokens)
    assert sizes == [129] * 7 + [1 + 960 - 7 * 128, 1 + 40]  # the state after 960 tokens is a cached state


def test_several_long_prompts_share_the_budget_and_a_short_one_is_not_behind_them() -> None:
    drive = Drive(pages=200, budget=Budget(4, tokens=512, mixed_tokens=256))
    long = [drive.add(random_ids(n, 900)) for n in range(3)]
    short = drive.add(random_ids(9, 100))
    step, _ = drive.turn()
    assert step is not None
    assert [chunk.end - chunk.start for chunk in step.chunks] == [192, 128, 128, 64]
    drive.turn()
    assert short.finish_reason is FinishReason.LENGTH
    assert all(sequence.finish_reason is None for sequence in long)
    drive.run()


def test_first_come_first_served_even_when_a_later_one_would_fit() -> None:
    drive = Drive(pages=4, context=CONTEXT, recurrent=False)
    first, big, small = drive.add([1] * 65), drive.add([2] * 200), drive.add([3])
    step, _ = drive.turn()
    assert step is not None
    assert step.sequences == (first,)
    assert list(drive.scheduler.waiting) == [big, small]


def test_a_limit_of_zero_runs_the_prompt_and_samples_nothing() -> None:
    for ahead in (False, True):
        drive = Drive(budget=Budget(4, 3, 3), ahead=ahead)
        sequence = drive.add([1, 2, 3, 4], 0)
        assert [(p.ids, p.finish_reason) for p in drive.run()] == [((), FinishReason.LENGTH)]
        assert (sequence.output, drive.scheduler.counts.prompt) == ([], 4)


@pytest.mark.parametrize(
    ("prompt", "limit", "pages"), [(1, 0, 1), (64, 0, 1), (64, 1, 1), (64, 2, 2), (1, 64, 1), (1, 65, 2)]
)
def test_the_last_sampled_token_needs_no_page(prompt: int, limit: int, pages: int) -> None:
    assert make("s", [1] * prompt, limit).most_pages == pages


def test_what_could_never_run_is_refused_at_once() -> None:
    scheduler = Scheduler(3, 1, CONTEXT, Budget(4), recurrent=False)
    with pytest.raises(ValueError, match="needs 4 pages, a sequence can have 3"):
        scheduler.check(make("s", [1] * 193, 1))


def test_a_finish_is_noticed_one_step_late_at_most_when_planning_ahead() -> None:
    prompt = random_ids(3, 20)
    expected, _ = alone(prompt, 30)
    stop = expected[9]
    plain, ahead = Drive(ahead=False), Drive(ahead=True)
    for drive in (plain, ahead):
        sequence = drive.add(prompt, 30, (stop,))
        drive.run()
        assert (sequence.output, sequence.finish_reason) == alone(prompt, 30, (stop,))
    assert len(ahead.runner.plans) == len(plain.runner.plans) + 1


def test_a_limit_is_never_overrun_when_planning_ahead() -> None:
    plain, ahead = Drive(ahead=False), Drive(ahead=True)
    for drive in (plain, ahead):
        drive.answer(random_ids(3, 20), 30)
    assert len(ahead.runner.plans) == len(plain.runner.plans)
