"""Which tokens run in the next step: one budget, no phases, sequences join and leave at any step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.admission import Admission
from node.engine.batch_table import BatchTable
from node.engine.chunks import share
from node.engine.plan import NO_TOKEN, SCRATCH
from node.engine.prefix_cache import PrefixCache
from node.engine.sequence import FinishReason, Sequence
from node.engine.step import Chunk, Progress, Restore, Save, Step, compose, filled_pages


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one step may hold.

    sequences         rows at most
    tokens            tokens at most, when no sequence decodes
    mixed_tokens      prompt tokens at most beside decoding rows, so that a long prompt does not stall them
    partial_prefills  prompts of one organization that are begun and not done
    """

    sequences: int = 256
    tokens: int = 2048
    mixed_tokens: int = 512
    partial_prefills: int = 32

    def with_sequences(self, sequences: int) -> Budget:
        """The same budget for as many sequences as memory holds."""
        return replace(self, sequences=sequences)


@dataclass(slots=True)
class Counts:
    """Tokens and preemptions since the start.

    prompt      tokens of prompts that were run for the first time
    reused      tokens of prompts that were not, because an earlier sequence had run them
    recomputed  tokens run again after a preemption
    sampled     tokens handed on
    """

    prompt: int = 0
    reused: int = 0
    recomputed: int = 0
    sampled: int = 0
    preemptions: int = 0


