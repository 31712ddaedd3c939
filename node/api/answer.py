"""One answer while it is made: ids come from the engine, events of the output machine go to a dialect."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from node.api.errors import ApiError
from node.chat.events import Event
from node.chat.machine import OutputMachine
from node.engine.generation import Burst
from node.engine.sequence import FinishReason


class Bursts(Protocol):
    """Where the ids come from: a Generation, or ids that someone has kept."""

    @property
    def cached(self) -> int: ...

    async def next(self, timeout: float) -> Burst | None: ...

    def cancel(self) -> None: ...


class Ending(Enum):
    """Why an answer ended, in no dialect's words."""

    TURN = auto()  # the model ended its turn
    CALLS = auto()  # it ended its turn with a complete call or more
    STOP_SEQUENCE = auto()  # a stop sequence of the request came
    LIMIT = auto()  # as many tokens as the request asked for
    CONTEXT = auto()  # the context is full


class Answer:
    """The fold of it is the whole answer; read it in pieces and it streams.

    prompt_tokens  of the request, as count_tokens tells them
    clamped        the limit is the remaining context and not what the request asked for
    """

    def __init__(self, bursts: Bursts, machine: OutputMachine, prompt_tokens: int, clamped: bool) -> None:
        self._bursts = bursts
        self._machine = machine
        self._clamped = clamped
        self.prompt_tokens = prompt_tokens
        self.ending: Ending | None = None

    @property
    def cached_tokens(self) -> int:
        """Of the prompt, not run because an earlier request had run them; known with the first news."""
        return self._bursts.cached

    @property
    def output_tokens(self) -> int:
        """Sampled so far, up to the token that completed a stop sequence."""
        return self._machine.consumed

    @property
    def thinking_tokens(self) -> int:
        return self._machine.thinking_tokens

    @property
    def stop_sequence(self) -> str | None:
        return self._machine.matched

    async def next(self, timeout: float) -> list[Event] | None:
        """The next events, which may be none; None when `timeout` seconds brought no news.

        `ending` is set with the last ones. Raises ApiError when the engine failed.
        """
        burst = await self._bursts.next(timeout)
        if burst is None:
            return None
        if burst.finish_reason is FinishReason.ERROR:
            raise ApiError("engine_error")
        if burst.finish_reason is FinishReason.EXPIRED:
            raise ApiError("timeout", "the request waited too long for its turn")
        events = self._machine.push(burst.ids)
        if not self._machine.done and burst.finish_reason is not None:
            events += self._machine.end(cut=burst.finish_reason is FinishReason.LENGTH)
        if self._machine.done or burst.finish_reason is not None:
            self.ending = self._ending(burst.finish_reason)
            self.close()
        return events

    def close(self) -> None:
        """Give up what is still running. Harmless after the end."""
        self._bursts.cancel()

    def _ending(self, finish_reason: FinishReason | None) -> Ending:
        if self._machine.matched is not None:
            return Ending.STOP_SEQUENCE
        if finish_reason is FinishReason.LENGTH and not self._machine.done:
            return Ending.CONTEXT if self._clamped else Ending.LIMIT
        return Ending.CALLS if self._machine.calls else Ending.TURN
