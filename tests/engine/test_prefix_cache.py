"""Prefix reuse: exact, in chunks of any size, after eviction, for whoever may share and nobody else."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.constants import PAGE
from node.engine.scheduler import Budget
from node.engine.sequence import FinishReason
from tests.engine.drive import Drive, alone, make, random_ids

SHARED = 3 * PAGE


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("remainder", range(1, PAGE + 2))
def test_a_hit_gives_the_same_tokens_at_every_remainder(remainder: int, recurrent: bool, ahead: bool) -> None:
    drive = Drive(recurrent=recurrent, ahead=ahead)
    prompt = random_ids(1, SHARED + remainder)
    assert drive.answer(prompt, 8).cached == 0
    again = drive.answer(prompt, 8)
    assert again.cached == (len(prompt) - 1) // PAGE * PAGE


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 63, 64, 65, 128, 1000])
def test_a_hit_gives_the_same_tokens_in_chunks_of_any_size(chunk: int, recurrent: bool) -> None:
    drive = Drive(recurrent=recurrent, budget=Budget(4, chunk, chunk))
    shared = random_ids(1, SHARED + 5)
    drive.answer(shared + random_ids(2, 70), 3, boundaries=(len(shared),))
    hit = drive.answer(shared + random_ids(3, 90), 3, boundaries=(len(shared),))
    assert hit.cached == SHARED


def test_the_whole_prompt_is_never_a_hit() -> None:
    for recurrent in (False, True):
        drive = Drive(recurrent=recurrent)
        prompt = random_ids(1, SHARED)
        drive.answer(prompt)
        assert drive.answer(prompt).cached == SHARED - PAGE


def test_a_short_prompt_hits_from_its_first_page_on() -> None:
    """vllm#40696: pages of 528 tokens made every shorter prompt a miss."""
    drive = Drive()
    prompt = random_ids(1, PAGE + 1)
    drive.answer(prompt)
    assert drive.answer(prompt).cached == PAGE


def test_twenty_turns_of_an_agent_run_only_what_each_turn_added() -> None:
    """Tool loop: each prompt is the one before, what was answered, and the tool's result."""
    for recurrent in (False, True):
        drive = Drive(pages=120, context=64 * PAGE, recurrent=recurrent, cached_states=4)
        prompt, before = random_ids(0, 700), 0
        for turn in range(20):
            sequence = drive.answer([*prompt, 1, 2, 3], 30, boundaries=(700, len(prompt)))
            assert len(sequence.prompt) - sequence.cached <= len(prompt) - before + PAGE + 3
            before = len(prompt)
            prompt = [*prompt, 1, 2, 3, *sequence.output, *random_ids(turn, 50)]
        # A new question: what was thought in the loop is gone, and the end of the last question is a hit.
        question = prompt[:700] + random_ids(77, 90)
        assert drive.answer(question).cached == 700 // PAGE * PAGE


def test_reused_and_run_tokens_partition_the_prompts() -> None:
    drive = Drive()
    for n in range(6):
        drive.answer(random_ids(0, 200) + random_ids(n, 50), 2, boundaries=(200,))
    counts = drive.scheduler.counts
    assert counts.prompt + counts.reused == 6 * 250
    assert counts.reused == 5 * 192
    assert counts.recomputed == 0


def test_two_identical_prompts_at_once_run_the_prefix_once() -> None:
    for recurrent in (False, True):
        for ahead in (False, True):
            drive = Drive(recurrent=recurrent, ahead=ahead, budget=Budget(4, 128, 128))
            prompt = random_ids(1, 500)
            both = [drive.add(prompt, 5) for _ in range(2)]
            drive.run()
            assert [sequence.output for sequence in both] == [alone(prompt, 5)[0]] * 2
            assert [sequence.cached for sequence in both] == [0, 448]
            assert drive.scheduler.counts.prompt == 500 + 52


def test_a_follower_parts_where_it_must_and_others_pass_it() -> None:
    """The leader leaves a cached state where its follower parts from it, though no turn ends there."""
    drive = Drive(budget=Budget(4, 128, 128))
    shared = random_ids(1, 330)
    leader = drive.add(shared + random_ids(2, 100))
    follower = drive.add(shared + random_ids(3, 100))
    other = drive.add(random_ids(4, 40))
    drive.turn()
    assert set(drive.scheduler.running) == {leader, other} or other.finish_reason is FinishReason.LENGTH
    assert list(drive.scheduler.waiting) == [follower]
    drive.run()
    assert follower.cached == 320


@pytest.mark.parametrize("moment", range(1, 5))
def test_a_follower_takes_over_when_its_leader_is_cancelled(moment: int) -> None:
    drive = Drive(budget=Budget(4, 64, 64))
    prompt = random_ids(1, 300)
    leader, *followers = (drive.add(prompt, 5) for _ in range(3))
    for _ in range(moment):
        drive.turn()
    drive.scheduler.cancel(leader)
    drive.run()
    assert [sequence.output for sequence in followers] == [alone(prompt, 5)[0]] * 2
    assert followers[1].cached == 256


