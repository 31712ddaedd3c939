"""A fixed number of interchangeable things, each free or held: pages of KV, and slots of recurrent state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import SCRATCH


class PoolError(RuntimeError):
    """Ours: something was taken that is not there, or given back that was not held."""


class Pool:
    """Numbers 1 to `total`; SCRATCH (0) is outside, so that padding can never touch a sequence.

    A stack of free numbers with a flag beside each: taking and giving cost O(n) of what is moved, and giving
    a thing back twice raises instead of handing it to two sequences.
    """

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError(f"total must not be negative, is {total}")
        self.total = total
        self._stack = np.arange(total, SCRATCH, -1, dtype=np.int64)
        self._free = total
        self._held = np.zeros(total + 1, dtype=bool)

    @property
    def free(self) -> int:
        return self._free

    @property
    def held(self) -> int:
        return self.total - self._free

    def take(self, count: int) -> NDArray[np.int64]:
        """int64 [count]; raises PoolError when fewer are free."""
        if not 0 <= count <= self._free:
            raise PoolError(f"{count} wanted, {self._free} of {self.total} free")
        self._free -= count
        taken = self._stack[self._free : self._free + count][::-1].copy()
        self._held[taken] = True
        return taken

    def give(self, numbers: NDArray[np.int64]) -> None:
        """Return what `take` handed out; raises PoolError for anything that is not held."""
        if len(numbers) and (numbers.min() <= SCRATCH or numbers.max() > self.total):
            raise PoolError(f"not of this pool: {numbers.tolist()}")
        if not self._held[numbers].all() or len(set(numbers.tolist())) != len(numbers):
            raise PoolError(f"given back twice: {numbers.tolist()}")
        self._held[numbers] = False
        self._stack[self._free : self._free + len(numbers)] = numbers
        self._free += len(numbers)

    def audit(self, held: NDArray[np.int64]) -> None:
        """Raise PoolError unless exactly `held` is held, each once, and all else is free."""
        times = np.bincount(held, minlength=self.total + 1)
        if (times > 1).any():
            raise PoolError("a number is held by two sequences")
        if not np.array_equal(times > 0, self._held):
            raise PoolError("what sequences hold is not what the pool has handed out")
        free = self._stack[: self._free]
        listed = np.bincount(free, minlength=self.total + 1)
        if (listed > 1).any() or self._held[free].any() or len(held) + len(free) != self.total:
            raise PoolError("free and held do not add up")
