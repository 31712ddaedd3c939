"""Which tokens run in the next step: one budget, no phases, sequences join and leave at any step."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Rows
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import PAGE, SCRATCH, StepPlan
from node.engine.pool import Pool
from node.engine.sequence import NOTHING, Finish, Sequence


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one step may hold.

    sequences     rows at most
    tokens        tokens at most, when no sequence decodes
    mixed_tokens  prompt tokens at most beside decoding rows, so that a long prompt does not stall them
    """

    sequences: int = 256
    tokens: int = 2048
    mixed_tokens: int = 512

    def with_sequences(self, sequences: int) -> Budget:
        """The same budget for as many sequences as memory holds."""
        return replace(self, sequences=sequences)


@dataclass(frozen=True, slots=True)
class Step:
    """A plan and the sequences of its rows. The plan crosses to the runner, the sequences do not."""

    plan: StepPlan
    rows: tuple[Sequence, ...]

    @property
    def sampling(self) -> list[Sequence]:
        """The sequences of plan.sample_rows."""
        return [self.rows[row] for row in self.plan.sample_rows.tolist()]


@dataclass(frozen=True, slots=True)
class Progress:
    """What one step did for one sequence: the ids it sampled, and why it ended if it did."""

    sequence: Sequence
    ids: tuple[int, ...]
    finish: Finish | None


