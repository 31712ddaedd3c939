"""What the output machine asks of a reader of calls, whatever form they are written in."""

from __future__ import annotations

from typing import Protocol

from node.chat.events import Event

OPEN_CALL = "<tool_call>"
CLOSE_CALL = "</tool_call>"

LONGEST_NAME = 1024  # characters; names of tools have 128 at most, those of parameters are not bounded


class CallReader(Protocol):
    """Reads what stands between <tool_call> and </tool_call>: one call, or several.

    started  a call has been named
    inside   in a value, which may hold anything, control tokens too: they are to be pushed as text
    rest     set when what came last can be no part of a call: the text that is to be given back, with
             OPEN_CALL before it if no call was named. Nothing is read after that
    """

    started: bool
    rest: str | None

    @property
    def inside(self) -> bool: ...

    def push(self, text: str) -> list[Event]:
        """The events that this text brings about."""

    def close(self) -> list[Event]:
        """</tool_call> came, or the end of the turn. A call with all its values closed is complete."""
