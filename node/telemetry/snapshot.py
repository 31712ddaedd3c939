"""One frozen picture of the engine: health, logs and metrics render from it and so can not disagree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Taken by the engine thread after each step.

    running, waiting                sequences
    pages_free, pages_total
    slots_free, slots_total
    steps                           since the start, failed ones included
    prompt_tokens, sampled_tokens   computed and sampled since the start
    failures                        steps that raised, in a row: 0 once one completes
    """

    running: int
    waiting: int
    pages_free: int
    pages_total: int
    slots_free: int
    slots_total: int
    steps: int
    prompt_tokens: int
    sampled_tokens: int
    failures: int
