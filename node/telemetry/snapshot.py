"""One frozen picture of the engine: health, logs and metrics render from it and so cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Taken by the engine thread after each step.

    running, waiting                     sequences
    pages_free, pages_total              the free ones include
    pages_idle                           those that are kept for reuse until they are needed
    state_slots_free, state_slots_total  the free ones include
    cached_states, cached_states_total   those kept for reuse, and how many there may be
    steps                                since the start, failed ones included
    prompt_tokens, sampled_tokens        run for the first time, and sampled, since the start
    reused_tokens                        of prompts that did not have to be run
    recomputed_tokens, preemptions       tokens run again, because a sequence was preempted
    failures                             steps that raised, in a row: 0 once one completes
    """

    running: int
    waiting: int
    pages_free: int
    pages_idle: int
    pages_total: int
    state_slots_free: int
    state_slots_total: int
    cached_states: int
    cached_states_total: int
    steps: int
    prompt_tokens: int
    sampled_tokens: int
    reused_tokens: int
    recomputed_tokens: int
    preemptions: int
    failures: int

    @property
    def pages_held(self) -> int:
        """By sequences."""
        return self.pages_total - self.pages_free

    @property
    def state_slots_held(self) -> int:
        """By sequences."""
        return self.state_slots_total - self.state_slots_free

    @property
    def state_slots_left(self) -> int:
        """What a sequence could have and none has: cached states have slots of their own."""
        return self.state_slots_free - self.cached_states_total

    @property
    def usage(self) -> float:
        """Share of the pages, or of the slots that sequences could have, that they hold: the greater of the two,
        for whoever comes next waits for whichever runs out first.
        """
        state_slots = self.state_slots_held + self.state_slots_left
        return max(
            self.pages_held / self.pages_total, self.state_slots_held / state_slots if state_slots else 0.0
        )