class Scheduler:
    """Continuous batching over two fixed pools.

    A sequence is admitted, first come first served, once the pages for its whole prompt and limit are free,
    so that nothing that runs can ever run out. `plan` and `retire` alternate; `cancel` comes between steps.
    """

    def __init__(self, pages: int, slots: int, context: int, budget: Budget, recurrent: bool) -> None:
        """Pools of `pages` and `slots`; `recurrent` says whether the model has delta layers at all."""
        self.budget = budget
        self.pages = Pool(pages)
        self.slots = Pool(slots)
        self.recurrent = recurrent
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.prompt_tokens = 0  # computed since the start
        self.sampled_tokens = 0
        seats = min(budget.sequences, slots) if recurrent else budget.sequences
        self._seats = Pool(seats)
        self._page_table = np.full((seats + 1, -(-context // PAGE)), SCRATCH, dtype=np.int64)

    @property
    def has_work(self) -> bool:
        return bool(self.running or self.waiting)

    def check(self, sequence: Sequence) -> None:
        """Raise ValueError if it could never run here. Reads constants only: any thread may ask."""
        most = min(self.pages.total, self._page_table.shape[1])
        if sequence.most_pages > most:
            raise ValueError(f"{sequence.id} needs {sequence.most_pages} pages, a sequence can have {most}")

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has passed `check`."""
        self.waiting.append(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """Take it out, wherever it is; its pages and slot are back when this returns."""
        if sequence.finish is not None:
            return
        if sequence.seat < 0:
            self.waiting.remove(sequence)
            sequence.finish = Finish.CANCELLED
        else:
            self._end(sequence, Finish.CANCELLED)

    def plan(self) -> Step | None:
        """The next step, or None when nothing can run."""
        self._admit()
        decoding = [sequence for sequence in self.running if sequence.decoding]
        left = self.budget.mixed_tokens if decoding else self.budget.tokens
        rows: list[tuple[Sequence, int]] = [(sequence, 1) for sequence in decoding]
        for sequence in self.running:
            if left and not sequence.decoding:
                chunk = min(left, sequence.remaining)
                rows.append((sequence, chunk))
                left -= chunk
        if not rows:
            return None
        rows.sort(key=lambda row: row[1] > 1)  # the kernels for one token and for chunks each see one range
        return self._step(rows)

    def retire(self, step: Step, sampled: NDArray[np.int64]) -> list[Progress]:
        """Book what `step` computed and sampled (int64 [S], in the order of its sample_rows)."""
        for sequence, length in zip(step.rows, step.plan.row_lengths.tolist(), strict=True):
            self.prompt_tokens += 0 if sequence.decoding else length
            sequence.computed += length
        self.sampled_tokens += len(sampled)
        ids = dict(zip(step.plan.sample_rows.tolist(), sampled.tolist(), strict=True))
        progress = []
        for row, sequence in enumerate(step.rows):
            new: tuple[int, ...] = (ids[row],) if row in ids else ()
            sequence.output.extend(new)
            finish = self._finish(sequence)
            if finish is not None:
                self._end(sequence, finish)
            if new or finish is not None:
                progress.append(Progress(sequence, new, finish))
        return progress

    def fail(self, step: Step) -> list[Progress]:
        """The step could not be run: end all its sequences and take everything back."""
        for sequence in step.rows:
            self._end(sequence, Finish.ERROR)
        return [Progress(sequence, (), Finish.ERROR) for sequence in step.rows]

    def audit(self) -> None:
        """Raise PoolError unless every page, slot and seat is either free or held by one running sequence."""
        held = [sequence.pages for sequence in self.running]
        self.pages.audit(np.concatenate([NOTHING, *held]))
        self.slots.audit(_numbers([s.slot for s in self.running if self.recurrent]))
        self._seats.audit(_numbers([s.seat for s in self.running]))

    def _admit(self) -> None:
        while self.waiting and self._seats.free:
            sequence = self.waiting[0]
            if sequence.most_pages > self.pages.free:
                return
            self.waiting.popleft()
            sequence.pages = self.pages.take(sequence.most_pages)
            sequence.seat = int(self._seats.take(1)[0])
            sequence.slot = int(self.slots.take(1)[0]) if self.recurrent else SCRATCH
            self._page_table[sequence.seat, : len(sequence.pages)] = sequence.pages
            self.running.append(sequence)

    def _end(self, sequence: Sequence, finish: Finish) -> None:
        self._page_table[sequence.seat] = SCRATCH
        self.pages.give(sequence.pages)
        self._seats.give(_numbers([sequence.seat]))
        if self.recurrent:
            self.slots.give(_numbers([sequence.slot]))
        sequence.pages, sequence.slot, sequence.seat = NOTHING, SCRATCH, -1
        sequence.finish = finish
        self.running.remove(sequence)

    def _finish(self, sequence: Sequence) -> Finish | None:
        if sequence.output and sequence.output[-1] in sequence.stop_ids:
            return Finish.STOP
        if sequence.decoding and len(sequence.output) >= sequence.limit:
            return Finish.LENGTH
        return None

    def _step(self, rows: Rows[tuple[Sequence, int]]) -> Step:
        sequences = tuple(sequence for sequence, _ in rows)
        lengths = _numbers([length for _, length in rows])
        computed = _numbers([sequence.computed for sequence in sequences])
        row_starts = np.concatenate([[0], np.cumsum(lengths)])
        token_ids = np.concatenate([np.asarray(s.next_tokens(n), dtype=np.int64) for s, n in rows])
        offsets = np.repeat(computed - row_starts[:-1], lengths)
        sampling = [
            (row, sequence.sampling)
            for row, (sequence, length) in enumerate(rows)
            if length == sequence.remaining and sequence.limit
        ]
        width = -(-int((computed + lengths).max()) // PAGE)
        plan = StepPlan(
            token_ids=token_ids,
            positions=np.arange(len(token_ids)) + offsets,
            row_starts=row_starts,
            page_table=self._page_table[[s.seat for s in sequences], :width],
            slots=_numbers([s.slot for s in sequences]),
            sample_rows=_numbers([row for row, _ in sampling]),
            temperature=np.array([s.temperature for _, s in sampling], dtype=np.float32),
            top_p=np.array([s.top_p for _, s in sampling], dtype=np.float32),
            top_k=_numbers([s.top_k for _, s in sampling]),
            seeds=np.array([s.seed for _, s in sampling], dtype=np.uint64),
        )
        return Step(plan, sequences)


def _numbers(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
