"""Pages of KV: free, held by sequences, or idle: kept for what they hold until they are needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import eq

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import SCRATCH
from node.engine.pool import Pool, PoolError


class PagePool:
    """Pages with counts of their holders, of which full ones carry the key of the prefix that they end.

    Whoever holds a page holds all pages before it, and gives the last one back first. So the page that has been
    idle longest never has a child: taking it leaves every other prefix whole.
    """

    def __init__(self, total: int, forget: Callable[[bytes], None]) -> None:
        """`forget` is told the key of each page whose content goes."""
        self._pool = Pool(total)
        self._forget = forget
        self._holders = np.zeros(total + 1, dtype=np.int64)
        self._keys: list[bytes | None] = [None] * (total + 1)
        self._parents = np.zeros(total + 1, dtype=np.int64)
        self._children = np.zeros(total + 1, dtype=np.int64)
        self._by_key: dict[bytes, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def total(self) -> int:
        return self._pool.total

    @property
    def free(self) -> int:
        """Pages that `take` can give: the idle ones count."""
        return self._pool.free + len(self._idle)

    @property
    def idle(self) -> int:
        return len(self._idle)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def find(self, keys: Iterable[bytes]) -> list[int]:
        """The pages of the longest prefix of `keys` that is here."""
        found = []
        for key in keys:
            page = self._by_key.get(key)
            if page is None:
                break
            found.append(page)
        return found

    def branches(self, key: bytes) -> int:
        """How many prefixes go on from this one."""
        return int(self._children[self._by_key[key]])

    def idle_among(self, pages: list[int]) -> int:
        return int(np.count_nonzero(self._holders[pages] == 0)) if pages else 0

    def held_once(self, pages: NDArray[np.int64]) -> int:
        """How many of these their only holder could give back."""
        return int(np.count_nonzero(self._holders[pages] == 1))

    def hold(self, pages: list[int]) -> None:
        """One holder more for each of these, which `find` has found."""
        for page in pages:
            if self._holders[page] == 0:
                del self._idle[page]
            self._holders[page] += 1

    def take(self, count: int) -> NDArray[np.int64]:
        """int64 [count], each with one holder and no key; raises PoolError when fewer are free."""
        if count > self.free:
            raise PoolError(f"{count} wanted, {self.free} of {self.total} free")
        while self._pool.free < count:
            self._drop(next(iter(self._idle)))
        pages = self._pool.take(count)
        self._holders[pages] = 1
        return pages

    def release(self, pages: NDArray[np.int64]) -> None:
        """One holder less for each of these, a sequence's, in order of position."""
        if (self._holders[pages] < 1).any():
            raise PoolError(f"given back twice: {pages.tolist()}")
        self._holders[pages] -= 1
        left = pages[self._holders[pages] == 0]
        nameless = []
        for page in left[::-1].tolist():
            if self._keys[page] is None:
                nameless.append(page)
            else:
                self._idle[page] = None
        self._pool.give(np.array(nameless, dtype=np.int64))

    def name(self, page: int, key: bytes, parent: int) -> bool:
        """Give a held page the key of what it now holds; False where another page has that key.

        `parent` is the page before it, which must carry a key of its own, or SCRATCH.
        """
        if key in self._by_key:
            return False
        self._by_key[key] = page
        self._keys[page] = key
        self._parents[page] = parent
        self._children[parent] += 1
        return True

    def clear(self) -> None:
        """Forget what idle pages hold."""
        while self._idle:
            self._drop(next(iter(self._idle)))

    def audit(self, held: NDArray[np.int64]) -> None:
        """Raise PoolError unless `held`, each as often as it has holders, explains all that is not free."""
        holders = np.bincount(held, minlength=self.total + 1)
        if not np.array_equal(holders, self._holders):
            raise PoolError("pages are held by others than their counts say")
        idle = np.fromiter(self._idle, dtype=np.int64, count=len(self._idle))
        self._pool.audit(np.concatenate([np.flatnonzero(holders), idle]))
        named = np.fromiter(self._by_key.values(), dtype=np.int64, count=len(self._by_key))
        if not all(map(eq, map(self._keys.__getitem__, self._by_key.values()), self._by_key)):
            raise PoolError("a key leads to a page that does not carry it")
        if len(named) + self._keys.count(None) != len(self._keys):
            raise PoolError("a page carries a key that does not lead to it")
        carries = np.zeros(self.total + 1, dtype=bool)
        carries[named] = True
        if not carries[idle].all():
            raise PoolError("a page is idle and carries no key")
        parents = self._parents[named]
        if not np.array_equal(np.bincount(parents, minlength=self.total + 1), self._children):
            raise PoolError("children are miscounted")
        inner = parents != SCRATCH
        before = parents[inner]
        if not carries[before].all() or (holders[before] < holders[named[inner]]).any():
            raise PoolError("a prefix has lost a page in its middle")

    def _drop(self, page: int) -> None:
        key = self._keys[page]
        assert key is not None
        if self._children[page]:
            raise PoolError(f"page {page} is idle longest and others go on from it")
        del self._idle[page], self._by_key[key]
        self._keys[page] = None
        self._children[self._parents[page]] -= 1
        self._pool.give(np.array([page], dtype=np.int64))
        self._forget(key)
