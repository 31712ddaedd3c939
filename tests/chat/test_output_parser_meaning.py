"""Random answers, written down as the template would: the events are what was meant, however they come."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.conversation import ToolSpec
from node.chat.tool_call_format import ToolCallFormat
from tests.chat.answers import JSON, XML, events_of, parser_of, parts

TAGS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<function=f>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "\n</parameter>\n",
    '"',
    "\\",
    "\n",
    " ",
    "\x00",
    "\x1f",
    "\u2028",
    "😀",
    "👨‍👩‍👧",
    "{",
    "}",
    "null",
    "None",
]


def composed(text: str) -> str:
    """As the tokenizer has it."""
    return unicodedata.normalize("NFC", text)


strings = st.lists(st.sampled_from(TAGS) | st.text(max_size=4), max_size=6).map("".join).map(composed)
texts = strings.map(str.strip).filter(bool)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(strings, jsons, max_size=3)


def is_structure(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list | dict)
    except ValueError:
        return False


prose = strings.filter(lambda text: not is_structure(text) and text.strip() not in ("null", "None"))

# What a schema says, and values that are meant as they are by it.
TYPED: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, strings),
    ({"type": "integer"}, st.integers()),
    ({"type": "number"}, st.integers() | numbers),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"type": "array"}, st.lists(jsons, max_size=3)),
    ({"$ref": "#/$defs/Thing"}, objects),
    ({"type": ["string", "null"]}, prose | st.none()),
    ({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Thing"}]}, st.integers() | objects),
    ({}, prose | objects | st.lists(jsons, max_size=2)),
]


@dataclass(frozen=True)
class Meant:
    """A call."""

    name: str
    arguments: dict[str, Any]
    schema: dict[str, Any]

    @property
    def part(self) -> tuple[str, str, str]:
        return ("call", self.name, json.dumps(self.arguments, ensure_ascii=False))

    def written(self, form: ToolCallFormat, style: dict[str, Any]) -> str:
        if form is JSON:
            return f"\n{json.dumps({'name': self.name, 'arguments': self.arguments}, **style)}\n"
        values = [
            f"<parameter={key}>\n{as_text(value)}\n</parameter>\n" for key, value in self.arguments.items()
        ]
        return f"\n<function={self.name}>\n{''.join(values)}</function>\n"


def as_text(value: Any) -> str:
    """As Qwen3.5's template writes a value."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


@st.composite
def calls(draw: st.DrawFn) -> Meant:
    keys = draw(st.lists(names, max_size=4, unique=True))
    kinds = {key: draw(st.sampled_from(TYPED)) for key in keys}
    arguments = {key: draw(values) for key, (_, values) in kinds.items()}
    for value in arguments.values():
        text = as_text(value)
        assume("</parameter>\n<parameter=" not in text and "</parameter>\n</function>" not in text)
    schema = {
        "$defs": {"Thing": {"type": "object"}},
        "properties": {key: said for key, (said, _) in kinds.items()},
    }
    return Meant(draw(names), arguments, schema)


@dataclass(frozen=True)
class Answer:
    parts: list[tuple[str, ...]]
    ids: list[int]
    tools: list[ToolSpec]


