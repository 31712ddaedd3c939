"""Pages and cached states as pools of their own: whatever happens to them, all are explained."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kernels.constants import PAGE
from node.engine.page_pool import PagePool
from node.engine.plan import SCRATCH
from node.engine.pool import PoolError
from node.engine.prefix_cache import PrefixCache
from node.engine.sampling import Sampling
from node.engine.sequence import Sequence
from node.engine.state_cache import StateCache

TOTAL = 9


class PagesWalk(RuleBasedStateMachine):
    """Paths of letters: each holder takes what is there, adds its own, and leaves. A page holds its whole path."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[bytes] = set()
        self.pages = PagePool(TOTAL, self.forgotten.add)
        self.holders: list[np.ndarray] = []
        self.paths: dict[int, str] = {}

    @rule(path=st.text("ab", min_size=1, max_size=6))
    def come(self, path: str) -> None:
        keys = [path[: end + 1].encode() for end in range(len(path))]
        found = self.pages.find(keys)
        assert [self.paths[page] for page in found] == [path[: n + 1] for n in range(len(found))]
        lacking = len(path) - len(found)
        if lacking > self.pages.free - self.pages.idle_among(found):
            return
        self.pages.hold(found)
        mine = np.concatenate([found, self.pages.take(lacking)]).astype(np.int64)
        named = len(found)
        while named < len(path):
            parent = int(mine[named - 1]) if named else SCRATCH
            assert self.pages.name(int(mine[named]), keys[named], parent)
            self.forgotten.discard(keys[named])
            self.paths[int(mine[named])] = path[: named + 1]
            named += 1
        self.holders.append(mine)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        self.pages.release(self.holders.pop(data.draw(st.integers(0, len(self.holders) - 1))))

    @rule(count=st.integers(0, TOTAL))
    def take_nameless(self, count: int) -> None:
        if count > self.pages.free:
            with pytest.raises(PoolError):
                self.pages.take(count)
        else:
            self.pages.release(self.pages.take(count))

    @rule()
    def clear(self) -> None:
        self.pages.clear()
        assert self.pages.idle == 0

    @invariant()
    def all_are_explained(self) -> None:
        held = np.concatenate([np.zeros(0, dtype=np.int64), *self.holders])
        self.pages.audit(held)
        assert self.pages.free == TOTAL - len(np.unique(held))
        assert not any(key in self.pages for key in self.forgotten)


PagesWalk.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPagesWalk = PagesWalk.TestCase


def test_a_leak_a_double_hold_and_a_double_release_are_found() -> None:
    pages = PagePool(4, lambda key: None)
    held = pages.take(2)
    for wrong in (held[:1], np.concatenate([held, held[:1]]), np.array([3, 4])):
        with pytest.raises(PoolError):
            pages.audit(wrong)
    pages.release(held)
    with pytest.raises(PoolError):
        pages.release(held)


def test_the_page_idle_longest_goes_first_and_the_end_of_a_path_before_its_begin() -> None:
    gone: list[bytes] = []
    pages = PagePool(4, gone.append)
    first, second = pages.take(2), pages.take(2)
    for mine, letter in ((first, b"x"), (second, b"y")):
        pages.name(int(mine[0]), letter, SCRATCH)
        pages.name(int(mine[1]), letter * 2, int(mine[0]))
    pages.release(first)
    pages.release(second)
    pages.release(pages.take(3))
    assert gone == [b"xx", b"x", b"yy"]


def test_cached_states_of_equal_worth_are_evicted_by_last_use_and_never_while_written() -> None:
    cache = StateCache(first=5, total=2)
    a, b = cache.reserve(), cache.reserve()
    assert {a, b} == {5, 6}
    assert cache.reserve() is None
    cache.keep(b"a", a, 100)
    cache.keep(b"b", b, 100)
    cache.use(b"a")
    c = cache.reserve()
    assert c == b
    assert list(cache) == [b"a"]
    cache.audit([c])
    with pytest.raises(PoolError):
        cache.audit([])
    cache.keep(b"a", c, 100)  # a twin: the first stays
    cache.audit([])
    assert (cache.newest([b"a", b"x"]), cache.newest([b"x"])) == (1, 0)


def test_a_flood_of_short_prompts_does_not_take_a_long_ones_state_but_time_does() -> None:
    cache = StateCache(first=1, total=4)
    cache.keep(b"long", cache.reserve(), 1000)
    for n in range(30):
        cache.keep(b"short%d" % n, cache.reserve(), 100)
        if n == 20:
            assert b"long" in cache
    for n in range(30, 60):
        cache.keep(b"short%d" % n, cache.reserve(), 100)
    assert b"long" not in cache


def test_a_superseded_state_goes_first() -> None:
    cache = StateCache(first=1, total=2)
    cache.keep(b"turn 1", cache.reserve(), 1000)
    cache.keep(b"other", cache.reserve(), 10)
    assert cache.supersede(b"turn 1")
    cache.give_back(cache.reserve())
    assert list(cache) == [b"other"]


def test_where_several_went_on_nothing_is_superseded() -> None:
    cache = StateCache(first=1, total=2)
    cache.keep(b"shared", cache.reserve(), 1000)
    cache.keep(b"other", cache.reserve(), 10)
    cache.use(b"shared")
    cache.use(b"shared")
    assert not cache.supersede(b"shared")
    cache.reserve()
    assert list(cache) == [b"shared"]


def test_two_hundred_thousand_pages_do_not_slow_a_lookup() -> None:
    """Against one that holds a hundredth: chains of 512 pages, the length of a full context."""

    def lookup_seconds(chains: int) -> float:
        prefix_cache = PrefixCache(chains * 512, 1, 0, recurrent=False)
        for chain in range(chains):
            mine = prefix_cache.pages.take(512)
            for index, page in enumerate(mine.tolist()):
                prefix_cache.pages.name(
                    page, b"%d/%d" % (chain, index), int(mine[index - 1]) if index else SCRATCH
                )
            prefix_cache.pages.release(mine)
        sequence = Sequence("s", np.zeros(512 * PAGE + 1, dtype=np.int64), 1, Sampling(), frozenset())
        sequence.keys = [b"%d/%d" % (chains // 2, index) for index in range(512)]
        times = []
        for _ in range(30):
            began = time.perf_counter()
            assert prefix_cache.find(sequence).tokens == 512 * PAGE
            times.append(time.perf_counter() - began)
        return min(times)

    assert lookup_seconds(400) < 4 * lookup_seconds(4)
