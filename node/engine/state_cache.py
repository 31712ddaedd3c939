"""Slots of recurrent state that are kept for reuse, by the key of the page at whose end they were taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from node.engine.pool import Pool, PoolError


@dataclass(slots=True)
class CachedState:
    """slot
    tokens  that would have to be run again without it
    worth   while others are worth more, it is evicted first
    users   sequences that went on from here
    """

    slot: int
    tokens: int
    worth: int
    users: int


class StateCache:
    """A budget of slots with its own order of leaving: those go first whose loss costs least (GreedyDual).

    A cached state is worth the tokens that it spares, counted from the worth of what was evicted last; so among
    equals the one used longest ago goes, and a flood of short prompts does not take a long one's place. A slot
    is reserved when a step is planned that writes it, and kept once that step has run.
    """

    def __init__(self, first: int, total: int) -> None:
        """Slots `first` to `first + total - 1`."""
        self._pool = Pool(total)
        self._offset = first - 1
        self._kept: dict[bytes, CachedState] = {}  # in order of last use
        self._reserved: set[int] = set()
        self._level = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._kept)

    @property
    def total(self) -> int:
        return self._pool.total

    def newest(self, keys: list[bytes]) -> int:
        """How many of `keys`, a chain, the deepest cached state on it covers."""
        for count in range(len(keys), 0, -1):
            if keys[count - 1] in self._kept:
                return count
        return 0

    def use(self, key: bytes) -> int:
        """The slot of a cached state, for a sequence that goes on from it."""
        self.refresh(key)
        self._kept[key].users += 1
        return self._kept[key].slot

    def refresh(self, key: bytes) -> None:
        """It proves its worth anew."""
        cached = self._kept.pop(key)
        self._kept[key] = cached
        cached.worth = self._level + cached.tokens

    def supersede(self, key: bytes) -> bool:
        """The only sequence that went on from here has left a deeper one: False if there are others."""
        if self._kept[key].users > 1:
            return False
        self._kept[key].worth = self._level
        return True

    def reserve(self) -> int | None:
        """A slot to write, or None where all are being written."""
        if not self._pool.free:
            if not self._kept:
                return None
            key = min(self._kept, key=lambda key: self._kept[key].worth)
            self._level = self._kept[key].worth
            self.forget(key)
        slot = int(self._pool.take(1)[0]) + self._offset
        self._reserved.add(slot)
        return slot

    def keep(self, key: bytes, slot: int, tokens: int, users: int = 0) -> None:
        """`slot`, reserved and now written, is the state at the end of `key`'s page, and spares `tokens`."""
        if key in self._kept:
            self.give_back(slot)
            return
        self._reserved.remove(slot)
        self._kept[key] = CachedState(slot, tokens, self._level + tokens, users)

    def give_back(self, slot: int) -> None:
        """A reserved slot that is not needed after all."""
        self._reserved.remove(slot)
        self._give(slot)

    def forget(self, key: bytes) -> None:
        """Drop the cached state of `key`, if there is one."""
        cached = self._kept.pop(key, None)
        if cached is not None:
            self._give(cached.slot)

    def audit(self, reserved: list[int]) -> None:
        """Raise PoolError unless each slot is free, kept under one key, or `reserved` by a step in flight."""
        if sorted(reserved) != sorted(self._reserved):
            raise PoolError("cached states are being written by no step")
        kept = [cached.slot for cached in self._kept.values()]
        self._pool.audit(np.array([*kept, *reserved], dtype=np.int64) - self._offset)

    def _give(self, slot: int) -> None:
        self._pool.give(np.array([slot - self._offset], dtype=np.int64))
