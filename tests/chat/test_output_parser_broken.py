"""Calls in both forms that break off or are malformed: nothing that the model wrote is lost, nothing made up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.conversation import ToolSpec
from node.chat.events import Event
from node.chat.tool_call_format import ToolCallFormat
from tests.chat.answers import JSON, XML, answer, events_of, js, parser_of, parts, xml

NOW_CALL = ("call", "now", "{}")
BEND = ("call", "get_weather", '{"city": "Bend"}')
bend = xml("get_weather", city="Bend")
VALUE = "<tool_call>\n<function=write_file>\n<parameter=content>\n"


def one_at_a_time(chat: Chat, text: str, form: ToolCallFormat = XML) -> list[Event]:
    ids = chat.written(text)
    return events_of(parser_of(chat, form), ids, range(len(ids)))


NO_CALLS = {
    "<tool_call>\n<function=now>\nhello ": XML,
    "<tool_call>\n<function=now>\n<parameter\n": XML,
    "<tool_call>\n<function=now>\n<parameter=a\nb>": XML,
    '<tool_call>\n{"name": "now", hello ': JSON,
    '<tool_call>\n{"name": "now", "arguments": 5': JSON,
}


@pytest.mark.parametrize("broken", NO_CALLS, ids=repr)
def test_only_the_good_call_starts_where_one_before_it_broke_off(tiny: Chat, broken: str) -> None:
    form = NO_CALLS[broken]
    call = bend if form is XML else js("get_weather", city="Bend")
    assert answer(tiny, broken + call, form) == [("text", broken.rstrip()), BEND]
    assert parts(one_at_a_time(tiny, broken + call, form)) == [("text", broken.rstrip()), BEND]


XML_BROKEN: dict[str, list[Any]] = {
    "<tool_call>\n<function=get_weath": [("text", "<tool_call>\n<function=get_weath")],
    "<tool_call>\n<func": [("text", "<tool_call>\n<func")],
    "a <tool_call>\n<function=>": [("text", "a <tool_call>\n<function=>")],
    "<tool_call>\n<function=a\nb>": [("text", "<tool_call>\n<function=a\nb>")],
    "<tool_call>\n<function=a<b>": [("text", "<tool_call>\n<function=a<b>")],
    "<tool_call><tool_call>": [("text", "<tool_call>")],
    f"<tool_call>{bend}": [("text", "<tool_call>"), BEND],
    f"<tool_call>\n<function=now</tool_call>{bend}": [
        ("text", "<tool_call>\n<function=now</tool_call>"),
        BEND,
    ],
    "<tool_call>\n<function=now>\n<parameter": [("text", "<tool_call>\n<function=now>\n<parameter")],
    "<tool_call>\n<function=now>\n<parameter=a": [("text", "<tool_call>\n<function=now>\n<parameter=a")],
    "<tool_call>\n<function=now>\n<parameter=a</tool_call> b": [
        ("text", "<tool_call>\n<function=now>\n<parameter=a</tool_call> b")
    ],
    "<tool_call>\n<function=now>\nsoon\n</function>": [
        ("text", "<tool_call>\n<function=now>\nsoon\n</function>")
    ],
    "<tool_call>\n<function=now>\n<parameter=a\n>x": [
        ("text", "<tool_call>\n<function=now>\n<parameter=a\n>x")
    ],
    f"<tool_call>\n<function=now>\n</tool_call>{bend}": [NOW_CALL, BEND],
    f"<tool_call>\n<function=now>\n{bend}": [NOW_CALL, BEND],
    "<tool_call>\n<function=now>\n</function>\nsoon</tool_call>": [NOW_CALL, ("text", "soon</tool_call>")],
    "<tool_call>\n<function=now>\n</function>\n<function=": [NOW_CALL, ("text", "<function=")],
    "<tool_call>\n<function=now>\n</function>\n<function=a": [NOW_CALL, ("text", "<function=a")],
}


@pytest.mark.parametrize("written", XML_BROKEN, ids=repr)
def test_xml_call_that_is_broken_is_text(tiny: Chat, written: str) -> None:
    assert answer(tiny, written) == XML_BROKEN[written]
    assert parts(one_at_a_time(tiny, written)) == XML_BROKEN[written]


XML_BROKEN_OFF: dict[str, tuple[str, ...]] = {
    f"{VALUE}Roses": ("write_file", '{"content": "Roses'),
    f"{VALUE}Roses</function>\n</tool_call>": (
        "write_file",
        '{"content": "Roses</function>\\n</tool_call>',
    ),
    f"{VALUE}Roses\n</parameter>\n<para": ("write_file", '{"content": "Roses'),
    f"{VALUE}Roses\n</parameter>\n<parameter=path</tool_call>": ("write_file", '{"content": "Roses"'),
    f"{VALUE}Roses\n</parameter>\n<parameter=path\n>": ("write_file", '{"content": "Roses"'),
    "<tool_call>\n<function=now>\n<parameter=a>": ("now", ""),
    "<tool_call>\n<function=now>\n<parameter=a>\n": ("now", ""),
    "<tool_call>\n<function=now>\n<parameter=a>\n[1, 2": ("now", ""),
}


@pytest.mark.parametrize("written", XML_BROKEN_OFF, ids=repr)
def test_xml_call_that_breaks_off_in_its_arguments_comes_again_as_text(tiny: Chat, written: str) -> None:
    expected = [("text", "Sure."), ("open call", *XML_BROKEN_OFF[written]), ("text", written)]
    assert answer(tiny, f"Sure.\n\n{written}") == expected
    assert parts(one_at_a_time(tiny, f"Sure.\n\n{written}")) == expected
    assert answer(tiny, bend + written) == [BEND, *expected[1:]]


START = '<tool_call>\n{"name": "now", '
JSON_BROKEN: dict[str, list[Any]] = {
    '<tool_call>\n{"na': [("text", '<tool_call>\n{"na')],
    '<tool_call>\n{"name": "": ': [("text", '<tool_call>\n{"name": "": ')],
    '<tool_call>\n{"name": "", "arguments": {}}': [("text", '<tool_call>\n{"name": "", "arguments": {}}')],
    '<tool_call>\n{"name": 5}': [("text", '<tool_call>\n{"name": 5}')],
    "<tool_call>\n{'name': 'now'}": [("text", "<tool_call>\n{'name': 'now'}")],
    '<tool_call>\n{"arguments": {}': [("text", '<tool_call>\n{"arguments": {}')],
    '<tool_call>\n{"arguments": {}}x': [("text", '<tool_call>\n{"arguments": {}}x')],
    f'{START}"argu': [("text", f'{START}"argu')],
    f'{START}"arguments": 5}}': [("text", f'{START}"arguments": 5}}')],
    f'{START}"arguments": [1]}}': [("text", f'{START}"arguments": [1]}}')],
    f'{START}"arguments": nul}}': [("text", f'{START}"arguments": nul}}')],
    f'{START}"arguments": "5"}}': [("text", f'{START}"arguments": "5"}}')],
    f'{START}"arguments": {{}}}} soon': [NOW_CALL, ("text", "soon")],
}


@pytest.mark.parametrize("written", JSON_BROKEN, ids=repr)
def test_json_call_that_is_broken_is_text(tiny: Chat, written: str) -> None:
    assert answer(tiny, written, JSON) == JSON_BROKEN[written]
    assert parts(one_at_a_time(tiny, written, JSON)) == JSON_BROKEN[written]


JSON_BROKEN_OFF = {
    f'{START}"arguments": {{"a": "b': '{"a": "b',
    f'{START}"arguments": {{"a": [1, 2': '{"a": [1, ',
    f'{START}"arguments": {{"a": tru}}}}\n</tool_call>': '{"a": ',
    f'{START}"arguments": {{"a": NaN}}}}': '{"a": ',
    f'{START}"arguments": {{"a": 1e999}}}}': '{"a": ',
    f'{START}"arguments": {{"a": "\\d"}}}}': '{"a": "',
    f'{START}"arguments": "{{\\"a\\": 1"}}': '{"a": ',
}


@pytest.mark.parametrize("written", JSON_BROKEN_OFF, ids=repr)
def test_json_call_that_breaks_off_in_its_arguments_comes_again_as_text(tiny: Chat, written: str) -> None:
    expected = [("open call", "now", JSON_BROKEN_OFF[written]), ("text", written)]
    assert answer(tiny, written, JSON) == expected
    assert parts(one_at_a_time(tiny, written, JSON)) == expected


def test_cut_in_a_call_gives_nothing_twice(tiny: Chat) -> None:
    assert answer(tiny, f"{VALUE}Roses", cut=True) == [("open call", "write_file", '{"content": "Roses')]
    assert answer(tiny, "Sure.\n<tool_call>\n<function=now>\n", cut=True) == [("text", "Sure.")]
    assert answer(tiny, f'{START}"arguments": {{"a": "b', JSON, cut=True) == [
        ("open call", "now", '{"a": "b')
    ]


@pytest.mark.parametrize("form", [XML, JSON])
def test_name_without_end_is_no_name(tiny: Chat, form: Any) -> None:
    opening = "<tool_call>\n<function=" if form is XML else '<tool_call>\n{"name": "'
    made = parser_of(tiny, form)
    assert parts(made.push(tiny.written(opening + "a" * 1100))) == [("text", opening + "a" * 1100)]
    if form is XML:
        text = "<tool_call>\n<function=f>\n<parameter="
        assert answer(tiny, text + "a" * 1100) == [("text", text + "a" * 1100)]


def test_nesting_without_end_is_no_json(tiny: Chat) -> None:
    deep = f'{START}"arguments": {{"a": ' + "[" * 500
    made = parser_of(tiny, JSON)
    assert [part[0] for part in parts(events_of(made, tiny.written(deep)))] == ["open call", "text"]
    tools = [ToolSpec("f", "", {"properties": {"a": {"type": "array"}}})]
    value = "[" * 5000 + "]" * 5000
    assert answer(tiny, xml("f", a=value), tools=tools) == [("call", "f", json.dumps({"a": value}))]


XML_PIECES = ["<tool_call>", "</tool_call>", "<function=now>", "<parameter=a>", "</parameter>", "</function>"]
XML_PIECES += ["\n", "</parameter>\n", "\n</parameter>\n</function>", "<function=", "<param"]
JSON_PIECES = [
    "<tool_call>",
    "</tool_call>",
    '{"name": "now"',
    ', "arguments": {"a": "',
    ', "arguments": "{}',
    '"',
]
JSON_PIECES += ["}", "{", "}}", ", ", "null", "\\", "[", "\n"]


@pytest.mark.parametrize("form", [XML, JSON])
@settings(deadline=None, max_examples=250)
@given(data=st.data())
def test_no_word_is_lost_where_a_turn_ends(tiny: Chat, form: ToolCallFormat, data: st.DataObject) -> None:
    written, words = "<tool_call>", 0
    pieces = data.draw(st.lists(st.sampled_from(XML_PIECES if form is XML else JSON_PIECES), max_size=20))
    for number, piece in enumerate(pieces):
        written += piece.replace("=a>", f"={number}>")  # a parameter that comes twice counts once
        assume(written.count('"arguments"') < 2)  # and so do arguments
        if data.draw(st.booleans()):
            written, words = f"{written}w{words}.", words + 1
    kept = [part for part in answer(tiny, written, form) if part[0] != "open call"]
    assert [n for n in range(words) if not any(f"w{n}." in field for part in kept for field in part)] == []
