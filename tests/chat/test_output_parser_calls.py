"""Calls in both forms, complete or complete in meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.chat.chat import Chat
from node.chat.conversation import ToolSpec
from node.chat.events import CallArguments, CallEnd, CallStart, Event
from node.chat.xml_tool_call import XmlToolCallParser
from tests.chat.answers import JSON, NOW, TOOLS, XML, answer, events_of, js, parser_of, parts, xml

NOW_CALL = ("call", "now", "{}")
BEND = ("call", "get_weather", '{"city": "Bend"}')
RENO = ("call", "get_weather", '{"city": "Reno"}')
bend, reno = xml("get_weather", city="Bend"), xml("get_weather", city="Reno")
VALUE = "<tool_call>\n<function=write_file>\n<parameter=content>\n"
JSON_VALUE = '<tool_call>\n{"name": "write_file", "arguments": {"content": "'


def one_at_a_time(chat: Chat, text: str, form: Any = XML, **options: Any) -> list[Event]:
    made = parser_of(chat, form, **options)
    return [event for number in chat.written(text) for event in made.push([number])] + made.end(cut=False)


def fragments(events: list[Event]) -> list[str]:
    return [event.json for event in events if isinstance(event, CallArguments)]


@pytest.mark.parametrize("form", [XML, JSON])
def test_B22_malformed_output_is_given_back_as_text(tiny: Chat, form: Any) -> None:
    for inside in (
        "",
        "\n",
        "Bash(ls)",
        "\n<function>now</function>\n",
        '\n{"tool": "now"}\n',
        "\n{}\n",
        "\n[]\n",
    ):
        text = f"a\n<tool_call>{inside}</tool_call> b"
        assert answer(tiny, text, form) == [("text", text)]


@pytest.mark.parametrize("form", [XML, JSON])
@pytest.mark.parametrize("tail", ["", "\n", " \n\n"])
def test_B43_tag_then_end_of_turn_calls_nothing(tiny: Chat, form: Any, tail: str) -> None:
    for cut in (True, False):
        made = parser_of(tiny, form)
        events = events_of(made, tiny.written(f"Sure.\n\n<tool_call>{tail}"), cut=cut)
        assert (parts(events), made.calls) == ([("text", "Sure.")], 0)


@pytest.mark.parametrize("form", [XML, JSON])
def test_B45_call_that_is_cut_has_no_end_and_nothing_invented(tiny: Chat, form: Any) -> None:
    text = VALUE if form is XML else JSON_VALUE
    made = parser_of(tiny, form)
    events = events_of(made, tiny.written(f"Sure.\n\n{text}Roses are"), cut=True)
    assert parts(events) == [("text", "Sure."), ("open call", "write_file", '{"content": "Roses are')]
    assert made.calls == 0


def test_B46_no_fragment_of_the_arguments_is_lost(tiny: Chat) -> None:
    call = xml("Bash", code="uptime")
    assert "".join(fragments(one_at_a_time(tiny, call))) == '{"code": "uptime"}'
    assert "".join(fragments(one_at_a_time(tiny, js("Bash", code="uptime"), JSON))) == '{"code": "uptime"}'


@pytest.mark.parametrize("form", [XML, JSON])
def test_B75_call_alone_has_no_text_beside_it(tiny: Chat, form: Any) -> None:
    call = xml("now") if form is XML else js("now")
    assert answer(tiny, f"\n{call}\n", form) == [NOW_CALL]


@pytest.mark.parametrize(("text", "calls"), [("Hi.", 0), (bend, 1), (f"Hi.\n\n{bend}", 1), (VALUE, 0)])
def test_B42_complete_calls_are_counted_so_that_the_stop_reason_is_true(
    tiny: Chat, text: str, calls: int
) -> None:
    made = parser_of(tiny)
    events_of(made, tiny.written(text))
    assert made.calls == calls


def test_B48_white_space_between_calls_is_no_text(tiny: Chat) -> None:
    assert answer(tiny, f"{bend}\n{reno}\n") == [BEND, RENO]


def test_B51_two_calls_of_one_tool_keep_their_arguments(tiny: Chat) -> None:
    text = "\n".join([bend, reno] * 6)
    made = parser_of(tiny)
    assert parts(events_of(made, tiny.written(text))) == [BEND, RENO] * 6
    assert made.calls == 12


@pytest.mark.parametrize("step", [1, 2, 3, 7, 20, 100])
def test_B52_any_number_of_tokens_a_step_gives_the_same_calls(tiny: Chat, step: int) -> None:
    write = xml("write_file", path="p", content="a\nb")
    ids = tiny.written(f"Two.\n\n{bend}\n{write}\n{xml('now')}")
    expected = [("text", "Two."), BEND, ("call", "write_file", '{"path": "p", "content": "a\\nb"}'), NOW_CALL]
    assert parts(events_of(parser_of(tiny), ids, range(0, len(ids), step))) == expected


@pytest.mark.parametrize("form", [XML, JSON])
def test_B54_long_string_is_streamed_as_it_decodes(tiny: Chat, form: Any) -> None:
    made = parser_of(tiny, form)
    assert made.push(tiny.written(VALUE if form is XML else JSON_VALUE))[0] == CallStart("write_file")
    for word in ("Roses", " are", " red", ",", " violets"):
        (fragment,) = fragments(made.push(tiny.written(word)))
        assert fragment.removeprefix('{"content": "') == word


@pytest.mark.parametrize("form", [XML, JSON])
def test_B55_call_without_arguments_has_one_fragment(tiny: Chat, form: Any) -> None:
    call = xml("now") if form is XML else js("now")
    assert one_at_a_time(tiny, call, form) == [CallStart("now"), CallArguments("{}"), CallEnd()]


@pytest.mark.parametrize("form", [XML, JSON])
def test_B56_fragments_are_valid_json_whatever_the_value_holds(tiny: Chat, form: Any) -> None:
    value = 'quotes " and \\ and \x00\x1f\x7f, \t tabs,\r\nlines,\u2028 </parameter> "}} 😀 \\u0041'
    call = xml("write_file", content=value) if form is XML else js("write_file", content=value)
    found = fragments(one_at_a_time(tiny, call, form))
    assert json.loads("".join(found)) == {"content": value}
    for fragment in found:
        assert fragment.isprintable() or "\u2028" in fragment or "\x7f" in fragment
        assert not fragment.replace("\\\\", "").endswith("\\")


def test_B57_text_streams_though_there_are_tools(tiny: Chat) -> None:
    made = parser_of(tiny)
    words = tiny.tokenizer.encode("the quick brown fox jumps over the lazy dog a < b </ c <tool_")
    assert sum(bool(made.push([number])) for number in words) > 20


def test_call_starts_when_its_arguments_begin(tiny: Chat) -> None:
    made = parser_of(tiny)
    assert made.push(tiny.written("<tool_call>\n<function=now>\n<parameter=a")) == []
    assert made.push(tiny.written(">")) == [CallStart("now")]
    made = parser_of(tiny)
    assert made.push(tiny.written("<tool_call>\n<function=now>\n</function")) == []
    assert made.push(tiny.written(">")) == [CallStart("now"), CallArguments("{}"), CallEnd()]
    for opening in ("", '"'):
        made = parser_of(tiny, JSON)
        assert made.push(tiny.written(f'<tool_call>\n{{"name": "now", "arguments": {opening}')) == []
        assert made.push(tiny.written("{")) == [CallStart("now")]
    made = parser_of(tiny, JSON)
    assert made.push(tiny.written('<tool_call>\n{"name": "now"')) == []
    assert made.push(tiny.written("}")) == [CallStart("now"), CallArguments("{}"), CallEnd()]


@pytest.mark.parametrize("form", [XML, JSON])
def test_unknown_tool_is_called_all_the_same(tiny: Chat, form: Any) -> None:
    call = xml("nope", a="b") if form is XML else js("nope", a="b")
    assert answer(tiny, call, form) == [("call", "nope", '{"a": "b"}')]
    assert answer(tiny, call, form, tools=()) == [("call", "nope", '{"a": "b"}')]


@pytest.mark.parametrize("form", [XML, JSON])
def test_only_the_first_of_calls_that_must_not_be_parallel(tiny: Chat, form: Any) -> None:
    call = xml("now") if form is XML else js("now")
    made = parser_of(tiny, form, parallel=False)
    ids = tiny.written(f"a\n{call}\n{call} b")
    events = events_of(made, ids)
    assert parts(events) == [("text", "a"), NOW_CALL]
    assert made.done and made.consumed < len(ids) / 2 + 2


NAUGHTY = [
    "a</parameter>b",
    "</parameter>",
    "\n</parameter>\n",
    "</tool_call>",
    "a\n</parameter>\n</tool_call>\nb",
    "</function>\n</tool_call>",
    "<parameter=city>",
    "<parameter=city>\nx\n</parameter> ",
    "</parameter> <parameter=b>",
    "</parameter>\n <parameter=b>",
    "</parameter>\n</parameter",
    "</parameter>\n<param",
    "<tool_call>\n<function=now>",
    "<think></think>",
    "",
    "\n",
    "\n\n a \n\n",
    "<",
    "\n<",
    "</parameter>\n</parameter>\n</parameter>",
]


@pytest.mark.parametrize("value", NAUGHTY, ids=repr)
@pytest.mark.parametrize("form", [XML, JSON])
def test_string_may_hold_any_tag(tiny: Chat, value: str, form: Any) -> None:
    call = (
        xml("write_file", content=value, path=value)
        if form is XML
        else js("write_file", content=value, path=value)
    )
    expected = ("call", "write_file", json.dumps({"content": value, "path": value}))
    assert answer(tiny, f"{call}\nDone.", form) == [expected, ("text", "Done.")]
    assert parts(one_at_a_time(tiny, call, form)) == [expected]


XML_TOLERATED = {
    "no line break before the closing tag": "<tool_call>\n<function=get_weather>\n<parameter=city>\nBend</parameter>\n"
    "</function>\n</tool_call>",
    "no line breaks at all around the value": "<tool_call><function=get_weather><parameter=city>Bend</parameter>\n"
    "</function></tool_call>",
    "no </tool_call>": bend.removesuffix("\n</tool_call>"),
    "no </function> at the end": bend.replace("</function>\n", ""),
    "no </function>, line break after": bend.replace("</function>\n", "") + "\n",
    "nothing after </parameter>": bend.removesuffix("\n</function>\n</tool_call>"),
    "half of </function>": bend.removesuffix("ion>\n</tool_call>"),
    "twice the same parameter": bend.replace(
        "</function>", "<parameter=city>\nReno\n</parameter>\n</function>"
    ),
    "in one line": "<tool_call><function=get_weather><parameter=city>Bend</parameter></function></tool_call>",
    "in one line, no </tool_call>": "<tool_call><function=get_weather><parameter=city>Bend</parameter></function>",
    "tags in one line at the end of the turn": bend.replace("</parameter>\n", "</parameter>"),
    "all closing tags in one line": bend.replace("\n</parameter>\n</function>\n", "</parameter></function>"),
    "white space around names": bend.replace("get_weather>", " get_weather >").replace("city>", " city>"),
}


@pytest.mark.parametrize("call", XML_TOLERATED.values(), ids=XML_TOLERATED)
def test_xml_call_that_is_complete_in_meaning_is_complete(tiny: Chat, call: str) -> None:
    assert answer(tiny, call) == [BEND]
    assert parts(one_at_a_time(tiny, call)) == [BEND]


def test_call_in_one_line_may_have_several_values_and_neighbours(tiny: Chat) -> None:
    call = (
        "<tool_call><function=write_file><parameter=path>a</parameter><parameter=content>\nb\n</parameter>\n"
        "<parameter=more></parameter></function></tool_call>"
    )
    expected = ("call", "write_file", '{"path": "a", "content": "b", "more": ""}')
    assert answer(tiny, f"{call}{call} Done.") == [expected, expected, ("text", "Done.")]
    assert parts(one_at_a_time(tiny, call)) == [expected]


def test_tags_in_line_are_part_of_a_value_on_lines_of_its_own(tiny: Chat) -> None:
    value = "<parameter=a>1</parameter><parameter=b>2</parameter></function></tool_call> so"
    expected = ("call", "write_file", json.dumps({"content": value}))
    assert answer(tiny, xml("write_file", content=value)) == [expected]


JSON_TOLERATED = {
    "arguments first": '{"arguments": {"city": "Bend"}, "name": "get_weather"}',
    "arguments as a string": '{"name": "get_weather", "arguments": "{\\"city\\": \\"Bend\\"}"}',
    "string of arguments first": '{"arguments": " {\\"city\\":\\"Bend\\"} ", "name": "get_weather"}',
    "parameters": '{"name": "get_weather", "parameters": {"city": "Bend"}}',
    "odd white space": ' \t{\r\n "name"\t:\n"get_weather" , "arguments":{ "city" :"Bend"\n}\n}  ',
    "no white space": '{"name":"get_weather","arguments":{"city":"Bend"}}',
    "more members": '{"id": [1, {"name": "x"}], "name": "get_weather", "n": -1e3, "arguments": {"city": "Bend"}}',
    "a member twice": '{"name": "get_weather", "arguments": {"city": "Bend"}, "name": "x", "arguments": {"a": 1}}',
    "comma at the end": '{"name": "get_weather", "arguments": {"city": "Bend"},}',
    "no last bracket": '{"name": "get_weather", "arguments": {"city": "Bend"}',
    "escaped": '{"n\\u0061me": "get\\u005fweather", "arguments": {"\\u0063ity": "B\\u0065nd"}}',
}


@pytest.mark.parametrize("inside", JSON_TOLERATED.values(), ids=JSON_TOLERATED)
def test_json_call_that_is_complete_in_meaning_is_complete(tiny: Chat, inside: str) -> None:
    for call in (f"<tool_call>\n{inside}\n</tool_call>", f"<tool_call>{inside}"):
        assert answer(tiny, call, JSON) == [BEND]
        assert parts(one_at_a_time(tiny, call, JSON)) == [BEND]


@pytest.mark.parametrize("arguments", ['""', '" "', '"{}"', "{ }", "{\n}"])
def test_json_arguments_of_none_are_an_empty_object(tiny: Chat, arguments: str) -> None:
    call = f'<tool_call>\n{{"name": "now", "arguments": {arguments}}}\n</tool_call>'
    assert one_at_a_time(tiny, call, JSON) == [CallStart("now"), CallArguments("{}"), CallEnd()]
    assert answer(tiny, '<tool_call>\n{"name": "now"}\n</tool_call>', JSON) == [NOW_CALL]


def test_json_arguments_that_are_null_are_none(tiny: Chat) -> None:
    for call in ('{"name": "now", "arguments": null}', '{"arguments":null,"name":"now"}'):
        written = f"<tool_call>\n{call}\n</tool_call>"
        assert one_at_a_time(tiny, written, JSON) == [CallStart("now"), CallArguments("{}"), CallEnd()]


def test_reader_takes_a_whole_call_at_once() -> None:
    parser = XmlToolCallParser({})
    value = "\n </parameter>\n\n"
    events = parser.push(f"\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\nsoon")
    assert parts(events) == [("call", "f", json.dumps({"a": value}))]
    assert parser.rest == "\nsoon"


def test_value_may_begin_with_a_control_token(tiny: Chat) -> None:
    call = "<tool_call>\n<function=f>\n<parameter=a></tool_call>b\n</parameter>\n</function>\n</tool_call>"
    assert answer(tiny, call) == [("call", "f", '{"a": "</tool_call>b"}')]


def test_several_calls_in_one_tag(tiny: Chat) -> None:
    inner = bend.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert answer(tiny, f"<tool_call>{inner}{inner}</tool_call>") == [BEND, BEND]
    inner = js("get_weather", city="Bend").removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert answer(tiny, f"<tool_call>{inner}{inner}</tool_call>", JSON) == [BEND, BEND]


def test_B58_values_are_converted_by_the_schema(tiny: Chat) -> None:
    properties = {"seconds": {"type": "number"}, "force": {"type": "boolean"}, "label": {"type": "string"}}
    tools = [ToolSpec("wait", "", {"type": "object", "properties": properties})]
    call = xml("wait", seconds="30", force="True", label="7")
    assert answer(tiny, call, tools=tools) == [
        ("call", "wait", '{"seconds": 30, "force": true, "label": "7"}')
    ]


def test_B59_nested_object_behind_a_reference_is_an_object(tiny: Chat) -> None:
    schema = {
        "type": "object",
        "$defs": {"P": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "properties": {"p": {"$ref": "#/$defs/P"}},
    }
    tools = [ToolSpec("f", "", schema), NOW]
    assert answer(tiny, xml("f", p='{"n": 1}'), tools=tools) == [("call", "f", '{"p": {"n": 1}}')]


def test_json_form_converts_nothing(tiny: Chat) -> None:
    call = js("get_weather", city=7, more=[1.50, "2", None, {"a": {}}])
    expected = '{"city": 7, "more": [1.5, "2", null, {"a": {}}]}'
    assert answer(tiny, call, JSON, tools=TOOLS) == [("call", "get_weather", expected)]


def test_special_tokens_inside_a_call_have_no_text(tiny: Chat) -> None:
    call = xml("get_weather", city="Be<|im_start|>nd")
    assert answer(tiny, call) == [BEND]
