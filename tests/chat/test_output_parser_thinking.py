"""ThinkingDelta: where it begins and ends, and calls written inside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.chat.chat import Chat
from node.chat.events import CallStart, ThinkingDelta
from tests.chat.answers import JSON, XML, answer, events_of, js, parser_of, parts, xml

BEND = ("call", "get_weather", '{"city": "Bend"}')
RENO = ("call", "get_weather", '{"city": "Reno"}')
bend, reno = xml("get_weather", city="Bend"), xml("get_weather", city="Reno")


def thinking_answer(chat: Chat, text: str, form: Any = XML, **options: Any) -> list[Any]:
    return answer(chat, text, form, thinking_open=True, **options)


def test_B31_forced_end_of_thinking_leaves_no_trace(tiny: Chat) -> None:
    forced = "\n</think>\n\n"
    assert thinking_answer(tiny, f"Let me consi{forced}391 is 17 * 23.") == [
        ("thinking", "Let me consi"),
        ("text", "391 is 17 * 23."),
    ]
    assert thinking_answer(tiny, f"I call <tool_call>\n<func{forced}{bend}") == [
        ("thinking", "I call <tool_call>\n<func"),
        BEND,
    ]


@pytest.mark.parametrize("cut", [True, False])
def test_B32_output_without_end_of_thinking_is_all_thinking(tiny: Chat, cut: bool) -> None:
    assert thinking_answer(tiny, "391 is 17 times", cut=cut) == [("thinking", "391 is 17 times")]


def test_B37_turn_that_ends_after_thinking_has_no_text(tiny: Chat) -> None:
    assert thinking_answer(tiny, "why.\n</think>\n\n") == [("thinking", "why.")]
    assert thinking_answer(tiny, "why.\n</think>") == [("thinking", "why.")]


def test_B38_tools_do_not_make_thinking_part_of_the_text(tiny: Chat) -> None:
    assert thinking_answer(tiny, "no tool fits.\n</think>\n\nHello.") == [
        ("thinking", "no tool fits."),
        ("text", "Hello."),
    ]


@pytest.mark.parametrize("form", [XML, JSON])
def test_B40_draft_in_thinking_is_not_called(tiny: Chat, form: Any) -> None:
    draft = xml("get_weather", city="Reno") if form is XML else js("get_weather", city="Reno")
    real = xml("get_weather", city="Bend") if form is XML else js("get_weather", city="Bend")
    assert thinking_answer(tiny, f"I could write {draft}\n</think>\n\n{real}", form) == [
        ("thinking", f"I could write {draft}"),
        BEND,
    ]


def test_B41_draft_of_the_same_call_is_not_called_twice(tiny: Chat) -> None:
    made = parser_of(tiny, thinking_open=True)
    events = events_of(made, tiny.written(f"so:\n{bend}\n</think>\n\n{bend}"))
    assert parts(events) == [("thinking", f"so:\n{bend}"), BEND]
    assert made.calls == 1


def test_B63_parameters_drafted_in_thinking_do_not_reach_the_call(tiny: Chat) -> None:
    draft = "<tool_call>\n<function=get_weather>\n<parameter=city>\n\n</parameter>\n</function>\n</tool_call>"
    assert thinking_answer(tiny, f"{draft}\n</think>\n\n{bend}") == [("thinking", draft), BEND]


@pytest.mark.parametrize("form", [XML, JSON])
def test_complete_call_at_the_end_of_thinking_is_real(tiny: Chat, form: Any) -> None:
    call = bend if form is XML else js("get_weather", city="Bend")
    made = parser_of(tiny, form, thinking_open=True)
    ids = tiny.written("I call.\n\n")
    assert made.push(ids) == [ThinkingDelta("I call.")]
    assert made.push(tiny.written(call)) == []  # held: </think> may follow
    assert parts(made.end(cut=False)) == [BEND]
    assert (made.calls, made.thinking_tokens, made.done) == (1, len(ids), False)


def test_several_calls_at_the_end_of_thinking_are_real(tiny: Chat) -> None:
    text = f"Two.\n{bend}\n{reno}\n"
    assert thinking_answer(tiny, text) == [("thinking", "Two."), BEND, RENO]
    assert thinking_answer(tiny, text, parallel=False) == [("thinking", "Two."), BEND]


DRAFTS = {
    "text follows": f"a {bend} or so",
    "text in the same tag": bend.replace("\n</tool_call>", "\nor so</tool_call>"),
    "unknown tool": xml("get_wether", city="Bend"),
    "unknown tool, nothing given": xml("get_wether"),
    "second function without an end": bend.replace("</function>\n", "</function>\n<function=now"),
    "second function that only begins": bend.removesuffix("\n</tool_call>") + "\n<function=now>",
    "unknown second tool": bend + xml("get_wether", city="Bend"),
    "no value": "<tool_call>\n<function=get_weather>\n<parameter=city>\n",
    "open value": "<tool_call>\n<function=get_weather>\n<parameter=city>\nBend",
    "open second call": bend + "<tool_call>",
    "no function": "the <tool_call> tag",
    "no call": "<tool_call>\n</tool_call>",
    "tag alone": "<tool_call>",
    "tags in a row": "<tool_call><tool_call></tool_call>",
    "end tag alone": "a </tool_call> b",
    "white space": "a \n\n<tool_call>\n\n b",
    "other form": js("get_weather", city="Bend"),
}


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize("cut", [True, False])
def test_what_cannot_be_a_call_is_thinking_word_for_word(tiny: Chat, draft: str, cut: bool) -> None:
    assert thinking_answer(tiny, draft, cut=cut) == [("thinking", draft)]


def test_thinking_goes_on_after_drafts(tiny: Chat) -> None:
    text = f"Maybe {reno} or {bend}\nor not:\n{reno}\n"
    assert thinking_answer(tiny, text + "</think>\n\nNo.") == [("thinking", text.rstrip()), ("text", "No.")]
    assert thinking_answer(tiny, text + bend) == [("thinking", text[: -len(reno) - 2]), RENO, BEND]


def test_draft_inside_a_value_of_a_draft(tiny: Chat) -> None:
    inner = bend.replace("\n</parameter>\n</function>", "")
    call = xml("write_file", content=f"{inner} </parameter>")
    expected = [("call", "write_file", json.dumps({"content": f"{inner} </parameter>"}))]
    assert thinking_answer(tiny, call) == expected


def test_end_of_thinking_inside_a_draft_ends_thinking(tiny: Chat) -> None:
    text = "<tool_call>\n<function=write_file>\n<parameter=content>\na"
    assert thinking_answer(tiny, f"{text}</think>\n\nb") == [("thinking", text), ("text", "b")]


def test_cut_after_a_complete_call_leaves_it_thinking(tiny: Chat) -> None:
    made = parser_of(tiny, thinking_open=True)
    ids = tiny.written(f"so\n{bend}")
    assert parts(events_of(made, ids, cut=True)) == [("thinking", f"so\n{bend}")]
    assert (made.calls, made.thinking_tokens) == (0, len(ids))


def test_draft_is_given_as_soon_as_it_cannot_be_real(tiny: Chat) -> None:
    made = parser_of(tiny, thinking_open=True)
    assert made.push(tiny.written("<tool_call>")) == []
    assert made.push(tiny.written("x")) == [ThinkingDelta("<tool_call>x")]
    assert made.push(tiny.written("<tool_call>\n<function=unknown>\n<parameter=a>")) == [
        ThinkingDelta("<tool_call>\n<function=unknown>\n<parameter=a>")
    ]


def test_thinking_tokens_are_those_between_the_tags(tiny: Chat) -> None:
    encode, control = tiny.tokenizer.encode, tiny.tokenizer.control
    inside = [*encode("why the fox"), control["<tool_call>"], *encode(" so")]
    ids = [control["<think>"], *inside, control["</think>"], *encode("\n\nthe dog")]
    made = parser_of(tiny)
    events_of(made, ids)
    assert (made.thinking_tokens, made.consumed) == (len(inside), len(ids))
    made = parser_of(tiny, thinking_open=True)
    events_of(made, ids[1:])
    assert made.thinking_tokens == len(inside)


def test_model_may_open_thinking_before_its_text_only(tiny: Chat) -> None:
    assert answer(tiny, "\n<think>\nwhy.\n</think>\n\nHi <think> a </think>") == [
        ("thinking", "why."),
        ("text", "Hi <think> a </think>"),
    ]


def test_spans_of_thinking_are_kept_apart(tiny: Chat) -> None:
    text = "x</think>\n\n<think>\nmore\n</think>\n\n<think>\n\n</think>\n<think>again</think>\n\nz"
    assert thinking_answer(tiny, text) == [("thinking", "x\nmore\nagain"), ("text", "z")]
    assert thinking_answer(tiny, "</think>\n\n<think>\nx") == [("thinking", "x")]
    assert thinking_answer(tiny, f"x</think>\n\n{bend}\n<think>\ny") == [
        ("thinking", "x"),
        BEND,
        ("thinking", "y"),
    ]


def test_no_call_of_a_draft_is_given_before_the_end(tiny: Chat) -> None:
    made = parser_of(tiny, thinking_open=True)
    events = made.push(tiny.written(bend * 3))
    assert not any(isinstance(event, CallStart) for event in events)
