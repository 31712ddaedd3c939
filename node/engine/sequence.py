"""A request's life in the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import PAGE, SCRATCH
from node.engine.sampling import Sampling

if TYPE_CHECKING:
    from node.engine.constraint import Constraint

NOTHING = np.zeros(0, dtype=np.int64)


class Finish(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"  # it sampled one of its stop ids
    LENGTH = "length"  # it reached its limit
    CANCELLED = "cancelled"  # nobody waits for it any more
    ERROR = "error"  # a step that held it failed


@dataclass(eq=False, slots=True)
class Sequence:
    """Counters are `computed` and the length of `output`; everything else follows from them.

    id           the request's id
    prompt       int64 [P], at least one token
    limit        most tokens to generate; 0 runs the prompt and samples nothing
    stop_ids     sampling one of these ends the sequence
    constraint   says what it may sample, or None where it may anything
    constrained  how much of the output the constraint has seen
    computed     tokens whose keys, values and state are in its pages and slot
    output       sampled ids, a stop id included
    pages        int64 [pages] in order of position; empty while it waits
    """

    id: str
    prompt: NDArray[np.int64]
    limit: int
    sampling: Sampling
    stop_ids: frozenset[int]
    constraint: Constraint | None = None
    constrained: int = 0
    computed: int = 0
    output: list[int] = field(default_factory=list)
    pages: NDArray[np.int64] = field(default_factory=lambda: NOTHING)
    slot: int = SCRATCH
    seat: int = -1
    finish: Finish | None = None

    def __post_init__(self) -> None:
        if len(self.prompt) == 0:
            raise ValueError("a prompt holds at least one token")
        if self.limit < 0:
            raise ValueError(f"limit must not be negative, is {self.limit}")

    @property
    def length(self) -> int:
        """Tokens that exist: the prompt and what was sampled."""
        return len(self.prompt) + len(self.output)

    @property
    def remaining(self) -> int:
        """Tokens that exist and are not computed; 1 while it decodes."""
        return self.length - self.computed

    @property
    def decoding(self) -> bool:
        return self.computed >= len(self.prompt)

    @property
    def most_pages(self) -> int:
        """Pages it needs if it runs to its limit; the last sampled token is never run."""
        return -(-max(len(self.prompt), len(self.prompt) + self.limit - 1) // PAGE)

    def next_tokens(self, count: int) -> NDArray[np.int64] | list[int]:
        """The first `count` of the remaining tokens."""
        if self.decoding:
            return self.output[-1:]
        return self.prompt[self.computed : self.computed + count]