def test_a_junction_is_kept_for_the_third_that_comes_by() -> None:
    """No turn ends where the first two part; the second finds the pages, and leaves the state for the third."""
    drive = Drive()
    shared = random_ids(1, 330)
    first, second, third = (drive.answer(shared + random_ids(n, 150)) for n in (2, 3, 4))
    assert (first.cached, second.cached, third.cached) == (0, 0, 320)
    assert len(drive.scheduler.prefix_cache.state_cache) == 4  # three prompts' ends and the junction


def test_a_junction_outlives_the_many_that_pass_it_and_a_past_turn_does_not() -> None:
    drive = Drive(pages=200, cached_states=4)
    shared = random_ids(1, 330)
    for n in range(30):
        answer = drive.answer(shared + random_ids(n, 150))
        assert answer.cached == (320 if n >= 2 else 0)
    prompt = random_ids(2, 500)
    for n in range(12):  # one conversation beside it, without named turns: only its newest state is of use
        prompt = [*prompt, *drive.answer(prompt).output, *random_ids(n, 80)][:900]
    assert drive.answer(shared + random_ids(99, 150)).cached == 320


def test_pages_outlive_their_state_and_spare_their_writes() -> None:
    drive = Drive(cached_states=1)
    first, other = random_ids(1, 300), random_ids(2, 300)
    drive.answer(first)
    drive.answer(other)  # takes the only cached state
    again = drive.answer(first, 5)
    assert again.cached == 0
    assert sum(len(plan.skip_kv_write) for plan in drive.runner.plans) == 256


def test_a_state_goes_with_its_page() -> None:
    drive = Drive(pages=6, rows=1)
    drive.answer(random_ids(1, 300))
    cache = drive.scheduler.prefix_cache.state_cache
    assert len(cache) == 1
    drive.answer(random_ids(2, 64 * 5), 1)  # five of six pages: the last of the first prefix goes
    assert len(cache) == 1
    assert drive.answer(random_ids(1, 300), 3).cached == 0


def test_after_eviction_a_prefix_is_found_as_far_as_it_is_left() -> None:
    drive = Drive(pages=8, rows=1, recurrent=False)
    prompt = random_ids(1, 400)
    drive.answer(prompt)
    drive.answer(random_ids(2, 260))  # five pages: two were free, the last four named ones are evicted
    found = drive.answer(prompt, 5)
    assert 0 < found.cached < 384


def test_an_organization_never_meets_anothers_prefix() -> None:
    drive = Drive()
    prompt = random_ids(1, 300)
    drive.answer(prompt, organization="a")
    assert drive.answer(prompt, organization="b").cached == 0
    assert drive.answer(prompt, organization="a").cached == 256


def test_two_organizations_at_once_do_not_wait_for_each_other() -> None:
    drive = Drive()
    prompt = random_ids(1, 300)
    both = [drive.add(prompt, organization=name) for name in "ab"]
    drive.turn()
    assert [sequence.cached for sequence in both] == [0, 0]
    assert not drive.scheduler.waiting


def test_without_slots_for_states_nothing_is_kept() -> None:
    drive = Drive(cached_states=0)
    prompt = random_ids(1, 300)
    drive.answer(prompt)
    assert drive.answer(prompt).cached == 0
    assert drive.scheduler.pages.idle == 0


def test_generated_pages_are_reused_by_a_dense_model() -> None:
    drive = Drive(recurrent=False)
    prompt = random_ids(1, 100)
    sequence = drive.answer(prompt, 100)
    assert drive.answer([*prompt, *sequence.output, 1]).cached == 192


def test_a_failed_step_leaves_nothing_to_reuse() -> None:
    drive = Drive(budget=Budget(4, 1000, 1000))
    prompt = random_ids(1, 300)
    drive.add(prompt)
    drive.fail()
    assert drive.scheduler.pages.idle == len(drive.scheduler.prefix_cache.state_cache) == 0
    assert drive.answer(prompt).cached == 0


def test_a_boundary_beyond_the_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="not all in a prompt of 10"):
        make("s", [1] * 10, 1, boundaries=(5, 11))


def test_few_cached_states_a_prompt() -> None:
    """PR sglang#27220: state kept for every chunk made the first token six times slower."""
    drive = Drive(pages=64, context=40 * PAGE, budget=Budget(4, 64, 64))
    drive.answer(random_ids(1, 2000), boundaries=(1500, 1990))
    assert sum(len(plan.saves) for plan in drive.runner.plans) == 2


def test_random_conversations_that_branch_are_exact() -> None:
    draw = np.random.default_rng(4)
    for recurrent in (False, True):
        drive = Drive(pages=40, cached_states=3, recurrent=recurrent, budget=Budget(4, 200, 100))
        past = [random_ids(0, 150)]
        for n in range(100):
            stem = past[int(draw.integers(len(past)))]
            prompt = stem[: int(draw.integers(1, len(stem) + 1))] + random_ids(n, int(draw.integers(1, 120)))
            prompt = prompt[:900]
            answer = drive.answer(prompt, 12, boundaries=(len(stem[: len(prompt)]),))
            past.append(prompt + answer.output)
        assert drive.scheduler.counts.reused > 500
