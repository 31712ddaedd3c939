"""A small stand-in for the scheduler: it hands out pages in scrambled order and makes plans."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.constants import PAGE
from node.engine.plan import SCRATCH, StepPlan
from node.model.model import Model
from node.run.model_runner import ModelRunner


@dataclass(slots=True)
class Sequence:
    """tokens: all there are; computed: how many have been run; logits: float32 [V], one a token run."""

    tokens: list[int]
    prompt: int
    pages: list[int]
    slot: int
    computed: int = 0
    logits: list[np.ndarray] = field(default_factory=list)

    @property
    def generated(self) -> list[int]:
        return self.tokens[self.prompt :]


class Drive:
    """A runner whose pools are full of NaN, so that whatever nobody wrote shows when it is read."""

    def __init__(self, model: Model, pages: int = 40, state_slots: int = 12, deferred: bool = False) -> None:
        self.runner = ModelRunner(model, pages, state_slots, "cpu", deferred)
        for pool in self.runner.cache.pools:
            pool.fill_(torch.nan)
        order = np.random.default_rng(3)
        self.free_pages = (1 + order.permutation(pages - 1)).tolist()
        self.free_slots = (1 + order.permutation(state_slots - 1)).tolist()

    def begin(self, ids: list[int]) -> Sequence:
        return Sequence(list(ids), len(ids), [], self.free_slots.pop())

    def end(self, sequence: Sequence) -> None:
        self.free_pages += sequence.pages
        self.free_slots.append(sequence.slot)

    def plan(self, work: list[tuple[Sequence, int]]) -> tuple[StepPlan, list[Sequence]]:
        """A greedy step that runs `count` tokens of each sequence; those that then lack a token sample."""
        work = sorted(work, key=lambda item: item[1] != 1)
        for sequence, count in work:
            while len(sequence.pages) * PAGE < sequence.computed + count:
                sequence.pages.append(self.free_pages.pop())
        width = max(len(sequence.pages) for sequence, _ in work)
        spans = [range(s.computed, s.computed + count) for s, count in work]
        sampled = [row for row, (s, count) in enumerate(work) if s.computed + count == len(s.tokens)]
        plan = StepPlan(
            token_ids=np.array([s.tokens[i] for (s, _), span in zip(work, spans, strict=True) for i in span]),
            positions=np.array([i for span in spans for i in span]),
            cu_seqlens=np.cumsum([0, *map(len, spans)]),
            page_table=np.array([s.pages + [SCRATCH] * (width - len(s.pages)) for s, _ in work]),
            state_slots=np.array([s.slot for s, _ in work]),
            sample_rows=np.array(sampled, np.int64),
            temperature=np.zeros(len(sampled), np.float32),
            top_p=np.ones(len(sampled), np.float32),
            top_k=np.zeros(len(sampled), np.int64),
            seeds=np.zeros(len(sampled), np.uint64),
        )
        return plan, [s for s, _ in work]

    def step(self, work: list[tuple[Sequence, int]]) -> None:
        """Run a step, keep the logits of every token, append what was sampled."""
        plan, rows = self.plan(work)
        logits = self.runner.model.logits(self.runner.forward(plan))
        chosen = self.runner.sample(plan, logits[torch.from_numpy(plan.last_tokens[plan.sample_rows])])
        for row, sequence in enumerate(rows):
            start, end = plan.cu_seqlens[row : row + 2]
            sequence.logits += list(logits[start:end].numpy())
            sequence.computed += end - start
        for row, token in zip(plan.sample_rows.tolist(), chosen.tolist(), strict=True):
            rows[row].tokens.append(token)

    def generate(self, prompts: list[list[int]], chunk: int, count: int) -> list[Sequence]:
        """All prompts at once, `chunk` tokens of each a step, until each has `count` generated tokens.

        Short prompts decode while long ones still have chunks to run: the steps are mixed.
        """
        sequences = [self.begin(ids) for ids in prompts]
        while work := [
            (s, min(chunk, len(s.tokens) - s.computed)) for s in sequences if len(s.generated) < count
        ]:
            self.step(work)
        return sequences
