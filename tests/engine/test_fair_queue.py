"""Nobody is pushed back by another's flood, and nobody starves."""

from __future__ import annotations

from kernels.constants import PAGE
from node.engine.chunks import share
from node.engine.scheduler import Budget
from tests.engine.drive import Drive, random_ids


def test_a_flood_does_not_push_another_organizations_requests_back() -> None:
    drive = Drive(rows=2, cached_states=0, budget=Budget(2, 256, 128))
    flood = [drive.add(random_ids(n, 60), 5, organization="flood") for n in range(40)]
    drive.turn()
    quiet = [drive.add(random_ids(n, 60), 5, organization="quiet") for n in range(50, 54)]
    ended = [p.sequence for p in drive.run() if p.finish_reason is not None]
    assert (
        max(map(ended.index, quiet)) <= 2 + 2 * 4
    )  # who sat already, and one of the flood for each of theirs
    assert [s for s in ended if s in flood] == flood  # first come first served inside


def test_who_comes_back_from_idling_has_earned_nothing_by_it() -> None:
    drive = Drive(rows=1, cached_states=0)
    drive.add([1], 1, organization="idle")
    drive.run()
    for n in range(30):
        drive.answer(random_ids(n, 50), 5, organization="busy")
    order = []
    for n in range(10):
        for name in ("busy", "idle"):
            order.append(drive.add(random_ids(100 + n, 50), 5, organization=name))
    ended = [p.sequence.organization for p in drive.run() if p.finish_reason is not None]
    assert ended.count("idle") == 10
    assert ended[:10].count("busy") in (4, 5, 6)


def test_long_answers_are_charged_as_they_turn_out() -> None:
    drive = Drive(rows=1, cached_states=0)
    for n in range(12):
        drive.add(random_ids(n, 10), 200, organization="long")
        for part in range(2):
            drive.add(random_ids(50 + 2 * n + part, 10), 20, organization="short")
    ended = [p.sequence.organization for p in drive.run() if p.finish_reason is not None]
    assert ended[:12].count("short") >= 9


def test_clocks_of_idle_organizations_are_forgotten() -> None:
    drive = Drive(rows=1, cached_states=0)
    for n in range(50):
        drive.answer([1, 2, 3], 2, organization=f"org{n}")
    assert len(drive.scheduler.waiting._clocks) < 5


def parts(budget: int, wanted: list[int], owners: str = "") -> list[int]:
    return share(budget, wanted, list(owners) or [""] * len(wanted))


def test_prompts_share_a_budget_in_equal_parts_and_nothing_is_left_over() -> None:
    assert parts(512, [1000, 1000]) == [256, 256]
    assert parts(512, [1000, 100, 1000]) == [512 - 100 - 170, 100, 170]
    assert parts(512, [10, 20]) == [10, 20]
    assert parts(100, [1000] * 3) == [64, 36, 0]
    assert parts(30, [1000] * 3) == [30, 0, 0]
    assert parts(8192, [300]) == [300]
    assert parts(512, []) == []
    for count in range(1, 40):
        given = parts(512, [700] * count)
        assert sum(given) == 512
        assert given[0] >= PAGE


def test_the_oldest_prompt_goes_on_and_then_whoever_is_done_soonest() -> None:
    assert parts(128, [5000, 4000, 3000, 20]) == [64, 0, 44, 20]


def test_organizations_share_a_budget_before_their_prompts_do() -> None:
    assert parts(512, [1000] * 7 + [1000], "aaaaaaab") == [64, 64, 64, 64, 0, 0, 0, 256]
    assert parts(512, [1000] * 7 + [100], "aaaaaaab")[-1] == 100
    assert sum(parts(512, [1000] * 7 + [100], "aaaaaaab")) == 512


def test_a_flood_of_prompts_neither_takes_all_rows_nor_delays_anothers_first_token() -> None:
    drive = Drive(pages=1000, rows=80, budget=Budget(tokens=512, mixed_tokens=512))
    for n in range(70):
        drive.add(random_ids(n, 700), 2, organization="flood")
    drive.turn()
    assert len(drive.scheduler.running) == 32
    quiet = drive.add(random_ids(99, 600), 2, organization="quiet")
    turns = 0
    while not quiet.output:
        drive.turn()
        turns += 1
    assert turns <= 4  # 600 tokens at half of 512 a step, cut at its cached state


def test_an_organization_has_no_more_prompts_begun_than_the_budget_says() -> None:
    drive = Drive(pages=1000, rows=80, budget=Budget(tokens=512, mixed_tokens=512, partial_prefills=3))
    for organization in ("one", "other"):
        for n in range(10):
            drive.add(random_ids(n, 700), 2, organization=organization)
    drive.turn()
    assert [s.organization for s in drive.scheduler.running].count("one") == 3
    assert len(drive.scheduler.running) == 6
