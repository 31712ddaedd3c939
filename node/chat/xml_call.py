"""Calls as Qwen3-Coder, Qwen3.5 and later write them.

    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>

A value is not quoted, and may hold any of these tags. It ends only where the line after its own closing tag
begins with a tag of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from node.chat.arguments import Arguments
from node.chat.call_reader import CLOSE_CALL, LONGEST_NAME, OPEN_CALL
from node.chat.conversation import ToolSpec
from node.chat.events import CallArguments, CallEnd, CallStart, Event
from node.chat.shapes import Shapes

FUNCTION = "<function="
END_FUNCTION = "</function>"
PARAMETER = "<parameter="
END_PARAMETER = "</parameter>"

_END_OF_VALUE = re.compile(rf"\n?{END_PARAMETER}\n({PARAMETER}|{END_FUNCTION})")
# What may yet be the end of a value. At the end of the turn a model that forgot </function> is forgiven, so
# </tool_call> is held back too until it is known that more follows, and that it was part of the value.
_ENDS = [
    f"{newline}{END_PARAMETER}\n{tag}"
    for newline in ("", "\n")
    for tag in (PARAMETER, END_FUNCTION, f"{CLOSE_CALL}\n\n")
]
_BEGINNINGS = {end[:length] for end in _ENDS for length in range(1, len(end))}
_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))


class XmlCallReader:
    """Implements CallReader. Its buffer holds what is not yet understood, and stays short."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self.started = False
        self.rest: str | None = None
        self._tools = tools
        self._raw = [OPEN_CALL]  # what came since the last complete call, until the next has its name
        self._named = False
        self._buffer = ""
        self._step: Callable[[], bool] = self._seek_function
        self._arguments = Arguments(Shapes({}))
        self._events: list[Event] = []

    @property
    def inside(self) -> bool:
        return self._step in (self._begin_value, self._read_value)

    def push(self, text: str) -> list[Event]:
        if not self._named:
            self._raw.append(text)
        self._buffer += text
        while self.rest is None and self._step():
            pass
        return self._taken()

    def close(self) -> list[Event]:
        if not self._named:
            if self._buffer or not self.started or self._step == self._read_name:
                self._fail()
        elif self._step == self._seek_parameter and _may_end(self._buffer):
            self._finish()
        elif self._step == self._read_value:
            _, closed, following = self._buffer.partition(END_PARAMETER)
            if closed and _may_end(following):
                self._give(self._arguments.close())
                self._finish()
        return self._taken()

    # Each step reads on in the buffer, and says whether another step can go on there.

    def _seek_function(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if self._buffer.startswith(FUNCTION):
            self._buffer = self._buffer.removeprefix(FUNCTION)
            self._step = self._read_name
            return True
        if not FUNCTION.startswith(self._buffer):
            self._fail()
        return False

    def _read_name(self) -> bool:
        name = self._until_bracket()
        if name is None:
            return False
        self._raw = []
        self.started = self._named = True
        self._arguments = Arguments(Shapes(self._tools[name].schema if name in self._tools else {}))
        self._events.append(CallStart(name))
        self._step = self._seek_parameter
        return True

    def _seek_parameter(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if self._buffer.startswith(PARAMETER):
            self._buffer = self._buffer.removeprefix(PARAMETER)
            self._step = self._read_key
            return True
        if self._buffer.startswith(END_FUNCTION):
            self._buffer = self._buffer.removeprefix(END_FUNCTION)
            self._finish()
            return True
        if not PARAMETER.startswith(self._buffer) and not END_FUNCTION.startswith(self._buffer):
            self._fail()
        return False

    def _read_key(self) -> bool:
        key = self._until_bracket()
        if key is None:
            return False
        self._arguments.open(key)
        self._step = self._begin_value
        return True

    def _begin_value(self) -> bool:
        if not self._buffer:
            return False
        self._buffer = self._buffer.removeprefix("\n")
        self._step = self._read_value
        return True

    def _read_value(self) -> bool:
        end = _END_OF_VALUE.search(self._buffer)
        known = end.start() if end else len(self._buffer) - _beginning_at_end(self._buffer)
        self._give(self._arguments.push(self._buffer[:known]))
        if end is None:
            self._buffer = self._buffer[known:]
            return False
        self._give(self._arguments.close())
        self._buffer = self._buffer[end.end() :]
        if end[1] == PARAMETER:
            self._step = self._read_key
        else:
            self._finish()
        return True

    def _until_bracket(self) -> str | None:
        """A name before its >; None where that has not come, or what comes is no name."""
        name, closed, following = self._buffer.partition(">")
        if len(name) > LONGEST_NAME or "\n" in name or "<" in name or (closed and not name.strip()):
            self._fail()
            return None
        if not closed:
            return None
        self._buffer = following
        return name.strip()

    def _finish(self) -> None:
        self._give(self._arguments.end())
        self._events.append(CallEnd())
        self._named = False
        self._raw = [self._buffer]
        self._step = self._seek_function

    def _fail(self) -> None:
        self.rest = self._buffer if self._named else "".join(self._raw)

    def _give(self, fragment: str) -> None:
        if fragment:
            self._events.append(CallArguments(fragment))

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def _may_end(following: str) -> bool:
    """Whether a call whose values are closed is complete if the turn ends with this after them."""
    return END_FUNCTION.startswith(following.strip()) or following.strip() == CLOSE_CALL


def _beginning_at_end(text: str) -> int:
    """How much of the end of `text` may become the end of a value."""
    for length in range(min(len(text), _LONGEST_BEGINNING), 0, -1):
        if text[-length:] in _BEGINNINGS:
            return length
    return 0
