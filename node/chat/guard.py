"""Keeps what clients wrote apart from what the template wrote, though both end up in one string.

Before rendering, a marker is put into every text of a client where it could be part of a control token's
text; after rendering, a control token's text that is whole was written by the template alone. The marker also
keeps a template's own tests on content ("does it start with <tool_response>?") from being fooled.

The marker goes after every character that begins a control token's text and before every one that ends it.
So no occurrence survives that begins or ends in a client's text, cut anywhere, trimmed or not. One that
begins and ends in the template's text, around a client's whole string, is left: `'<' ~ key ~ '>'`, which
Qwen3-Coder does write. Strings that are the core of a control token's text therefore get a marker inside.

What a caller joins before it hands strings over is one string here, and guarded as such.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from node.chat.conversation import Call, Conversation, ToolSpec, Turn


def _random_marker() -> str:
    """Noncharacters, which no text should hold, framed and drawn by chance so that no stranger can know them.

    One who guessed it would win nothing but to have it dropped from their own text: a marker only ever
    breaks a control token, and is removed when those have been found.
    """
    return "\ufdd0" + "".join(chr(0xFDD1 + secrets.randbelow(30)) for _ in range(4)) + "\ufdef"


MARKER = _random_marker()
_ESCAPED = repr(MARKER)[1:-1]  # as templates write it that print a list, or JSON in ASCII


class Guard:
    """Marks texts of clients, and finds the control tokens that a template wrote around them."""

    def __init__(self, control: Iterable[str]) -> None:
        texts = sorted(control, key=len, reverse=True)  # the longest wins where two begin at one place
        self._starts = {text[0] for text in texts}
        self._ends = {text[-1] for text in texts}
        self._cores = {core for text in texts for core in _cores(text)}
        self._control = re.compile("(" + "|".join(map(re.escape, texts)) + ")" if texts else "((?!))")

    def conversation(self, conversation: Conversation) -> Conversation:
        """The conversation with every string of the client marked, keys of its objects included."""
        return replace(
            conversation,
            turns=tuple(self._turn(turn) for turn in conversation.turns),
            tools=tuple(self._tool(tool) for tool in conversation.tools),
            prefill=self.text(conversation.prefill),
        )

    def text(self, text: str) -> str:
        """One string of a client, marked."""
        core = text.strip()
        if core in self._cores:
            before, after = text.split(core[0], 1)
            text = before + core[0] + MARKER + after
        for character in self._starts:
            text = text.replace(character, character + MARKER)
        for character in self._ends:
            text = text.replace(character, MARKER + character)
        return text

    def json(self, value: Any) -> Any:
        """A JSON value of a client with all its strings marked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.json(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(member) for member in value]
        return value

    def split(self, rendered: str) -> list[str]:
        """The rendered text cut up: text, control token, text, control token, …, text; markers removed."""
        return [clear(part) for part in self._control.split(rendered)]

    def _turn(self, turn: Turn) -> Turn:
        return replace(
            turn,
            text=self.text(turn.text),
            reasoning=None if turn.reasoning is None else self.text(turn.reasoning),
            calls=tuple(self._call(call) for call in turn.calls),
            call_id=None if turn.call_id is None else self.text(turn.call_id),
        )

    def _call(self, call: Call) -> Call:
        return Call(self.text(call.id), self.text(call.name), self.json(call.arguments))

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        return ToolSpec(self.text(tool.name), self.text(tool.description), self.json(tool.schema))


def clear(text: str) -> str:
    """The text without markers."""
    return text.replace(MARKER, "").replace(_ESCAPED, "")


def _cores(text: str) -> Iterable[str]:
    """Inner parts of a control token's text that leave nothing but punctuation outside: think, /think."""
    word = re.search(r"\w(?:.*\w)?", text, re.DOTALL)
    start, end = word.span() if word else (1, len(text) - 1)
    for first in range(1, start + 1):
        for last in range(end, len(text)):
            yield text[first:last]
