"""The parser as such: tokens in, events out; text, stop sequences, counting."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.events import CallStart, Event, TextDelta, ThinkingDelta, merge
from node.chat.prompt import Prompt
from node.chat.tool_call_format import ToolCallFormat
from tests.chat.answers import JSON, TOOLS, XML, answer, events_of, js, parser_of, parts, xml


def test_text_becomes_one_event_a_push(tiny: Chat) -> None:
    made = parser_of(tiny)
    assert made.push(tiny.tokenizer.encode("the quick fox")) == [TextDelta("the quick fox")]
    assert made.push([]) == []
    assert made.end(cut=False) == []
    assert made.matched is None


def test_neighbours_of_a_kind_are_one_event() -> None:
    events: list[Event] = [
        ThinkingDelta("a"),
        ThinkingDelta("b"),
        TextDelta("c"),
        CallStart("f"),
        CallStart("f"),
        TextDelta("d"),
        TextDelta("e"),
    ]
    assert merge(events) == [
        ThinkingDelta("ab"),
        TextDelta("c"),
        CallStart("f"),
        CallStart("f"),
        TextDelta("de"),
    ]


FRAGMENTS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<function=",
    "now>",
    "get_weather>",
    "<parameter=",
    "city>",
    "\n",
    "\n</parameter>\n",
    "</function>",
    '{"name": "now", "arguments": {',
    '"city": ',
    '"arguments": "{',
    "}",
    "]",
    "[1, 2",
    '"',
    "\\",
    "\\ud83d",
    "null",
    ",",
    " ",
    "the",
    "\x00",
    "é",
]


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_chunking_of_any_ids_folds_to_the_same_parts(tiny: Chat, data: st.DataObject) -> None:
    loose = st.integers(-1, tiny.tokenizer.vocabulary_size + 5).map(lambda number: [number])
    known = st.sampled_from(FRAGMENTS).map(tiny.written)
    pieces = data.draw(st.lists(loose | known, max_size=40))
    ids = [number for piece in pieces for number in piece]
    options = {
        "form": data.draw(st.sampled_from([XML, JSON, None])),
        "stop_sequences": data.draw(
            st.lists(st.sampled_from(["e", "the", "\ufffd", "<think>", "\n}"]), max_size=2)
        ),
        "thinking_open": data.draw(st.booleans()),
        "parallel": data.draw(st.booleans()),
    }
    cut = data.draw(st.booleans())
    whole, cut_up = parser_of(tiny, **options), parser_of(tiny, **options)
    expected = parts(events_of(whole, ids, cut=cut))
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6))
    assert parts(events_of(cut_up, ids, cuts, cut=cut)) == expected
    assert (cut_up.matched, cut_up.consumed, cut_up.calls) == (whole.matched, whole.consumed, whole.calls)
    assert whole.calls == sum(part[0] == "call" for part in expected)
    assert whole.thinking_tokens == cut_up.thinking_tokens <= whole.consumed <= len(ids)
    assert whole.consumed == len(ids) or whole.done
    if whole.done:
        assert whole.push(ids) + whole.end(cut=cut) == []


def test_nothing_comes_after_the_end(tiny: Chat) -> None:
    for text in ("the fox \n", "the <tool_call>", "<tool_call>\n<function=now>", "<think>the <tool_call>"):
        made = parser_of(tiny)
        events_of(made, tiny.written(text))
        assert made.end(cut=False) == []


def test_B76_matched_stop_sequence_is_reported(tiny: Chat) -> None:
    made = parser_of(tiny, stop_sequences=["4"])
    assert parts(events_of(made, tiny.written("1 2 3 4 5 6 7 8 9"))) == [("text", "1 2 3 ")]
    assert (made.matched, made.done) == ("4", True)


def test_B77_stop_sequence_is_found_across_tokens(tiny: Chat) -> None:
    ids = [number for letter in "A B C D E F" for number in tiny.tokenizer.encode(letter)]
    made = parser_of(tiny, stop_sequences=["C D"])
    assert [made.push([number]) for number in ids[:4]] == [[TextDelta("A")], [], [TextDelta(" B")], []]
    assert made.push(ids[4:]) == [TextDelta(" ")]
    assert (made.matched, made.consumed) == ("C D", 7)
    assert (made.push(ids), made.end(cut=False)) == ([], [])


def test_consumed_counts_tokens_without_text(tiny: Chat) -> None:
    made = parser_of(tiny)
    assert made.push([tiny.tokenizer.control["<|im_end|>"], tiny.tokenizer.vocabulary_size]) == []
    assert made.consumed == 2


def test_start_of_a_stop_sequence_is_given_at_the_end(tiny: Chat) -> None:
    made = parser_of(tiny, stop_sequences=["fox!"])
    assert made.push(tiny.tokenizer.encode("the fox")) == [TextDelta("the")]
    assert made.end(cut=False) == [TextDelta(" fox")]


STOPPED = "the fox"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>\n{STOPPED}\n</think>\n\nthe dog", [("thinking", STOPPED), ("text", "the dog")]),
        (xml("get_weather", city=STOPPED), [("call", "get_weather", f'{{"city": "{STOPPED}"}}')]),
        (xml("fox"), [("call", "fox", "{}")]),
        ("Sure fo" + xml("now") + "x", [("text", "Sure fo"), ("call", "now", "{}"), ("text", "x")]),
    ],
    ids=["thinking", "arguments", "name", "two parts"],
)
def test_stop_sequence_applies_to_each_text_alone(tiny: Chat, text: str, expected: list[object]) -> None:
    assert answer(tiny, text, stop_sequences=["fox"]) == expected


def test_stop_sequence_right_before_a_call_prevents_it(tiny: Chat) -> None:
    assert answer(tiny, "the fox\n\n" + xml("now"), stop_sequences=["fox"]) == [("text", "the ")]
    assert answer(tiny, xml("now") + "\nfox" + xml("now"), stop_sequences=["fox"]) == [("call", "now", "{}")]


def test_stop_sequence_does_not_span_thinking(tiny: Chat) -> None:
    text = "\n<think>\nwhy\n</think> a"
    assert answer(tiny, text, stop_sequences=["\n a"]) == [("thinking", "why"), ("text", " a")]


def test_stop_sequence_in_what_was_no_call_after_all(tiny: Chat) -> None:
    made = parser_of(tiny, stop_sequences=["all> no"])
    assert parts(events_of(made, tiny.written("a <tool_call> no call"))) == [("text", "a <tool_c")]
    assert made.matched == "all> no"


def test_stop_sequence_in_what_the_end_of_a_call_gives_back(tiny: Chat) -> None:
    assert answer(tiny, "a <tool_call> <func</tool_call>", stop_sequences=["<func"]) == [
        ("text", "a <tool_call> ")
    ]


def test_stop_sequence_in_a_tail_that_only_the_end_gives_back(tiny: Chat) -> None:
    made = parser_of(tiny, stop_sequences=["function="])
    assert parts(events_of(made, tiny.written("a <tool_call>\n<function=b"))) == [
        ("text", "a <tool_call>\n<")
    ]
    assert made.matched == "function="


def test_B79_characters_split_over_tokens_come_whole(tiny: Chat) -> None:
    text = "👨‍👩‍👧‍👦 " * 10 + "d’ábelské"
    tokens = byte_tokens(tiny)
    ids = [tokens[byte] for byte in text.encode()]
    made = parser_of(tiny)
    events = [event for number in ids for event in made.push([number])]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert made.end(cut=False) == []


def byte_tokens(chat: Chat) -> dict[int, int]:
    """The token of each byte."""
    spelled = (
        (chat.tokenizer.token_bytes(number), number) for number in range(chat.tokenizer.vocabulary_size)
    )
    return {data[0]: number for data, number in spelled if len(data) == 1}


@pytest.mark.parametrize("before", ["", "<think>\n", "<tool_call>\n<function=f>\n<parameter=a>\n"])
def test_half_a_character_at_the_end_is_one_replacement(tiny: Chat, before: str) -> None:
    made = parser_of(tiny)
    events = events_of(made, tiny.written(before + "é😀")[:-1], cut=True)
    assert parts(events)[-1][-1].removeprefix('{"a": "') == "é\ufffd"


def test_control_tokens_spelled_as_text_are_text(tiny: Chat) -> None:
    text = f"<think>a</think> {xml('now')} {js('now')}"
    for form in (XML, JSON, None):
        made = parser_of(tiny, form)
        assert parts(events_of(made, tiny.tokenizer.encode(text))) == [("text", text)]


def test_without_a_form_calls_are_text(tiny: Chat) -> None:
    assert answer(tiny, "a " + xml("now"), None) == [("text", "a " + xml("now"))]
    assert answer(tiny, "a " + xml("now"), None, thinking_open=True) == [("thinking", "a " + xml("now"))]


def test_qwen25_has_no_tokens_of_thinking(qwen25: Chat) -> None:
    assert answer(qwen25, "<think>\na\n</think>\n\nb", JSON) == [("text", "<think>\na\n</think>\n\nb")]
    assert answer(qwen25, js("now"), JSON) == [("call", "now", "{}")]


def test_form_is_the_one_that_the_template_teaches(shared_templates: dict[str, str]) -> None:
    forms = {name: ToolCallFormat.of(source) for name, source in shared_templates.items()}
    assert {name for name, form in forms.items() if form is JSON} == {
        "qwen2.5",
        "qwen3",
        "qwen3-instruct-2507",
        "qwen3-original-2025-04",
    }
    assert {form for form in forms.values() if form is not JSON} == {XML}
    assert ToolCallFormat.of("{{ messages[0].content }}") is None


@pytest.fixture(scope="module")
def shared_templates(request: pytest.FixtureRequest) -> dict[str, str]:
    folder = request.getfixturevalue("shared") / "qwen" / "templates"
    return {path.stem: path.read_text() for path in folder.glob("*.jinja")}


def test_chat_makes_machines_for_its_template(qwen35: Chat) -> None:
    made = qwen35.output_parser(
        Prompt("", (), thinking_open=True, turn_ends=()), TOOLS, ["fox"], parallel=False
    )
    text = f"a\n</think>\n\nb{xml('now')}{xml('now')}"
    assert parts(events_of(made, qwen35.written(text))) == [
        ("thinking", "a"),
        ("text", "b"),
        ("call", "now", "{}"),
    ]
    made = qwen35.output_parser(Prompt("", (), thinking_open=False, turn_ends=()), stop_sequences=["fox"])
    assert parts(events_of(made, qwen35.written("the fox"))) == [("text", "the ")]


VALUE = "<tool_call>\n<function=write_file>\n<parameter=content>\n"
JSON_VALUE = '<tool_call>\n{"name": "write_file", "arguments": {"content": "'


@pytest.mark.parametrize(
    ("form", "start", "repeated"),
    [
        (XML, "", " "),
        (XML, "", "a "),
        (XML, "", "<tool_call>"),
        (XML, "<tool_call>", "\n"),
        (XML, "<think>", " "),
        (XML, f"<think>{VALUE}", "<tool_call>"),
        (XML, VALUE, "<"),
        (XML, VALUE, "a\n"),
        (XML, VALUE, "\n</parameter>\n"),
        (XML, "<tool_call>\n<function=f>\n<parameter=a>\n", "["),
        (XML, "<tool_call>\n<function=f>\n<parameter=", "a"),
        (JSON, '<tool_call>\n{"arguments": {"a": "', "b"),
        (JSON, '<tool_call>\n{"name": "f", "arguments": {"a": ', "1"),
        (JSON, JSON_VALUE, "\\\\"),
        (JSON, JSON_VALUE, "\\ud83d"),
        (JSON, '<tool_call>\n{"', "a"),
        (JSON, '<tool_call>\n{"name": "', "a"),
    ],
)
def test_cost_is_linear_in_the_output(tiny: Chat, form: ToolCallFormat, start: str, repeated: str) -> None:
    def seconds(count: int) -> float:
        made = parser_of(tiny, form)
        made.push(tiny.written(start))
        ids = tiny.written(repeated)
        began = time.process_time()
        for _ in range(count):
            made.push(ids)
        made.end(cut=False)
        return time.process_time() - began

    few, many = 1_000, 16_000
    assert seconds(many) < 5 * (many / few) * max(min(seconds(few) for _ in range(3)), 0.002)


def test_half_a_character_does_not_reach_over_a_tag(tiny: Chat) -> None:
    half, call = tiny.written("é")[:-1], tiny.written(xml("now"))
    rest = tiny.written("é")[-1:]
    expected = [("text", "\ufffd"), ("call", "now", "{}"), ("text", "\ufffd")]
    assert parts(events_of(parser_of(tiny), [*half, *call, *rest])) == expected