class Scheduler:
    """Continuous batching over pages and slots.

    `plan` promises that the step it returns will run, and `retire` or `fail` tells that it has. They may
    alternate, or one step may be planned while the one before it runs; then its tokens are on the device, and what a
    sequence of both held is free once both are done. `cancel` and `expire` come between.
    """

    def __init__(self, pages: int, state_slots: int, context: int, budget: Budget, recurrent: bool) -> None:
        """Slots beyond those of the sequences hold cached states; `recurrent`: the model has delta layers."""
        rows = min(budget.sequences, state_slots) if recurrent else budget.sequences
        self.budget = budget
        self.table = BatchTable(rows, context)
        self.prefix_cache = PrefixCache(pages, rows + 1, state_slots - rows if recurrent else 0, recurrent)
        self.pages = self.prefix_cache.pages
        self.admission = Admission(self.table, self.prefix_cache, budget.partial_prefills)
        self.waiting = self.admission.waiting
        self.running: list[Sequence] = []  # in order of admission
        self.counts = Counts()
        self._recurrent = recurrent
        self._prefilling: list[Sequence] = []  # in order of admission
        self._decoding = _ints([])
        self._leaving: list[Sequence] = []  # done or preempted, and still in a step in flight
        self._flight: list[Step] = []

    @property
    def has_work(self) -> bool:
        return bool(self.running or self.waiting or self._flight)

    @property
    def state_slots_total(self) -> int:
        return self.table.pool.total + self.prefix_cache.state_cache.total if self._recurrent else 0

    @property
    def state_slots_free(self) -> int:
        """Slots that no sequence has; those of cached states count, for they can be evicted."""
        return self.state_slots_total - (self.table.pool.held if self._recurrent else 0)

    def check(self, sequence: Sequence) -> None:
        """Raise ValueError if it could never run here. Reads constants only: any thread may ask."""
        most = min(self.pages.total, self.table.page_table.shape[1])
        if sequence.most_pages > most:
            raise ValueError(f"{sequence.id} needs {sequence.most_pages} pages, a sequence can have {most}")

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has passed `check`."""
        self.admission.add(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """Take it out, wherever it is; what it held is back when this returns, or the step in flight is done."""
        if sequence.finish_reason is None:
            self._end(sequence, FinishReason.CANCELLED)

    def expire(self, now: float) -> list[Progress]:
        """End those that were to have begun by `now`, time.monotonic() seconds, and have not."""
        expired = self.admission.expired(now)
        for sequence in expired:
            self._end(sequence, FinishReason.EXPIRED)
        return [Progress(sequence, (), FinishReason.EXPIRED) for sequence in expired]

    # a step

    def plan(self) -> Step | None:
        """The next step, or None when nothing can run (before the step in flight is done)."""
        preemptions = self.counts.preemptions
        decoding = self._grow()
        restores = self._admit() if self.counts.preemptions == preemptions else ()
        chunks = self._chunks(self.budget.mixed_tokens if len(decoding) else self.budget.tokens)
        if not len(decoding) and not chunks:
            return None
        before = self._flight[-1] if self._flight else None
        saves = self._saves(chunks)
        step = compose(self.table, decoding, chunks, restores, saves, before, self._recurrent)
        self.table.computed[step.table_rows] += step.plan.row_lengths
        self.table.in_flight[step.table_rows] += 1
        self.table.left[step.sampled_table_rows] -= 1
        self._flight.append(step)
        for chunk in chunks:
            if chunk.end == self.table.target[chunk.sequence.row]:
                self._prefilling.remove(chunk.sequence)
                if chunk.sequence.limit:
                    self._decoding = np.append(self._decoding, chunk.sequence.row)
        return step

    def retire(self, step: Step, sampled: NDArray[np.int64]) -> list[Progress]:
        """Book what the oldest step in flight computed and sampled (int64 [S], as its sample_rows)."""
        self._land(step)
        self.table.last[step.sampled_table_rows] = sampled
        for sequence in filled_pages(step):
            if sequence.finish_reason is None:
                self._name_pages(sequence)
        for save in step.saves:
            self.prefix_cache.saved(*save)
        progress = [done for chunk in step.chunks if (done := self._book(chunk)) is not None]
        for sequence, token in zip(step.sampling, sampled.tolist(), strict=True):
            if sequence.finish_reason is not None:  # it ended while this step was in flight
                continue
            if token == NO_TOKEN:  # whatever this row asked for, the others have their tokens
                self._end(sequence, FinishReason.ERROR)
                progress.append(Progress(sequence, (), FinishReason.ERROR))
                continue
            output, finish_reason = sequence.output, None
            output.append(token)
            if token in sequence.stop_ids:
                finish_reason = FinishReason.STOP
            elif len(output) >= sequence.limit:
                finish_reason = FinishReason.LENGTH
            progress.append(Progress(sequence, (token,), finish_reason))
            if finish_reason is not None:
                self._end(sequence, finish_reason)
        self.counts.sampled += sum(len(done.ids) for done in progress)
        self._release_landed()
        return progress

    def fail(self, step: Step) -> list[Progress]:
        """The step could not be run: end all its sequences and take everything back."""
        self._land(step)
        for save in step.saves:
            self.prefix_cache.state_cache.give_back(save.slot)
        progress = []
        for sequence in dict.fromkeys([*step.sequences, *(restore.sequence for restore in step.restores)]):
            if sequence.finish_reason is None:
                self._end(sequence, FinishReason.ERROR)
                progress.append(Progress(sequence, (), FinishReason.ERROR))
        self._release_landed()
        return progress

    def audit(self) -> None:
        """Raise PoolError unless every page, slot and row is explained by who runs and what is kept."""
        holders = [*self.running, *self._leaving]
        held = [self.table.pages(sequence.row) for sequence in holders]
        reserved = [save.slot for step in self._flight for save in step.saves]
        self.table.pool.audit(_ints([sequence.row for sequence in holders]))
        self.prefix_cache.audit(np.concatenate([_ints([]), *held]), reserved, set(self.running))

    # what runs next

    def _grow(self) -> NDArray[np.int64]:
        """The table rows that decode in this step, each with a page for its token; the youngest are preempted."""
        decoding: NDArray[np.int64] = self._decoding[self.table.left[self._decoding] > 0]
        lacking = decoding[self.table.computed[decoding] >= self.table.held[decoding] * PAGE]
        if not len(lacking):
            return decoding
        coming = sum(self._sole_pages(sequence) for sequence in self._leaving)
        while len(lacking) > self.pages.free + coming and len(self.running) > 1:
            victim = self.running[-1]
            row, pages = victim.row, self._sole_pages(victim)
            self._preempt(victim)
            if victim.row >= 0:
                coming += pages
            decoding, lacking = decoding[decoding != row], lacking[lacking != row]
        granted, stalled = lacking[: self.pages.free], lacking[self.pages.free :]
        for row, page in zip(granted.tolist(), self.pages.take(len(granted)).tolist(), strict=True):
            self.table.append(row, [page])
        return decoding if not len(stalled) else decoding[~np.isin(decoding, stalled)]

    def _admit(self) -> tuple[Restore, ...]:
        admitted = self.admission.admit(self._prefilling)
        for sequence, _ in admitted:
            self.running.append(sequence)
            self._prefilling.append(sequence)
            self.counts.reused += 0 if sequence.ran else sequence.cached
        return tuple(Restore(sequence, slot) for sequence, slot in admitted if slot != SCRATCH)

    def _chunks(self, budget: int) -> list[Chunk]:
        starts = [int(self.table.computed[sequence.row]) for sequence in self._prefilling]
        stops = [self.table.next_stop(sequence.row) for sequence in self._prefilling]
        wanted = [stop - start for start, stop in zip(starts, stops, strict=True)]
        owners = [sequence.organization for sequence in self._prefilling]
        parts = zip(self._prefilling, starts, share(budget, wanted, owners), strict=True)
        return [Chunk(sequence, start, start + length) for sequence, start, length in parts if length]

    def _saves(self, chunks: list[Chunk]) -> tuple[Save, ...]:
        saves = []
        for sequence, _, end in chunks:
            cuts = self.table.cuts[sequence.row]
            if cuts and cuts[-1] == end:
                cuts.pop()
                if (slot := self.prefix_cache.save(sequence, end)) is not None:
                    saves.append(Save(sequence, end, slot))
        return tuple(saves)

    # what has run

    def _land(self, step: Step) -> None:
        self._flight.remove(step)
        self.table.in_flight[step.table_rows] -= 1

    def _name_pages(self, sequence: Sequence) -> None:
        """Of what has run: the last token of a page is known, for the step that sampled it has retired."""
        row = sequence.row
        flying = sum(
            int(step.plan.row_lengths[np.flatnonzero(step.table_rows == row)].sum()) for step in self._flight
        )
        computed = int(self.table.computed[row]) - flying
        self.table.named[row] = self.prefix_cache.name(
            sequence, self.table.page_table[row], int(self.table.named[row]), computed
        )

    def _book(self, chunk: Chunk) -> Progress | None:
        sequence = chunk.sequence
        self.counts.recomputed += max(0, min(chunk.end, sequence.ran) - chunk.start)
        self.counts.prompt += max(0, min(chunk.end, len(sequence.prompt)) - max(chunk.start, sequence.ran))
        if sequence.limit or sequence.finish_reason is not None or chunk.end < len(sequence.prompt):
            return None
        self._end(sequence, FinishReason.LENGTH)
        return Progress(sequence, (), FinishReason.LENGTH)

    # leaving

    def _preempt(self, sequence: Sequence) -> None:
        """Back to the head of its queue. It will go on from its own prefix as far as that is still there."""
        self.counts.preemptions += 1
        self._leave(sequence)

    def _end(self, sequence: Sequence, finish_reason: FinishReason) -> None:
        sequence.finish_reason = finish_reason
        if sequence.output:
            self.admission.lengths.add(len(sequence.output))
        if sequence in self._leaving:  # preempted, and ended before the step in flight was done
            return
        if sequence.row >= 0:
            self._leave(sequence)
        else:
            self.admission.remove(sequence)

    def _leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.prefix_cache.stop_growing(sequence)
        self.admission.leave(sequence)
        self._decoding = self._decoding[self._decoding != sequence.row]
        if sequence in self._prefilling:
            self._prefilling.remove(sequence)
        if self.table.in_flight[sequence.row]:
            self._leaving.append(sequence)
        else:
            self._release(sequence)

    def _release_landed(self) -> None:
        for sequence in [s for s in self._leaving if not self.table.in_flight[s.row]]:
            self._leaving.remove(sequence)
            self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        sequence.ran = max(sequence.ran, int(self.table.computed[sequence.row]))
        self.pages.release(self.table.pages(sequence.row))
        self.table.give(sequence)
        if sequence.finish_reason is None:
            self.waiting.add_first(sequence)

    def _sole_pages(self, sequence: Sequence) -> int:
        return self.pages.held_once(self.table.pages(sequence.row))


def _ints(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)
