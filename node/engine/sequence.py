"""A request's life in the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.page_keys import PromptItem, chain, key_of
from node.engine.sampling import Sampling
from node.engine.seen import Seen

if TYPE_CHECKING:
    from node.engine.constraint import Constraint


class FinishReason(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"  # it sampled one of its stop ids
    LENGTH = "length"  # it reached its limit
    CANCELLED = "cancelled"  # nobody waits for it any more
    EXPIRED = "expired"  # it waited past its deadline and never ran
    ERROR = "error"  # a step that held it failed


@dataclass(eq=False, slots=True)
class Sequence:
    """What lives as long as the request. Pages, slot and progress live as long as its row: see BatchTable.

    id            the request's id
    prompt        int64 [P], at least one token
    limit         most tokens to generate; 0 runs the prompt and samples nothing
    stop_ids      sampling one of these ends the sequence
    constraint    says what it may sample, or None where it may anything
    organization  whose queue it waits in, and whose prefixes it may reuse
    boundaries    token counts, ascending, where a later prompt may part from this one: ends of turns. Few, for
                  each costs a slot; none means the prompt's end
    deadline      time.monotonic() seconds by which it must have begun, or None
    items         what of the prompt its ids do not tell, for its pages' keys

    constrained  how much of the output the constraint has seen
    seen         the ids that its penalties are about, or None where it has none
    output       sampled ids, a stop id included
    cached       tokens of the prompt that were not run, because an earlier sequence had run them
    ran          tokens that had been run when it was last preempted
    keys         of its leading full pages, as far as they were asked for
    row          its row in BatchTable; -1 while it waits
    """

    id: str
    prompt: NDArray[np.int64]
    limit: int
    sampling: Sampling
    stop_ids: frozenset[int]
    constraint: Constraint | None = None
    organization: str = ""
    boundaries: tuple[int, ...] = ()
    deadline: float | None = None
    items: tuple[PromptItem, ...] = ()
    constrained: int = 0
    seen: Seen | None = None
    output: list[int] = field(default_factory=list)
    cached: int = 0
    ran: int = 0
    keys: list[bytes] = field(default_factory=list)
    row: int = -1
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        if len(self.prompt) == 0:
            raise ValueError("a prompt holds at least one token")
        if self.limit < 0:
            raise ValueError(f"limit must not be negative, is {self.limit}")
        if not all(0 <= item.start < item.end <= len(self.prompt) for item in self.items):
            raise ValueError(f"items {self.items} are not all in a prompt of {len(self.prompt)}")
        if not all(0 <= end <= len(self.prompt) for end in self.boundaries):
            raise ValueError(f"boundaries {self.boundaries} are not all in a prompt of {len(self.prompt)}")
        if self.sampling.penalised:
            self.seen = Seen(self.prompt)

    @property
    def length(self) -> int:
        """Tokens that are known: the prompt and what was sampled."""
        return len(self.prompt) + len(self.output)

    @property
    def turns(self) -> tuple[int, ...]:
        """Token counts where later prompts are likely to go on from this one."""
        return self.boundaries or (len(self.prompt) - 1,)

    @property
    def most_pages(self) -> int:
        """Pages it needs if it runs to its limit; the last sampled token is never run."""
        return pages_of(max(len(self.prompt), len(self.prompt) + self.limit - 1))

    def tokens(self, start: int, end: int) -> NDArray[np.int64]:
        """int64 [end - start] of the prompt and the output."""
        prompt = len(self.prompt)
        if end <= prompt:
            return self.prompt[start:end]
        output = np.array(self.output[max(0, start - prompt) : end - prompt], dtype=np.int64)
        return np.concatenate([self.prompt[start:], output])

    def page_keys(self, count: int) -> list[bytes]:
        """The keys of its first `count` pages, which must be full. The chain begins with the organization."""
        done = len(self.keys)
        if done < count:
            before = self.keys[-1] if self.keys else key_of(self.organization.encode())
            self.keys += chain(before, self.tokens(done * PAGE, count * PAGE), done, self.items)
        return self.keys[:count]


def pages_of(tokens: int) -> int:
    return -(-tokens // PAGE)
