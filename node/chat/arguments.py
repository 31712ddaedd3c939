"""Arguments that a model wrote as plain text become JSON, by the schema of the tool."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from node.chat.shapes import TEXT, Shape, Shapes, kind_of

DEEPEST = 200  # values in each other; clients' own readers of JSON give up not far beyond
MOST_DIGITS = 1000  # of a number; Python's readers refuse 4,300
LONGEST_WORD = len("false")

_PYTHON = {"True": "true", "False": "false", "None": "null"}  # templates print values as Python does
_FIRST = {
    "object": "{",
    "array": "[",
    "integer": "-0123456789",
    "number": "-0123456789",
    "boolean": "tfTF",
    "null": "nN",
}
_ESCAPE = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


class Arguments:
    """The arguments of one call, as fragments of one JSON object.

    A parameter that comes twice counts once: what was written first has been sent.
    """

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._names: set[str] = set()
        self._value: _Value | None = None

    def open(self, name: str) -> None:
        """A value begins."""
        if name in self._names:
            return
        opening = f"{', ' if self._names else '{'}{quoted(name)}: "
        self._value = _Value(opening, self._shapes.of(name))
        self._names.add(name)

    def push(self, text: str) -> str:
        """More of the value."""
        return self._value.push(text) if text and self._value else ""

    def close(self) -> str:
        """The value ends."""
        value, self._value = self._value, None
        return value.end() if value else ""

    def end(self) -> str:
        """There are no more."""
        return "}" if self._names else "{}"


class _Value:
    """A value is given on as it comes as soon as it can be nothing but a string."""

    def __init__(self, opening: str, shape: Shape) -> None:
        self._opening = opening
        self._shape = shape
        self._pieces: list[str] = []
        self._undecided = True
        self._streams = False

    def push(self, text: str) -> str:
        if self._streams:
            return quoted(text)[1:-1]
        self._pieces.append(text)
        if not self._undecided:
            return ""
        start = "".join(self._pieces)
        if can_only_be_string(start, self._shape):
            self._streams = True
            return f"{self._opening}{quoted(start)[:-1]}"
        self._undecided = len(start) <= 2 * LONGEST_WORD
        return ""

    def end(self) -> str:
        return '"' if self._streams else self._opening + to_json("".join(self._pieces), self._shape)


def can_only_be_string(start: str, shape: Shape) -> bool:
    """Whether a value that begins so is a string, whatever follows."""
    if shape.kinds is not None and "string" not in shape.kinds:
        return False
    others = {"object", "array"} if shape.kinds is None else shape.kinds - {"string"}
    if not others:
        return True
    begun = start.strip()
    if not begun:
        return False
    if others <= {"boolean", "null"} and len(begun) > LONGEST_WORD:
        return True
    return not any(begun[0] in _FIRST[kind] for kind in others)


def to_json(value: str, shape: Shape) -> str:
    """The JSON that a value stands for. What is of none of the kinds that the schema allows is a string."""
    if shape.kinds == TEXT.kinds or value in shape.literals:
        return quoted(value)
    text = value.strip()
    kinds = {"object", "array"} if shape.kinds is None else shape.kinds
    if text in _PYTHON and kinds & {"boolean", "null"}:
        text = _PYTHON[text]
    kind = _kind_of_json(text)
    if kind == "number" and kind not in kinds and "integer" in kinds and re.fullmatch(r"-?\d+\.0+", text):
        return text.partition(".")[0]
    if kind in kinds and kind != "string":
        return _whole_escapes(text)
    if kind is None or shape.kinds is None or "string" in kinds:
        return quoted(value)
    return _whole_escapes(text)


def quoted(text: str) -> str:
    """A JSON string. It has escapes for control characters, quotes and backslashes alone."""
    return json.dumps(text, ensure_ascii=False)


def _kind_of_json(text: str) -> str | None:
    """What kind of JSON value `text` is, None for what is none that every client can read."""
    try:
        value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        return None
    return kind_of(value) if _is_shallow(value) else None


def can_be_read(number: str) -> bool:
    """Whether every client can read a number: no NaN, no infinity, nor what would be read as one."""
    whole = number.removeprefix("-").isdecimal()
    return len(number) <= MOST_DIGITS and (whole or math.isfinite(float(number)))


def _number(text: str) -> int | float:
    """Of the right kind; its value is not asked for, as numbers are copied as they are written."""
    if not can_be_read(text):
        raise ValueError(text)
    return 0 if text.removeprefix("-").isdecimal() else 0.5


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            member
            for holder in level
            if isinstance(holder, list | dict)
            for member in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return True
    return False


def _whole_escapes(text: str) -> str:
    """JSON with U+FFFD for each lone surrogate, which many readers of JSON refuse."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)
