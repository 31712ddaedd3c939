"""A runner that is a memory: its next id is a function of everything a right cache must return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import PAGE, SCRATCH, GetMasks, StepPlan, no_masks

VOCABULARY = 50
MODULUS = 1_000_003
POISON = -1


def next_id(tokens: list[int]) -> int:
    """What MemoryRunner samples after `tokens`, computed from the tokens alone."""
    by_pages = sum((place + 1) * token for place, token in enumerate(tokens)) % MODULUS
    by_state = 0
    for token in tokens:
        by_state = (by_state * 31 + token + 1) % MODULUS
    return (by_pages * 7 + by_state) % VOCABULARY


class MemoryRunner:
    """Pages remember tokens and slots a running hash; both start poisoned, so any wrong read shows."""

    def __init__(self, pages: int, slots: int, recurrent: bool) -> None:
        self.recurrent = recurrent
        self.pages = np.full((pages + 1, PAGE), POISON, dtype=np.int64)
        self.state = np.full(slots + 1, POISON, dtype=np.int64)
        self.plans: list[StepPlan] = []

    def run(self, plan: StepPlan, masks: GetMasks = no_masks) -> NDArray[np.int64]:
        self.plans.append(plan)
        sampled = []
        for row in range(plan.rows):
            here = slice(plan.row_starts[row], plan.row_starts[row + 1])
            tokens, positions, table = plan.token_ids[here], plan.positions[here], plan.page_table[row]
            length = int(plan.context_lengths[row])
            assert np.array_equal(positions, np.arange(length - len(tokens), length))
            assert (table[: -(-length // PAGE)] != SCRATCH).all()
            assert (plan.slots[row] != SCRATCH) == self.recurrent
            self.pages[table[positions // PAGE], positions % PAGE] = tokens
            state = 0 if row in plan.fresh_rows else int(self.state[plan.slots[row]])
            for token in tokens.tolist():
                state = (state * 31 + token + 1) % MODULUS
            self.state[plan.slots[row]] = state
            if row in plan.sample_rows:
                seen = self.pages[table].reshape(-1)[:length].tolist()
                assert POISON not in seen
                by_pages = sum((place + 1) * token for place, token in enumerate(seen)) % MODULUS
                if not self.recurrent:
                    state = 0
                    for token in seen:
                        state = (state * 31 + token + 1) % MODULUS
                sampled.append((by_pages * 7 + state) % VOCABULARY)
        return np.array(sampled, dtype=np.int64)
