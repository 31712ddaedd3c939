"""A step as the engine sees it: the plan, and whose rows it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.batch_table import BatchTable
from node.engine.plan import StepPlan
from node.engine.sequence import FinishReason, Sequence, pages_of


class Chunk(NamedTuple):
    """Tokens `start` to `end` of a sequence that does not decode yet."""

    sequence: Sequence
    start: int
    end: int


class Save(NamedTuple):
    """The state of a sequence after `tokens` tokens, copied to `slot` after the pass."""

    sequence: Sequence
    tokens: int
    slot: int


class Restore(NamedTuple):
    """A cached state in `slot`, copied to where the sequence goes on before the pass."""

    sequence: Sequence
    slot: int


class Progress(NamedTuple):
    """What happened to one sequence: the ids it sampled, and why it ended if it did."""

    sequence: Sequence
    ids: tuple[int, ...]
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The plan crosses to the runner, the rest does not.

    table_rows  int64 [R]  of the batch table
    decoding    how many rows, the first ones, run the token that was sampled last
    sequences   of the rows
    sampling    the sequences of plan.sample_rows
    chunks      of the rows that follow the decoding ones
    """

    plan: StepPlan
    table_rows: NDArray[np.int64]
    decoding: int
    sequences: tuple[Sequence, ...]
    sampling: tuple[Sequence, ...]
    chunks: tuple[Chunk, ...]
    restores: tuple[Restore, ...]
    saves: tuple[Save, ...]

    @property
    def sampled_table_rows(self) -> NDArray[np.int64]:
        """int64 [S]: of plan.sample_rows."""
        return self.table_rows[self.plan.sample_rows]


def compose(
    table: BatchTable,
    decoding: NDArray[np.int64],
    chunks: list[Chunk],
    restores: tuple[Restore, ...],
    saves: tuple[Save, ...],
    before: Step | None,
    recurrent: bool,
) -> Step:
    """The step of these table rows and chunks; `before` is the step in flight whose samples are not known yet."""
    chunks = sorted(chunks, key=lambda chunk: chunk.end - chunk.start > 1)  # rows of one token come first
    table_rows = np.concatenate([decoding, _ints([chunk.sequence.row for chunk in chunks])])
    lengths = np.ones(len(table_rows), dtype=np.int64)
    lengths[len(decoding) :] = [chunk.end - chunk.start for chunk in chunks]
    starts = table.computed[table_rows]
    cu_seqlens = np.zeros(len(table_rows) + 1, dtype=np.int64)
    lengths.cumsum(out=cu_seqlens[1:])
    tokens = [chunk.sequence.tokens(chunk.start, chunk.end) for chunk in chunks]
    samples = [
        row
        for row, chunk in enumerate(chunks, len(decoding))
        if chunk.end == table.target[chunk.sequence.row] and table.left[chunk.sequence.row]
    ]
    sample_rows = np.concatenate([np.arange(len(decoding)), _ints(samples)])
    sampled = table_rows[sample_rows]
    sequences = tuple(map(table.sequences.__getitem__, table_rows.tolist()))
    plan = StepPlan(
        token_ids=np.concatenate([table.last[decoding], *tokens]),
        positions=np.arange(cu_seqlens[-1]) + np.repeat(starts - cu_seqlens[:-1], lengths),
        cu_seqlens=cu_seqlens,
        page_table=table.page_table[table_rows, : pages_of(int((starts + lengths).max()))],
        state_slots=table_rows if recurrent else np.zeros_like(table_rows),
        sample_rows=sample_rows,
        temperature=table.temperature[sampled],
        top_p=table.top_p[sampled],
        top_k=table.top_k[sampled],
        seeds=table.seeds[sampled],
        restores=_pairs([(restore.slot, restore.sequence.row) for restore in restores]),
        saves=_pairs([(save.sequence.row, save.slot) for save in saves]),
        skip_kv_write=_skip_kv_write(table, chunks, cu_seqlens[len(decoding) :].tolist()),
        future_tokens=_future_tokens(table, decoding, before),
        min_p=table.min_p[sampled],
    )
    sampling = (
        sequences
        if len(sampled) == len(sequences)
        else tuple(map(sequences.__getitem__, sample_rows.tolist()))
    )
    return Step(plan, table_rows, len(decoding), sequences, sampling, tuple(chunks), restores, saves)


def _skip_kv_write(table: BatchTable, chunks: list[Chunk], cu_seqlens: list[int]) -> NDArray[np.int64]:
    """Indexes of tokens whose keys and values were there before."""
    spans = [
        np.arange(begins, begins + min(chunk.end, filled) - chunk.start)
        for chunk, begins in zip(chunks, cu_seqlens, strict=False)
        if chunk.start < (filled := int(table.filled[chunk.sequence.row]))
    ]
    return np.concatenate([_ints([]), *spans])


def _future_tokens(table: BatchTable, decoding: NDArray[np.int64], before: Step | None) -> NDArray[np.int64]:
    if before is None:
        return _pairs([])
    index = np.full(len(table.held), -1, dtype=np.int64)
    sampled = before.sampled_table_rows
    index[sampled] = np.arange(len(sampled))
    source = index[decoding]
    fed = np.flatnonzero(source >= 0)
    return np.stack([fed, source[fed]], axis=1)


def filled_pages(step: Step) -> list[Sequence]:
    """Sequences that came to the end of a page of theirs in this step."""
    decoding = np.flatnonzero(step.plan.positions[: step.decoding] % PAGE == PAGE - 1)
    ended = [chunk.sequence for chunk in step.chunks if chunk.end // PAGE > chunk.start // PAGE]
    return [*(step.sequences[row] for row in decoding.tolist()), *ended]


def _ints(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _pairs(values: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64).reshape(-1, 2)
