"""Too few pages: who is admitted, who is preempted, and that nobody's answer shows it."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.constants import PAGE
from node.engine.output_lengths import OutputLengths
from node.engine.scheduler import Budget
from node.engine.sequence import FinishReason, Sequence
from tests.engine.drive import Drive, alone, random_ids

STOP = 7


class Optimist(OutputLengths):
    """Never learns that answers are long."""

    likely = 1


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
def test_answers_are_those_alone_whoever_is_preempted(recurrent: bool, ahead: bool) -> None:
    """A long random walk under constant pressure: arrivals, cancellations and failures among preemptions."""
    draw = np.random.default_rng([recurrent, ahead])
    budget = Budget(tokens=150, mixed_tokens=40)
    drive = Drive(9, 5, 3 * recurrent, 5 * PAGE, budget, recurrent, ahead)
    drive.scheduler.admission.lengths = Optimist()
    live: dict[Sequence, tuple[list[int], FinishReason]] = {}
    for _ in range(2500):
        chance = draw.random()
        if len(live) < 9 and chance < 0.2:
            shared = int(draw.choice([0, 40, 64, 130, 140]))
            prompt = random_ids(0, shared) + random_ids(int(draw.integers(99)), int(draw.integers(1, 50)))
            limit = int(draw.integers(0, 5 * PAGE - len(prompt)))
            stop = (STOP,) if chance < 0.05 else ()
            live[drive.add(prompt, limit, stop)] = alone(prompt, limit, stop)
        elif live and chance < 0.21:
            sequence = list(live)[int(draw.integers(len(live)))]
            drive.scheduler.cancel(sequence)
            del live[sequence]
        elif chance < 0.212:
            for sequence, _, _ in drive.fail():
                del live[sequence]
        _, progress = drive.turn()
        for sequence, _, finish_reason in progress:
            expected = live[sequence]
            assert sequence.output == expected[0][: len(sequence.output)]
            if finish_reason is not None:
                assert (sequence.output, finish_reason) == live.pop(sequence)
    for sequence, _, finish_reason in drive.run():
        if finish_reason is not None:
            assert (sequence.output, finish_reason) == live.pop(sequence)
    assert not live
    assert drive.scheduler.pages.free == drive.scheduler.pages.total
    assert drive.scheduler.counts.preemptions > 30
    assert drive.scheduler.counts.recomputed > 0


def test_the_youngest_is_preempted_and_resumes_to_the_same_tokens() -> None:
    drive = Drive(pages=6, rows=3, cached_states=2, context=4 * PAGE)
    drive.scheduler.admission.lengths = OutputLengths(1)
    prompts = [random_ids(n, 60) for n in range(3)]
    old, middle, young = (drive.add(prompt, 100) for prompt in prompts)
    while drive.scheduler.counts.preemptions == 0:
        drive.turn()
    assert young in drive.scheduler.waiting
    assert {old, middle} == set(drive.scheduler.running)
    drive.run()
    for sequence, prompt in zip((old, middle, young), prompts, strict=True):
        assert (sequence.output, sequence.finish_reason) == alone(prompt, 100)


def test_recomputed_reused_and_first_run_tokens_are_counted_apart() -> None:
    drive = Drive(pages=6, rows=3, cached_states=2, context=4 * PAGE)
    drive.scheduler.admission.lengths = OutputLengths(1)
    prompts = [random_ids(n, 60) for n in range(3)]
    for prompt in prompts:
        drive.add(prompt, 100)
    drive.run()
    counts = drive.scheduler.counts
    assert (counts.prompt, counts.reused, counts.sampled) == (180, 0, 300)
    assert counts.preemptions == 1
    assert 60 <= counts.recomputed <= 160
    ran = sum(plan.tokens for plan in drive.runner.plans)
    assert ran == counts.prompt + counts.recomputed + counts.sampled - 3


def test_a_chunk_in_flight_whose_sequence_is_preempted_is_counted_as_run_first() -> None:
    drive = Drive(7, 4, 0, 16 * PAGE, Budget(4, 64, 64), recurrent=False, ahead=True)
    drive.scheduler.admission.lengths = OutputLengths(1)
    old = drive.add(random_ids(0, 60), 300)
    while len(old.output) < 130:
        drive.turn()
    drive.add(random_ids(1, 200), 4)
    drive.run()
    counts = drive.scheduler.counts
    assert (counts.prompt, counts.recomputed, counts.preemptions) == (260, 64, 1)


def test_a_step_that_preempts_admits_nobody() -> None:
    drive = Drive(pages=4, rows=4, cached_states=0, context=4 * PAGE, recurrent=False)
    drive.scheduler.admission.lengths = OutputLengths(1)
    for n in range(3):
        drive.add(random_ids(n, 60), 100)
    while drive.scheduler.counts.preemptions == 0:
        last = drive.add(random_ids(50, 3), 1)
        drive.turn()
    assert last in drive.scheduler.waiting


def test_a_likely_output_is_reserved_and_a_limit_is_not() -> None:
    """The peers' choices are to reserve max_tokens, which serialises the node, or nothing, which thrashes."""
    drive = Drive(pages=16, rows=8, cached_states=0, recurrent=False)
    drive.scheduler.admission.lengths = OutputLengths(64)
    for n in range(8):
        drive.add(random_ids(n, 60), 900)
    drive.turn()
    assert len(drive.scheduler.running) == 8  # 60 + 64 - 1 tokens are two pages
    drive = Drive(pages=16, rows=8, cached_states=0, recurrent=False)
    drive.scheduler.admission.lengths = OutputLengths(256)
    for n in range(8):
        drive.add(random_ids(n, 60), 900)
    drive.turn()
    assert len(drive.scheduler.running) == 3  # five pages each


