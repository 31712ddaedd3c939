"""What of a prompt need not be run again: pages and cached states, joined by their keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.page_pool import PagePool
from node.engine.plan import SCRATCH
from node.engine.pool import PoolError
from node.engine.sequence import Sequence
from node.engine.state_cache import StateCache


@dataclass(frozen=True, slots=True)
class Hit:
    """pages   of the longest prefix that is here
    tokens  that need not be run; fewer than the pages hold where the newest cached state lies before their end
    """

    pages: list[int]
    tokens: int


class PrefixCache:
    """The prefixes of past and running sequences.

    A model with delta layers goes on from a cached state alone; without one its pages still spare their writes.
    Pages may outlive their cached state, a cached state never its page.
    """

    def __init__(self, pages: int, first_slot: int, slots: int, recurrent: bool) -> None:
        """A pool of `pages`, and cached states in `slots` slots from `first_slot` on."""
        self.recurrent = recurrent
        self.state_cache = StateCache(first_slot, slots)
        self.pages = PagePool(pages, self.state_cache.forget)
        self._growing: dict[bytes, Sequence] = {}
        self._awaited: dict[Sequence, bytes] = {}

    @property
    def enabled(self) -> bool:
        """Pages without any cached state would never spare a delta layer anything."""
        return not self.recurrent or self.state_cache.total > 0

    @property
    def keeps_states(self) -> bool:
        return self.recurrent and self.enabled

    def find(self, sequence: Sequence) -> Hit:
        """The longest hit that leaves at least one token to run: its logits are wanted."""
        if not self.enabled:
            return Hit([], 0)
        keys = sequence.page_keys((sequence.length - 1) // PAGE)
        pages = self.pages.find(keys)
        count = self.state_cache.newest(keys[: len(pages)]) if self.recurrent else len(pages)
        return Hit(pages, count * PAGE)

    def restore(self, sequence: Sequence, hit: Hit) -> int:
        """The slot from which a recurrent sequence goes on; SCRATCH where it begins or has no state."""
        if not self.recurrent or not hit.tokens:
            return SCRATCH
        return self.state_cache.use(sequence.keys[hit.tokens // PAGE - 1])

    def refresh(self, sequence: Sequence, tokens: int) -> None:
        """A later prompt may part from this one here: the cached state, if there is one, is of use still."""
        keys = sequence.page_keys(tokens // PAGE)
        if keys and keys[-1] in self.state_cache:
            self.state_cache.refresh(keys[-1])

    def junction(self, sequence: Sequence, hit: Hit) -> int:
        """The token count at which this sequence leaves another's path beyond its cached state, or 0."""
        count = len(hit.pages)
        if count * PAGE <= hit.tokens or not self.pages.branches(sequence.keys[count - 1]):
            return 0
        return count * PAGE

    def waits(self, sequence: Sequence) -> bool:
        """Whether what it was found to share is still being computed."""
        return self._awaited.get(sequence) in self._growing

    def follow(self, sequence: Sequence, hit: Hit) -> tuple[Sequence, int] | None:
        """Wait for what another computes beyond the hit: (who, to what token count), or None where nobody does.

        It lasts as long as the other runs and has not come that far; see `waits`.
        """
        self._awaited.pop(sequence, None)
        leader, shared = None, len(hit.pages)
        if self.enabled:
            for key in sequence.page_keys((sequence.length - 1) // PAGE)[shared:]:
                if (grower := self._growing.get(key)) is None:
                    break
                self._awaited[sequence] = key
                leader, shared = grower, shared + 1
        return None if leader is None else (leader, shared * PAGE)

    def unfollow(self, sequence: Sequence) -> None:
        self._awaited.pop(sequence, None)

    def grow(self, sequence: Sequence, hit: Hit) -> None:
        """Tell others that the rest of the prompt's pages are on their way."""
        if self.enabled:
            for key in sequence.page_keys(len(sequence.prompt) // PAGE)[len(hit.pages) :]:
                self._growing.setdefault(key, sequence)

    def stop_growing(self, sequence: Sequence) -> None:
        for key in sequence.keys[: len(sequence.prompt) // PAGE]:
            if self._growing.get(key) is sequence:
                del self._growing[key]

    def name(self, sequence: Sequence, table: NDArray[np.int64], named: int, computed: int) -> int:
        """Put the pages up to `computed` tokens under their keys, from the `named`-th on.

        Returns how many carry this sequence's keys: a page whose twin came first ends the chain, for what
        follows it would not be the child of a page that this sequence holds.
        """
        if not self.enabled:
            return 0
        full = computed // PAGE
        keys = sequence.page_keys(full)
        while named < full:
            key, parent = keys[named], int(table[named - 1]) if named else SCRATCH
            if self._growing.get(key) is sequence:
                del self._growing[key]
            if not self.pages.name(int(table[named]), key, parent):
                self.stop_growing(sequence)
                break
            named += 1
        return named

    def save(self, sequence: Sequence, tokens: int) -> int | None:
        """A slot for the state after `tokens` tokens, a page boundary; None where it is not wanted."""
        if sequence.page_keys(tokens // PAGE)[-1] in self.state_cache:
            return None
        return self.state_cache.reserve()

    def saved(self, sequence: Sequence, tokens: int, slot: int) -> None:
        """The step that wrote `slot` has run.

        A conversation goes on from its newest state. The one before it is worth no more, unless this sequence
        names it as the end of a turn, or others went on from it too: a junction is where two have met.
        """
        keys = sequence.keys[: tokens // PAGE]
        if keys[-1] not in self.pages:
            self.state_cache.give_back(slot)
            return
        turns = {end // PAGE for end in sequence.turns}
        before = self.state_cache.newest(keys[:-1])
        if before and before not in turns and self.state_cache.supersede(keys[before - 1]):
            before = max((turn for turn in turns if turn < before and self._kept(keys, turn)), default=0)
        users = 0 if len(keys) in turns else 2
        self.state_cache.keep(keys[-1], slot, tokens - before * PAGE, users)

    def _kept(self, keys: list[bytes], count: int) -> bool:
        return count > 0 and keys[count - 1] in self.state_cache

    def clear(self) -> None:
        """Forget all that no running sequence holds."""
        self.pages.clear()

    def audit(self, held: NDArray[np.int64], reserved: list[int], running: set[Sequence]) -> None:
        """Raise PoolError unless all of it is explained by what sequences hold and steps write."""
        self.pages.audit(held)
        self.state_cache.audit(reserved)
        if any(key not in self.pages for key in self.state_cache):
            raise PoolError("a cached state has outlived its page")
        if not running.issuperset(self._growing.values()):
            raise PoolError("a prefix is waited for that nobody computes")
        if not running.isdisjoint(self._awaited):
            raise PoolError("a sequence runs and still waits for another")