@st.composite
def answers(draw: st.DrawFn, chat: Chat, form: ToolCallFormat) -> Answer:
    """ThinkingDelta, text and calls in order, as ids: in few tokens or in one for each character."""
    control = chat.tokenizer.control
    style = {"ensure_ascii": draw(st.booleans()), "indent": draw(st.sampled_from([None, 1]))}
    small = draw(st.booleans())
    meant: list[tuple[str, ...]] = []
    ids: list[int] = []
    tools: dict[str, ToolSpec] = {}

    def write(text: str, *, real: bool = False) -> None:
        pieces = text if small and not real else [text]
        for piece in pieces:
            ids.extend(chat.written(piece) if real else chat.tokenizer.encode(piece))

    if draw(st.booleans()):
        meant.append(("thinking", draw(texts)))
        write("<think>\n", real=True)
        write(meant[-1][1])
        write("\n</think>\n\n", real=True)
    for is_call in draw(st.lists(st.booleans(), max_size=4)):
        if is_call:
            call = draw(calls().filter(lambda call: call.name not in tools))
            tools[call.name] = ToolSpec(call.name, "", call.schema)
            write(draw(st.sampled_from(["", "\n", "\n\n"])))
            ids.append(control["<tool_call>"])
            write(call.written(form, style), real=draw(st.booleans()))
            ids.append(control["</tool_call>"])
            meant.append(call.part)
        elif not meant or meant[-1][0] != "text":
            if meant and meant[-1][0] == "call":
                write(draw(st.sampled_from(["", "\n", " \n\n"])))
            meant.append(("text", draw(texts)))
            write(meant[-1][1])
    return Answer(meant, ids, list(tools.values()))


@pytest.mark.parametrize("form", [XML, JSON])
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_events_are_what_was_meant(tiny: Chat, form: Any, data: st.DataObject) -> None:
    answer = data.draw(answers(tiny, form))
    cuts = data.draw(st.lists(st.integers(0, len(answer.ids)), max_size=8) | st.just(range(len(answer.ids))))
    made = parser_of(tiny, form, tools=answer.tools)
    assert parts(events_of(made, answer.ids, cuts)) == answer.parts
    assert (made.consumed, made.calls) == (len(answer.ids), sum(part[0] == "call" for part in answer.parts))


@pytest.mark.parametrize("form", [XML, JSON])
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_cut_answer_is_a_beginning_of_what_was_meant(
    tiny: Chat, form: ToolCallFormat, data: st.DataObject
) -> None:
    answer = data.draw(answers(tiny, form))
    end = data.draw(st.integers(0, len(answer.ids)))
    found = parts(events_of(parser_of(tiny, form, tools=answer.tools), answer.ids[:end], cut=True))
    assert len(found) <= len(answer.parts)
    assert found[:-1] == answer.parts[: max(len(found) - 1, 0)]
    if found:
        *begun, last = found[-1]
        *meant, whole = answer.parts[len(found) - 1]
        assert begun == meant or begun == [f"open {meant[0]}", *meant[1:]]
        # White space that would have been a boundary's is the model's at a cut, and a character may be cut too.
        assert begun[0] == "call" or whole.startswith(last.rstrip("\ufffd")) or whole == last.rstrip()


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_call_is_real_in_thinking_only_where_the_turn_ends_after_it(tiny: Chat, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([XML, JSON]))
    meant = data.draw(calls())
    call = f"<tool_call>{meant.written(form, {})}</tool_call>"
    assume("</think>" not in call and "<tool_call>" not in call[len("<tool_call>") :])
    draft, real = tiny.written(call), tiny.written(f"\n\n{call}\n")
    tools = [ToolSpec(meant.name, "", meant.schema)]
    close = tiny.written("\n</think>\n\n")
    cuts = data.draw(st.lists(st.integers(0, len(draft)), max_size=4))

    def found(ids: list[int], *, cut: bool = False) -> list[tuple[str, ...]]:
        made = parser_of(tiny, form, tools=tools, thinking_open=True)
        return parts(events_of(made, [*tiny.written("so:"), *ids], cuts, cut=cut))

    text = f"so:{composed(call)}"
    assert found(draft) == [("thinking", "so:"), meant.part]
    assert found(draft, cut=True) == [("thinking", text)]
    assert found([*draft, *close]) == [("thinking", text)]
    assert found([*draft, *close, *real]) == [("thinking", text), meant.part]
    assert found([*draft, *tiny.written(" or"), *real]) == [("thinking", f"{text} or"), meant.part]
    assert found(draft[: data.draw(st.integers(1, len(draft) - 1))], cut=True)[0][0] == "thinking"
