"""A runner that is a memory: its next id is a function of everything a right cache must return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.plan import SCRATCH, GetSamplingMetadata, StepPlan, no_sampling_metadata

VOCABULARY = 50
MODULUS = 1_000_003
POISON = -1


POWERS = np.array([pow(31, n, MODULUS) for n in range(4096)], dtype=np.int64)


def by_pages(tokens: NDArray[np.int64]) -> int:
    return int((np.arange(1, len(tokens) + 1) * tokens).sum() % MODULUS)


def by_state(state: int, tokens: NDArray[np.int64]) -> int:
    """A running hash, continued from `state`: state · 31 + token + 1, token by token."""
    count = len(tokens)
    return int((state * POWERS[count] + (POWERS[:count][::-1] * (tokens + 1)).sum()) % MODULUS)


def next_id(tokens: list[int]) -> int:
    """What MemoryRunner samples after `tokens`, computed from the tokens alone."""
    ids = np.array(tokens, dtype=np.int64)
    return (by_pages(ids) * 7 + by_state(0, ids)) % VOCABULARY


class MemoryStepHandle:
    """A step that was launched: its forward pass has run, its samples wait to be asked for."""

    def __init__(self, runner: MemoryRunner, plan: StepPlan) -> None:
        self._runner = runner
        self._sampled = runner.forward(plan)

    def sample(self, get_metadata: GetSamplingMetadata) -> None:
        """A masked row takes its choice if that is allowed, or else the lowest id that is."""
        if (masked := get_metadata()) is not None:
            for row, bits in zip(masked.masked.tolist(), masked.bits, strict=True):
                allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
                if self._sampled[row] not in allowed:
                    self._sampled[row] = allowed[0]
        self._runner.last = self._sampled

    def ids(self) -> NDArray[np.int64]:
        return self._sampled


class MemoryRunner:
    """Pages remember tokens and slots a running hash; both start poisoned, so any wrong read shows."""

    def __init__(self, pages: int, slots: int, recurrent: bool) -> None:
        self.recurrent = recurrent
        self.pages = np.full((pages + 1, PAGE), POISON, dtype=np.int64)
        self.state = np.full(slots + 1, POISON, dtype=np.int64)
        self.last = np.zeros(0, dtype=np.int64)
        self.plans: list[StepPlan] = []

    def run(
        self, plan: StepPlan, get_metadata: GetSamplingMetadata = no_sampling_metadata
    ) -> NDArray[np.int64]:
        handle = self.launch(plan)
        handle.sample(get_metadata)
        return handle.ids()

    def launch(self, plan: StepPlan) -> MemoryStepHandle:
        return MemoryStepHandle(self, plan)

    def forward(self, plan: StepPlan) -> NDArray[np.int64]:
        self.plans.append(plan)
        token_ids = plan.token_ids.copy()
        token_ids[plan.future_tokens[:, 0]] = self.last[plan.future_tokens[:, 1]]
        for pairs in (plan.restores, plan.saves):
            assert len(set(pairs[:, 1]) | set(pairs[:, 0])) == len(pairs) + len(set(pairs[:, 0]))
        assert len(set(plan.saves[:, 0])) == len(plan.saves)
        copied = self.state[plan.restores[:, 0]]
        assert POISON not in copied
        self.state[plan.restores[:, 1]] = copied
        self.write_pages(plan, token_ids)
        sampled = []
        for row in range(plan.rows):
            here = slice(plan.cu_seqlens[row], plan.cu_seqlens[row + 1])
            tokens, positions, table = token_ids[here], plan.positions[here], plan.page_table[row]
            length = int(plan.context_lengths[row])
            assert np.array_equal(positions, np.arange(length - len(tokens), length))
            assert (table[: -(-length // PAGE)] != SCRATCH).all()
            assert (plan.state_slots[row] != SCRATCH) == self.recurrent
            before = 0 if row in plan.fresh_rows else int(self.state[plan.state_slots[row]])
            state = self.state[plan.state_slots[row]] = by_state(before, tokens)
            if row in plan.sample_rows:
                seen = self.pages[table].reshape(-1)[:length]
                assert POISON not in seen
                state = state if self.recurrent else by_state(0, seen)
                sampled.append((by_pages(seen) * 7 + state) % VOCABULARY)
        self.state[plan.saves[:, 1]] = self.state[plan.saves[:, 0]]
        return np.array(sampled, dtype=np.int64)

    def write_pages(self, plan: StepPlan, token_ids: NDArray[np.int64]) -> None:
        """All tokens to their slots but the ones that skip_kv_write names, whose slots must hold them already."""
        row_of_token = np.repeat(np.arange(plan.rows), plan.row_lengths)
        pages = plan.page_table[row_of_token, plan.positions // PAGE]
        offsets = plan.positions % PAGE
        assert np.array_equal(self.pages[pages, offsets][plan.skip_kv_write], token_ids[plan.skip_kv_write])
        written = np.ones(plan.tokens, dtype=bool)
        written[plan.skip_kv_write] = False
        assert len(set(zip(pages[written].tolist(), offsets[written].tolist(), strict=True))) == written.sum()
        self.pages[pages[written], offsets[written]] = token_ids[written]
