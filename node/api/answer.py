"""One answer while it is made: ids come from the engine, events of the output machine go to a dialect."""

from __future__ import annotations

from enum import Enum, auto

from node.api.errors import ApiError
from node.chat.events import Event
from node.chat.machine import OutputMachine
from node.engine.generation import Generation
from node.engine.sequence import Finish


class Ending(Enum):
    """Why an answer ended, in no dialect's words."""

    TURN = auto()  # the model ended its turn
    STOP_SEQUENCE = auto()  # a stop sequence of the request came
    LIMIT = auto()  # as many tokens as the request asked for
    ROOM = auto()  # the context is full


class Answer:
    """The fold of it is the whole answer; read it in pieces and it streams.

    prompt_tokens  of the request, as count_tokens tells them
    clamped        the limit is the room left in the context and not what the request asked for
    """

    def __init__(
        self, generation: Generation, machine: OutputMachine, prompt_tokens: int, clamped: bool
    ) -> None:
        self._generation = generation
        self._machine = machine
        self._clamped = clamped
        self.prompt_tokens = prompt_tokens
        self.ending: Ending | None = None

    @property
    def output_tokens(self) -> int:
        """Sampled so far, up to the token that completed a stop sequence."""
        return self._machine.consumed

    @property
    def stop_sequence(self) -> str | None:
        return self._machine.matched

    async def next(self, patience: float) -> list[Event] | None:
        """The next events, which may be none; None when `patience` seconds brought no news.

        `ending` is set with the last ones. Raises ApiError when the engine failed.
        """
        burst = await self._generation.next(patience)
        if burst is None:
            return None
        if burst.finish is Finish.ERROR:
            raise ApiError("engine_error")
        events = self._machine.push(burst.ids)
        if self._machine.matched is not None:
            self.ending = Ending.STOP_SEQUENCE
            self.close()
        elif burst.finish is not None:
            events += self._machine.end()
            self.ending = self._ending(burst.finish)
        return events

    def close(self) -> None:
        """Give up what is still running. Harmless after the end."""
        self._generation.cancel()

    def _ending(self, finish: Finish) -> Ending:
        if self._machine.matched is not None:
            return Ending.STOP_SEQUENCE
        if finish is Finish.LENGTH:
            return Ending.ROOM if self._clamped else Ending.LIMIT
        return Ending.TURN