def test_the_estimate_follows_what_answers_turn_out_to_be() -> None:
    lengths = OutputLengths()
    for length in range(1, 101):
        lengths.add(length)
    assert 88 <= lengths.likely <= 92
    for _ in range(600):
        lengths.add(1000)
    assert lengths.likely == 1000


@pytest.mark.parametrize("ahead", [False, True])
def test_cancelled_at_any_moment_everything_is_back_within_one_step(ahead: bool) -> None:
    for moment in range(9):
        drive = Drive(pages=16, ahead=ahead, budget=Budget(tokens=64, mixed_tokens=64))
        sequence = drive.add(random_ids(1, 200), 20)
        for _ in range(moment):
            drive.turn()
        drive.scheduler.cancel(sequence)
        drive.turn()
        assert sequence.finish_reason is FinishReason.CANCELLED
        assert drive.scheduler.pages.free == 16
        assert drive.scheduler.state_slots_free == drive.scheduler.state_slots_total
        assert not drive.scheduler.has_work


def test_what_waits_past_its_deadline_ends_and_has_cost_nothing() -> None:
    drive = Drive(rows=1)
    running = drive.add([1], 5, deadline=10.0)
    drive.turn()
    late, later, free = drive.add([2], 5, deadline=11.0), drive.add([3], 5, deadline=12.0), drive.add([4], 5)
    assert drive.scheduler.expire(10.5) == []
    (progress,) = drive.scheduler.expire(11.0)
    assert (progress.sequence, progress.finish_reason) == (late, FinishReason.EXPIRED)
    steps = drive.run()
    assert {running, later, free} == {p.sequence for p in steps}
    assert drive.scheduler.counts.prompt == 3


def test_a_preempted_sequence_has_begun_and_does_not_expire() -> None:
    drive = Drive(pages=6, rows=3, cached_states=2, context=4 * PAGE)
    drive.scheduler.admission.lengths = OutputLengths(1)
    sequences = [drive.add(random_ids(n, 60), 100, deadline=1.0) for n in range(3)]
    while drive.scheduler.counts.preemptions == 0:
        drive.turn()
    assert drive.scheduler.expire(2.0) == []
    drive.run()
    assert {sequence.finish_reason for sequence in sequences} == {FinishReason.LENGTH}
