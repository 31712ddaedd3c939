from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.stops import StopMatcher

strings = st.lists(st.text("ab", min_size=1, max_size=5), max_size=5)


def naive(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The text before the first stop string to be complete, the longest of those, and which."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@settings(deadline=None, max_examples=250)
@given(
    text=st.text("abc", max_size=40), stops=strings, cuts=st.lists(st.integers(0, 40), max_size=6).map(sorted)
)
def test_any_chunking_finds_what_a_search_of_the_whole_finds(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    matcher = StopMatcher(stops)
    edges = [0, *(min(cut, len(text)) for cut in cuts), len(text)]
    given_on = "".join(matcher.push(text[a:b]) for a, b in pairwise(edges)) + matcher.end()
    assert (given_on, matcher.matched) == naive(text, stops)


@settings(deadline=None, max_examples=150)
@given(text=st.text("abc", max_size=30), stops=strings)
def test_no_more_is_held_back_than_may_become_a_stop_string(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    given_on = ""
    for end, character in enumerate(text, start=1):
        given_on += matcher.push(character)
        if matcher.matched is not None:
            return
        known = text[:end]
        starts = {stop[:n] for stop in stops for n in range(len(stop))} | {""}
        held = max(len(start) for start in starts if known.endswith(start))
        assert given_on == known[: end - held]


def test_first_to_be_complete_wins_though_another_began_earlier() -> None:
    matcher = StopMatcher(["abcd", "bc"])
    assert matcher.push("xabcd") == "xa"
    assert matcher.matched == "bc"


def test_of_two_complete_at_one_character_the_earlier_start_wins() -> None:
    matcher = StopMatcher(["c", "abc", "bc"])
    assert matcher.push("xabc") == "x"
    assert matcher.matched == "abc"


def test_stop_string_is_found_in_the_tail_of_one_that_failed_far_along() -> None:
    matcher = StopMatcher(["abacabadx", "dy"])
    assert matcher.push("abacabady") == "abacaba"
    assert matcher.matched == "dy"


def test_what_was_held_back_comes_at_the_end() -> None:
    matcher = StopMatcher(["STOP"])
    assert (matcher.push("go STO"), matcher.end(), matcher.matched) == ("go ", "STO", None)


def test_nothing_is_given_after_a_match() -> None:
    matcher = StopMatcher(["x"])
    assert matcher.push("axb") == "a"
    assert (matcher.push("more"), matcher.end()) == ("", "")


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["a", ""])


def test_cost_is_linear_in_the_text_for_the_worst_stop_strings() -> None:
    stops = ["a" * (255 - index) + "b" for index in range(16)]

    def seconds(count: int) -> float:
        matcher = StopMatcher(stops)
        began = time.process_time()
        for _ in range(count):
            matcher.push("aaaaaaaa")
            matcher.push("c" * (count % 2))
        matcher.push("a" * 254 + "c")
        return time.process_time() - began

    seconds(2_000)
    assert seconds(16_000) < 24 * max(seconds(2_000), 0.002)  # 8 where linear, 64 where quadratic
    assert seconds(10_000) < 2  # 80,000 characters; trying every stop string at each takes minutes
