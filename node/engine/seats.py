"""What a sequence has while it runs, one row of numpy tables each, so that a step of many costs as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import SCRATCH
from node.engine.pool import Pool
from node.engine.sequence import Sequence, pages_of


class Seats:
    """Rows 1 to `total`. Where a model has state, a seat's slot has the seat's number.

    page_table  int64 [seats, P]  pages in order of position; SCRATCH beyond those it holds
    held        int64 [seats]     pages it holds
    named       int64 [seats]     leading ones of them that carry its keys
    filled      int64 [seats]     leading tokens whose keys and values were there when it came
    computed    int64 [seats]     tokens run, those of steps in flight included
    target      int64 [seats]     tokens to run before it decodes
    left        int64 [seats]     tokens it may yet sample, those of steps in flight left out
    last        int64 [seats]     its last token, if it decodes and the host knows it
    promised    int64 [seats]     tokens of output for which its organization was charged
    expected    int64 [seats]     pages it is expected to hold in the end
    in_flight   int64 [seats]     steps planned that hold it and are not retired
    cuts        where its prompt's chunks must end, the next one last
    occupants   who sits there
    """

    def __init__(self, total: int, context: int) -> None:
        rows = total + 1
        self.pool = Pool(total)
        self.page_table = np.full((rows, pages_of(context)), SCRATCH, dtype=np.int64)
        self.held, self.named, self.filled, self.computed, self.target = _columns(5, rows)
        self.left, self.last, self.promised, self.expected = _columns(4, rows)
        self.in_flight, self.top_k = _columns(2, rows)
        self.temperature = np.zeros(rows, dtype=np.float32)
        self.top_p = np.zeros(rows, dtype=np.float32)
        self.min_p = np.zeros(rows, dtype=np.float32)
        self.seeds = np.zeros(rows, dtype=np.uint64)
        self.cuts: list[list[int]] = [[] for _ in range(rows)]
        self.occupants: dict[int, Sequence] = {}

    def take(self, sequence: Sequence) -> int:
        """A seat for `sequence`, which has no pages yet."""
        seat = int(self.pool.take(1)[0])
        sequence.seat = seat
        self.occupants[seat] = sequence
        self.held[seat] = self.named[seat] = self.filled[seat] = self.computed[seat] = 0
        self.target[seat] = sequence.length
        self.left[seat] = sequence.limit - len(sequence.output)
        self.temperature[seat] = sequence.sampling.temperature
        self.top_p[seat] = sequence.sampling.top_p
        self.top_k[seat] = sequence.sampling.top_k
        self.min_p[seat] = sequence.sampling.min_p
        self.seeds[seat] = sequence.sampling.seed
        return seat

    def give(self, sequence: Sequence) -> None:
        seat = sequence.seat
        self.page_table[seat] = SCRATCH
        self.held[seat] = 0
        self.cuts[seat] = []
        del self.occupants[seat]
        self.pool.give(np.array([seat]))
        sequence.seat = -1

    def append(self, seat: int, pages: NDArray[np.int64] | list[int]) -> None:
        """Pages after those it holds."""
        held = int(self.held[seat])
        self.page_table[seat, held : held + len(pages)] = pages
        self.held[seat] += len(pages)

    def pages(self, seat: int) -> NDArray[np.int64]:
        """Those it holds, in order of position."""
        return self.page_table[seat, : self.held[seat]]

    def cut(self, seat: int, tokens: int) -> None:
        """End a chunk of its prompt after `tokens` tokens, if they are still to come."""
        if self.computed[seat] < tokens <= self.target[seat] and tokens not in self.cuts[seat]:
            self.cuts[seat] = sorted([*self.cuts[seat], tokens], reverse=True)

    def next_stop(self, seat: int) -> int:
        """The token count at which its prompt's next chunk ends at the latest."""
        return self.cuts[seat][-1] if self.cuts[seat] else int(self.target[seat])


def _columns(count: int, rows: int) -> NDArray[np.int64]:
    return np.zeros((count, rows), dtype=np.int64)
