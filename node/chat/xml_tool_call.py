"""Calls as Qwen3-Coder, Qwen3.5 and later write them.

    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>

A value is not quoted, and may hold any of these tags. It ends only where the line after its own closing tag
begins with a tag of the call; where it began without a line break, as all do in a call written in one line,
that tag may follow without one too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from node.chat.arguments import Arguments
from node.chat.conversation import ToolSpec
from node.chat.events import CallArguments, CallEnd, CallStart, Event
from node.chat.shapes import Shapes
from node.chat.tool_call_parser import CLOSE_CALL, LONGEST_NAME, OPEN_CALL

FUNCTION = "<function="
END_FUNCTION = "</function>"
PARAMETER = "<parameter="
END_PARAMETER = "</parameter>"

_END_OF_VALUE = re.compile(rf"\n?{END_PARAMETER}\n({PARAMETER}|{END_FUNCTION})")
_END_IN_LINE = re.compile(rf"\n?{END_PARAMETER}\n?({PARAMETER}|{END_FUNCTION})")
# What may yet be the end of a value. At the end of the turn a model that forgot </function>, or the line break
# before it, is forgiven, so what may come then is held back until it is known that it was part of the value.
_ENDS = [
    f"{newline}{END_PARAMETER}{tags}"
    for newline in ("", "\n")
    for tags in (
        f"\n{PARAMETER}",
        f"\n{END_FUNCTION}",
        f"\n{CLOSE_CALL}\n\n",
        PARAMETER,
        f"{END_FUNCTION}{CLOSE_CALL}\n\n",
        f"{END_FUNCTION}\n{CLOSE_CALL}\n\n",
    )
]
_BEGINNINGS = {end[:length] for end in _ENDS for length in range(1, len(end))}
_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))


class XmlToolCallParser:
    """Implements ToolCallParser. Its buffer holds what is not yet understood, and stays short."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self.rest: str | None = None
        self._tools = tools
        self._raw = [OPEN_CALL]  # what came since the last complete call
        self._complete = False  # one call is
        self._name = ""
        self._given = False  # the CallStart
        self._buffer = ""
        self._end_of_value = _END_OF_VALUE
        self._step: Callable[[], bool] = self._seek_function
        self._arguments = Arguments(Shapes({}))
        self._events: list[Event] = []

    @property
    def inside(self) -> bool:
        return self._step in (self._begin_value, self._read_value)

    def push(self, text: str) -> list[Event]:
        self._raw.append(text)
        self._buffer += text
        while self.rest is None and self._step():
            pass
        return self._taken()

    def close(self) -> list[Event]:
        if self._step == self._seek_function and not self._buffer and self._complete:
            return []
        _, closed, following = self._buffer.partition(END_PARAMETER)
        if self._step == self._seek_parameter and _may_end(self._buffer):
            self._finish()
        elif self._step == self._read_value and closed and _may_end(following):
            self._give(self._arguments.close())
            self._finish()
        else:
            self._fail()
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
        self._name = name
        self._arguments = Arguments(Shapes(self._tools[name].schema if name in self._tools else {}))
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
        self._start()
        self._arguments.open(key)
        self._step = self._begin_value
        return True

    def _begin_value(self) -> bool:
        if not self._buffer:
            return False
        self._end_of_value = _END_OF_VALUE if self._buffer.startswith("\n") else _END_IN_LINE
        self._buffer = self._buffer.removeprefix("\n")
        self._step = self._read_value
        return True

    def _read_value(self) -> bool:
        end = self._end_of_value.search(self._buffer)
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

    def _start(self) -> None:
        if not self._given:
            self._events.append(CallStart(self._name))
            self._given = True

    def _finish(self) -> None:
        self._start()
        self._give(self._arguments.end())
        self._events.append(CallEnd())
        self._complete = True
        self._given = False
        self._raw = [self._buffer]
        self._step = self._seek_function

    def _fail(self) -> None:
        self.rest = "".join(self._raw)

    def _give(self, fragment: str) -> None:
        if fragment:
            self._events.append(CallArguments(fragment))

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def _may_end(following: str) -> bool:
    """Whether a call whose values are closed is complete if the turn ends with this after them."""
    left = following.strip()
    return END_FUNCTION.startswith(left) or left.removeprefix(END_FUNCTION).lstrip() == CLOSE_CALL


def _beginning_at_end(text: str) -> int:
    """How much of the end of `text` may become the end of a value."""
    for length in range(min(len(text), _LONGEST_BEGINNING), 0, -1):
        if text[-length:] in _BEGINNINGS:
            return length
    return 0
