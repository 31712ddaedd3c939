"""Runs an output parser over text as a model would have written it, and folds what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from node.chat.chat import Chat
from node.chat.conversation import ToolSpec
from node.chat.events import CallArguments, CallEnd, CallStart, Event, TextDelta, ThinkingDelta
from node.chat.output_parser import OutputParser
from node.chat.tool_call_format import ToolCallFormat

WEATHER = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
NOW = ToolSpec("now", "", {"type": "object", "properties": {}})
WRITE = ToolSpec(
    "write_file",
    "",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
TOOLS = (WEATHER, NOW, WRITE)
XML, JSON = ToolCallFormat.XML, ToolCallFormat.JSON


def xml(name: str, **arguments: str) -> str:
    """A call in the XML form, its values as they are."""
    values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def js(name: str, **arguments: Any) -> str:
    """A call in the JSON form."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def parser_of(chat: Chat, form: ToolCallFormat | None = XML, **options: Any) -> OutputParser:
    return OutputParser(chat.tokenizer, call_format=form, tools=options.pop("tools", TOOLS), **options)


def events_of(
    made: OutputParser, ids: Sequence[int], cuts: Iterable[int] = (), *, cut: bool = False
) -> list[Event]:
    """All events of an answer that comes in pieces, cut up at `cuts`."""
    edges = [0, *sorted(index for index in cuts if index <= len(ids)), len(ids)]
    events = [event for start, end in pairwise(edges) for event in made.push(ids[start:end])]
    return events + made.end(cut=cut)


def parts(events: list[Event]) -> list[tuple[str, ...]]:
    """The fold: ("thinking", text), ("text", text), ("call", name, json), or "open call" without its end.

    Checks on the way what holds of every stream.
    """
    found: list[list[str]] = []
    calling = False
    for event in events:
        match event:
            case ThinkingDelta(text) | TextDelta(text):
                kind = "thinking" if isinstance(event, ThinkingDelta) else "text"
                assert text
                if not found or found[-1][0] != kind:
                    found.append([kind, ""])
                found[-1][1] += text
                calling = False
            case CallStart(name):
                found.append(["open call", name, ""])
                calling = True
            case CallArguments(fragment):
                assert fragment and calling
                found[-1][2] += fragment
            case CallEnd():
                assert calling
                found[-1][0] = "call"
                assert isinstance(json.loads(found[-1][2]), dict)
                msgspec.json.decode(
                    found[-1][2]
                )  # which is stricter, and what an answer that is not streamed needs
                calling = False
    return [tuple(part) for part in found]


def answer(
    chat: Chat, text: str, form: ToolCallFormat | None = XML, *, cut: bool = False, **options: Any
) -> list[Any]:
    """The parts of an answer; control tokens in `text` are real."""
    return parts(events_of(parser_of(chat, form, **options), chat.written(text), cut=cut))
