"""White space where thinking, text and calls meet belongs to the template; elsewhere it is the model's."""

from __future__ import annotations

from typing import Any

import pytest

from node.chat.chat import Chat
from node.chat.events import TextDelta, ThinkingDelta
from tests.chat.answers import JSON, XML, answer, events_of, js, parser_of, parts, xml

CALL = ("call", "now", "{}")

BOUNDARIES: dict[str, list[Any]] = {
    "Sure.\n\nCALL": [("text", "Sure."), CALL],
    "Sure. \n\n\n CALL": [("text", "Sure."), CALL],
    "CALL": [CALL],
    "\n\nCALL": [CALL],
    " CALL": [CALL],
    "CALL\n": [CALL],
    "CALL\nCALL": [CALL, CALL],
    "CALLCALL": [CALL, CALL],
    "CALL \n\n CALL\n": [CALL, CALL],
    "CALL\n\nDone.": [CALL, ("text", "Done.")],
    "CALL Done.\n\nCALL": [CALL, ("text", "Done."), CALL],
    "CALLDone. \n": [CALL, ("text", "Done. \n")],
    "A.\n\nCALL\nB.\nCALL\n\nC.": [("text", "A."), CALL, ("text", "B."), CALL, ("text", "C.")],
    "<think>\nwhy.\n</think>\n\nHi.": [("thinking", "why."), ("text", "Hi.")],
    "<think>why.</think>Hi.": [("thinking", "why."), ("text", "Hi.")],
    "\n<think>\n\nwhy.\n\n</think>\n\n\nHi.": [("thinking", "why."), ("text", "Hi.")],
    "<think>\n  why\n\n  so.\n</think>\n\n    code": [("thinking", "  why\n\n  so."), ("text", "    code")],
    "<think>\n\n</think>\n\nHi.": [("text", "Hi.")],
    "<think>\n\n</think>\n\n": [],
    "<think>\nwhy.\n</think>\n\nCALL": [("thinking", "why."), CALL],
    "<think>\nwhy.\n</think>\n\nHi.\n\nCALL": [("thinking", "why."), ("text", "Hi."), CALL],
    "<think>\nwhy.\n</think>": [("thinking", "why.")],
    "<think>\nwhy.\n": [("thinking", "why.\n")],
    "Hi.\n": [("text", "Hi.\n")],
    "  Hi.": [("text", "  Hi.")],
    "\n\nHi.\n\nYou.\t": [("text", "\n\nHi.\n\nYou.\t")],
    " \n": [],
    "": [],
    "</think>\n\nHi.": [("text", "Hi.")],
    "Hi </think> you": [("text", "Hi </think> you")],
    "Hi <think> you": [("text", "Hi <think> you")],
    "CALL</tool_call>": [CALL, ("text", "</tool_call>")],
    "<think><think>\nwhy.</think>": [("thinking", "why.")],
    "<think>why <think> so.</think>": [("thinking", "why <think> so.")],
}


@pytest.mark.parametrize("form", [XML, JSON])
@pytest.mark.parametrize("written", BOUNDARIES, ids=repr)
def test_white_space_at_boundaries_is_not_part_of_the_answer(tiny: Chat, written: str, form: Any) -> None:
    call = xml("now") if form is XML else js("now")
    assert answer(tiny, written.replace("CALL", call), form) == BOUNDARIES[written]


def test_white_space_is_held_back_until_something_follows(tiny: Chat) -> None:
    made = parser_of(tiny)
    assert made.push(tiny.written("Sure.\n")) == [TextDelta("Sure.")]
    assert made.push(tiny.written("\n")) == []
    assert made.push(tiny.written("Yes")) == [TextDelta("\n\nYes")]


def test_white_space_in_thinking_is_held_back_too(tiny: Chat) -> None:
    made = parser_of(tiny, thinking_open=True)
    assert made.push(tiny.written("\nwhy. ")) == [ThinkingDelta("why.")]
    assert made.push(tiny.written("So")) == [ThinkingDelta(" So")]
    assert made.push(tiny.written("\n</think>\n\n")) == []


def test_white_space_before_what_is_no_call_stays(tiny: Chat) -> None:
    assert answer(tiny, "See \n<tool_call> there.") == [("text", "See \n<tool_call> there.")]


def test_white_space_before_a_stop_sequence_is_the_models(tiny: Chat) -> None:
    assert answer(tiny, "Sure. \nSTOP", stop_sequences=["STOP"]) == [("text", "Sure. \n")]
    assert answer(tiny, " \nSTOP", stop_sequences=["STOP"]) == []


STOPPED = {
    "<think>\nt\n</think>\n\n\n\nHuman: x": [("thinking", "t")],
    "<think>\nt\n</think>\n\nHuman: x": [("thinking", "t")],
    "CALL\n\nHuman: x": [CALL],
    "CALL\n \n\nHuman: x": [CALL],
    "CALL\nyes\n\nHuman: x": [CALL, ("text", "yes")],
    "CALL Human: x": [CALL, ("text", "Human: x")],
    "\n\nHuman: x": [],
}


@pytest.mark.parametrize("written", STOPPED, ids=repr)
def test_stop_sequence_that_begins_with_white_space_holds_at_boundaries(tiny: Chat, written: str) -> None:
    made = parser_of(tiny, stop_sequences=["\n\nHuman:"])
    ids = tiny.written(written.replace("CALL", xml("now")))
    expected = STOPPED[written]
    assert parts(events_of(made, ids)) == expected
    assert (made.matched is None) == (("text", "Human: x") in expected)
    assert answer(tiny, written.replace("CALL", xml("now")), stop_sequences=["\n\nHuman:"]) == expected


def test_cut_keeps_white_space_at_the_end(tiny: Chat) -> None:
    assert answer(tiny, "Sure.\n\n", cut=True) == [("text", "Sure.\n\n")]
