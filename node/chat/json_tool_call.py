"""Calls as Qwen2.5 and Qwen3 write them: {"name": …, "arguments": {…}}."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from node.chat.events import CallArguments, CallEnd, CallStart, Event
from node.chat.json_reader import WHITE, JsonError, StringReader, ValueReader
from node.chat.tool_call_parser import LONGEST_NAME, OPEN_CALL

ARGUMENTS = ("arguments", "parameters")  # the second is what models know from elsewhere


class JsonToolCallParser:
    """Implements ToolCallParser. Arguments may be an object or a string that holds one, and may precede the name."""

    def __init__(self) -> None:
        self.rest: str | None = None
        self._complete = False  # one call is
        self._events: list[Event] = []
        self._begin(OPEN_CALL)

    def _begin(self, raw: str) -> None:
        """Ready for a call."""
        self._raw = [raw]  # what came since the last complete call
        self._step: Callable[[str, int], int] = self._seek_object
        self._string = StringReader()
        self._value = ValueReader()
        self._key = ""
        self._label = ""  # as much of the name as has come
        self._name: str | None = None
        self._given = False  # the CallStart
        self._waiting: list[str] = []  # arguments that are not yet given
        self._argued = False  # arguments have begun
        self._whole = False

    @property
    def inside(self) -> bool:
        strings = (self._read_key, self._read_name, self._read_quoted)
        return self._step in strings or self._value.in_string

    def push(self, text: str) -> list[Event]:
        self._raw.append(text)
        position = 0
        try:
            while position < len(text):
                position = self._step(text, position)
        except JsonError:
            self._fail()
        return self._taken()

    def close(self) -> list[Event]:
        if self._name is not None and self._whole:
            self._finish("")
        elif self._step != self._seek_object or not self._complete:
            self._fail()
        return self._taken()

    # Each step reads from a position in the text on, and says up to which.

    def _seek_object(self, text: str, position: int) -> int:
        return self._sign(text, position, {"{": self._seek_key})

    def _seek_key(self, text: str, position: int) -> int:
        if text[position] == "}":
            return self._end_object(text, position)
        self._string, self._key = StringReader(), ""
        return self._sign(text, position, {'"': self._read_key})

    def _read_key(self, text: str, position: int) -> int:
        characters, position = self._string.push(text, position)
        self._key += characters
        _demand_name(self._key)
        if self._string.closed:
            self._step = self._seek_colon
        return position

    def _seek_colon(self, text: str, position: int) -> int:
        return self._sign(text, position, {":": self._seek_value})

    def _seek_value(self, text: str, position: int) -> int:
        self._string, self._value = StringReader(), ValueReader()
        if self._key == "name" and self._name is None:
            return self._sign(text, position, {'"': self._read_name})
        if self._key not in ARGUMENTS or self._argued:
            self._step = self._skip_value
            return position
        steps = {'"': self._read_quoted, "{": self._read_arguments, "n": self._skip_value}
        after = self._sign(text, position, steps)
        self._argued = self._step in (self._read_quoted, self._read_arguments)
        return after if self._step in (self._read_quoted, self._seek_value) else position

    def _read_name(self, text: str, position: int) -> int:
        characters, position = self._string.push(text, position)
        self._label += characters
        _demand_name(self._label)
        if self._string.closed:
            if not self._label.strip():
                raise JsonError
            self._name = self._label
            self._give("")
            self._step = self._seek_comma
        return position

    def _read_arguments(self, text: str, position: int) -> int:
        fragment, position = self._value.push(text, position)
        self._give(fragment)
        if self._value.closed:
            self._end_arguments()
        return position

    def _read_quoted(self, text: str, position: int) -> int:
        characters, position = self._string.push(text, position)
        if not self._value.begun and characters.strip(WHITE)[:1] not in ("", "{"):
            raise JsonError
        fragment, read = self._value.push(characters, 0)
        if characters[read:].strip(WHITE):
            raise JsonError
        self._give(fragment)
        if self._string.closed:
            if not self._value.begun:
                self._give("{}")
            elif not self._value.closed:
                raise JsonError
            self._end_arguments()
        return position

    def _skip_value(self, text: str, position: int) -> int:
        _, position = self._value.push(text, position)
        if self._value.closed:
            self._step = self._seek_comma
        return position

    def _seek_comma(self, text: str, position: int) -> int:
        if text[position] == "}":
            return self._end_object(text, position)
        return self._sign(text, position, {",": self._seek_key})

    def _end_object(self, text: str, position: int) -> int:
        if self._name is None:
            raise JsonError
        self._finish(text[position + 1 :])
        return position + 1

    def _sign(self, text: str, position: int, steps: Mapping[str, Callable[[str, int], int]]) -> int:
        """One of the signs, perhaps after white space, and the step that follows it."""
        sign = text[position]
        if sign in steps:
            self._step = steps[sign]
        elif sign not in WHITE:
            raise JsonError
        return position + 1

    def _give(self, fragment: str) -> None:
        if fragment:
            self._waiting.append(fragment)
        if self._name is None or not self._waiting:
            return
        if not self._given:
            self._events.append(CallStart(self._name))
            self._given = True
        # A lone { waits for what follows it, so that a call without arguments gives {} in one piece.
        if self._waiting != ["{"]:
            self._events.append(CallArguments("".join(self._waiting)))
            self._waiting = []

    def _end_arguments(self) -> None:
        self._whole = True
        self._step = self._seek_comma

    def _finish(self, following: str) -> None:
        """The call is complete; `following` is what came after it."""
        if not self._argued:
            self._give("{}")
        self._events.append(CallEnd())
        self._complete = True
        self._begin(following)

    def _fail(self) -> None:
        self.rest = "".join(self._raw)

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def _demand_name(text: str) -> None:
    """What is longer is no name, and would have to be copied with each character that comes."""
    if len(text) > LONGEST_NAME:
        raise JsonError
