"""One answer while it is made: ids come from the engine, events of the output parser go to a dialect."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from node.api.errors import ApiError
from node.chat.events import Event
from node.chat.output_parser import OutputParser
from node.engine.generation import TokenDelta
from node.engine.sequence import FinishReason


class TokenDeltas(Protocol):
    """Where the ids come from: a Generation, or a replay."""

    @property
    def cached(self) -> int: ...

    async def next(self, timeout: float) -> TokenDelta | None: ...

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

    def __init__(self, deltas: TokenDeltas, parser: OutputParser, prompt_tokens: int, clamped: bool) -> None:
        self._deltas = deltas
        self._parser = parser
        self._clamped = clamped
        self.prompt_tokens = prompt_tokens
        self.ending: Ending | None = None

    @property
    def cached_tokens(self) -> int:
        """Of the prompt, not run because an earlier request had run them; known with the first news."""
        return self._deltas.cached

    @property
    def output_tokens(self) -> int:
        """Sampled so far, up to the token that completed a stop sequence."""
        return self._parser.consumed

    @property
    def thinking_tokens(self) -> int:
        return self._parser.thinking_tokens

    @property
    def stop_sequence(self) -> str | None:
        return self._parser.matched

    async def next(self, timeout: float) -> list[Event] | None:
        """The next events, which may be none; None when `timeout` seconds brought no news.

        `ending` is set with the last ones. Raises ApiError when the engine failed.
        """
        delta = await self._deltas.next(timeout)
        if delta is None:
            return None
        if delta.finish_reason is FinishReason.ERROR:
            raise ApiError("engine_error")
        if delta.finish_reason is FinishReason.EXPIRED:
            raise ApiError("timeout", "the request waited too long for its turn")
        events = self._parser.push(delta.ids)
        if not self._parser.done and delta.finish_reason is not None:
            events += self._parser.end(cut=delta.finish_reason is FinishReason.LENGTH)
        if self._parser.done or delta.finish_reason is not None:
            self.ending = self._ending(delta.finish_reason)
            self.close()
        return events

    def close(self) -> None:
        """Give up what is still running. Harmless after the end."""
        self._deltas.cancel()

    def _ending(self, finish_reason: FinishReason | None) -> Ending:
        if self._parser.matched is not None:
            return Ending.STOP_SEQUENCE
        if finish_reason is FinishReason.LENGTH and not self._parser.done:
            return Ending.CONTEXT if self._clamped else Ending.LIMIT
        return Ending.CALLS if self._parser.calls else Ending.TURN
