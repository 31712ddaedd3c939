"""What a sequence has while it runs, one row of numpy tables each, so that a step of many costs as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import SCRATCH
from node.engine.pool import Pool
from node.engine.sequence import Sequence, pages_of


class BatchTable:
    """Rows 1 to `total`. Where a model has state, a row's slot has the row's number.

    page_table  int64 [rows, P]  pages in order of position; SCRATCH beyond those it holds
    held        int64 [rows]     pages it holds
    named       int64 [rows]     leading ones of them that carry its keys
    filled      int64 [rows]     leading tokens whose keys and values were there when it came
    computed    int64 [rows]     tokens run, those of steps in flight included
    target      int64 [rows]     tokens to run before it decodes
    left        int64 [rows]     tokens it may yet sample, those of steps in flight left out
    last        int64 [rows]     its last token, if it decodes and the host knows it
    promised    int64 [rows]     tokens of output for which its organization was charged
    expected    int64 [rows]     pages it is expected to hold in the end
    in_flight   int64 [rows]     steps planned that hold it and are not retired
    cuts        where its prompt's chunks must end, the next one last
    sequences   by their rows
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
        self.sequences: dict[int, Sequence] = {}

    def take(self, sequence: Sequence) -> int:
        """A row for `sequence`, which has no pages yet."""
        row = int(self.pool.take(1)[0])
        sequence.row = row
        self.sequences[row] = sequence
        self.held[row] = self.named[row] = self.filled[row] = self.computed[row] = 0
        self.target[row] = sequence.length
        self.left[row] = sequence.limit - len(sequence.output)
        self.temperature[row] = sequence.sampling.temperature
        self.top_p[row] = sequence.sampling.top_p
        self.top_k[row] = sequence.sampling.top_k
        self.min_p[row] = sequence.sampling.min_p
        self.seeds[row] = sequence.sampling.seed
        return row

    def give(self, sequence: Sequence) -> None:
        row = sequence.row
        self.page_table[row] = SCRATCH
        self.held[row] = 0
        self.cuts[row] = []
        del self.sequences[row]
        self.pool.give(np.array([row]))
        sequence.row = -1

    def append(self, row: int, pages: NDArray[np.int64] | list[int]) -> None:
        """Pages after those it holds."""
        held = int(self.held[row])
        self.page_table[row, held : held + len(pages)] = pages
        self.held[row] += len(pages)

    def pages(self, row: int) -> NDArray[np.int64]:
        """Those it holds, in order of position."""
        return self.page_table[row, : self.held[row]]

    def cut(self, row: int, tokens: int) -> None:
        """End a chunk of its prompt after `tokens` tokens, if they are still to come."""
        if self.computed[row] < tokens <= self.target[row] and tokens not in self.cuts[row]:
            self.cuts[row] = sorted([*self.cuts[row], tokens], reverse=True)

    def next_stop(self, row: int) -> int:
        """The token count at which its prompt's next chunk ends at the latest."""
        return self.cuts[row][-1] if self.cuts[row] else int(self.target[row])


def _columns(count: int, rows: int) -> NDArray[np.int64]:
    return np.zeros((count, rows), dtype=np.int64)
