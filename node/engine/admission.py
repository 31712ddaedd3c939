"""Who waits, who may begin, and what they are given to begin with."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from kernels.constants import PAGE
from node.engine.batch_table import BatchTable
from node.engine.fair_queue import FairQueue
from node.engine.output_lengths import OutputLengths
from node.engine.prefix_cache import Hit, PrefixCache
from node.engine.sequence import Sequence, pages_of

LOOKAHEAD = 64  # sequences that wait for another's prefix and may be passed: a microsecond each


class Admitted(NamedTuple):
    """A sequence that may begin, and the slot of the cached state that it goes on from, or SCRATCH."""

    sequence: Sequence
    slot: int


class Admission:
    """Gives rows to sequences in fair order, as long as their prompts and likely outputs fit.

    Whoever is next and does not fit is waited for, so that nobody is passed for ever; whoever waits for a prefix
    that another computes is passed.
    """

    def __init__(self, table: BatchTable, prefix_cache: PrefixCache, partial_prefills: int) -> None:
        """`partial_prefills` of an organization may be begun and not done."""
        self.waiting = FairQueue()
        self.lengths = OutputLengths()
        self._table = table
        self._prefix_cache = prefix_cache
        self._partial_prefills = partial_prefills
        self._deadline = math.inf  # the earliest of those that wait, or earlier

    def add(self, sequence: Sequence) -> None:
        self.waiting.add(sequence)
        if sequence.deadline is not None:
            self._deadline = min(self._deadline, sequence.deadline)

    def remove(self, sequence: Sequence) -> None:
        """It waits no longer."""
        self.waiting.remove(sequence)
        self._prefix_cache.unfollow(sequence)

    def expired(self, now: float) -> list[Sequence]:
        """Those that were to have begun by `now` and have not."""
        if now < self._deadline:
            return []
        limited = [(s.deadline, s) for s in self.waiting if s.deadline is not None and not s.ran]
        self._deadline = min((deadline for deadline, _ in limited if deadline > now), default=math.inf)
        return [sequence for deadline, sequence in limited if deadline <= now]

    def admit(self, prompts: list[Sequence]) -> list[Admitted]:
        """Give a row to who may begin; `prompts` are those that have begun and do not decode yet."""
        admitted: list[Admitted] = []
        passed: set[Sequence] = set()
        begun = Counter(sequence.organization for sequence in prompts)
        while self.waiting and self._table.pool.free and len(passed) < LOOKAHEAD:
            full = [name for name, count in begun.items() if count >= self._partial_prefills]
            sequence = self.waiting.first(passed, full)
            if sequence is None:
                break
            if self._prefix_cache.waits(sequence):
                passed.add(sequence)
                continue
            hit = self._prefix_cache.find(sequence)
            if (ahead := self._prefix_cache.follow(sequence, hit)) is not None:
                leader, tokens = ahead
                self._cut(leader, tokens)
                passed.add(sequence)
            elif self._fits(sequence, hit):
                admitted.append(Admitted(sequence, self._start(sequence, hit)))
                begun[sequence.organization] += 1
            else:
                break
        return admitted

    def leave(self, sequence: Sequence) -> None:
        """It runs no more: what its organization was charged for and has not had is given back."""
        row = sequence.row
        self.waiting.correct(sequence, len(sequence.output) - int(self._table.promised[row]))
        self._table.expected[row] = 0

    def _fits(self, sequence: Sequence, hit: Hit) -> bool:
        """Whether its prompt and a likely output fit beside what the running ones are likely to take."""
        pages, table = self._prefix_cache.pages, self._table
        spare = pages.free - pages.idle_among(hit.pages) + len(hit.pages)
        if not table.sequences:
            return pages_of(sequence.length) <= spare
        taken = np.fromiter(table.sequences, dtype=np.int64)
        promised = np.maximum(table.expected[taken] - table.held[taken], 0).sum()
        return int(promised) + self._expected_pages(sequence) <= spare

    def _start(self, sequence: Sequence, hit: Hit) -> int:
        """Give it a row and the pages of its prompt; returns the slot of its cached state, or SCRATCH."""
        pages, table, output = self._prefix_cache.pages, self._table, self._expected_output(sequence)
        expected = self._expected_pages(sequence)
        self.waiting.admit(sequence, sequence.length - hit.tokens + output)
        self._prefix_cache.unfollow(sequence)
        row = table.take(sequence)
        pages.hold(hit.pages)
        table.append(row, hit.pages)
        table.append(row, pages.take(pages_of(sequence.length) - len(hit.pages)))
        table.computed[row] = hit.tokens
        table.named[row] = len(hit.pages)
        table.filled[row] = len(hit.pages) * PAGE
        table.promised[row] = len(sequence.output) + output
        table.expected[row] = expected
        for tokens in sequence.turns:
            self._prefix_cache.refresh(sequence, tokens)
            self._cut(sequence, tokens)
        self._cut(sequence, self._prefix_cache.junction(sequence, hit))
        self._prefix_cache.grow(sequence, hit)
        if not sequence.ran:
            sequence.cached = hit.tokens
        return self._prefix_cache.restore(sequence, hit)

    def _cut(self, sequence: Sequence, tokens: int) -> None:
        """Let a chunk end at the page boundary before `tokens`, so that the state then is a cached state."""
        if self._prefix_cache.keeps_states:
            self._table.cut(sequence.row, tokens // PAGE * PAGE)

    def _expected_output(self, sequence: Sequence) -> int:
        """Tokens it is likely to sample yet; a page of them, for one that was preempted before."""
        likely = max(self.lengths.likely - len(sequence.output), PAGE if sequence.output else 1)
        return min(sequence.limit - len(sequence.output), likely)

    def _expected_pages(self, sequence: Sequence) -> int:
        return pages_of(max(1, sequence.length + self._expected_output(sequence) - 1))
