"""What the output parser asks of a parser of calls, whatever format they are written in."""

from __future__ import annotations

from typing import Protocol

from node.chat.events import Event

OPEN_CALL = "<tool_call>"
CLOSE_CALL = "</tool_call>"

LONGEST_NAME = 1024  # characters; names of tools have 128 at most, those of parameters are not bounded


class ToolCallParser(Protocol):
    """Reads what stands between <tool_call> and </tool_call>: one call, or several.

    A CallStart cannot be taken back, so that it waits for the arguments to begin: what breaks off before
    was never a call.

    inside   in a value, which may hold anything, control tokens too: they are to be pushed as text
    rest     set when what came can be no call: all that was written since the last complete one, from
             OPEN_CALL on if there is none. Nothing is read after that
    """

    rest: str | None

    @property
    def inside(self) -> bool: ...

    def push(self, text: str) -> list[Event]:
        """The events that this text brings about."""

    def close(self) -> list[Event]:
        """</tool_call> came, or the end of the turn. A call with all its values closed is complete, and one
        that has begun and is not is given back."""
