from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.conversation import Call, Conversation, ToolSpec, Turn
from node.chat.guard import MARKER, Guard, clear

CONTROL = ("<|im_end|>", "<think>", "</think>", "<think>!", "[X]")
PIECES = (
    "<",
    ">",
    "think",
    "/think",
    "<th",
    "ink>",
    "<|im_",
    "end|>",
    "im_end",
    "|",
    "!",
    "[",
    "X",
    "]",
    " ",
    "\n",
)
nasty = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
guard = Guard(CONTROL)


def controls(text: str) -> list[str]:
    return guard.split(text)[1::2]


@settings(deadline=None)
@given(text=nasty | st.text(max_size=30))
def test_marking_is_undone_by_clearing(text: str) -> None:
    assert clear(guard.text(text)) == text
    assert clear("".join(guard.split(guard.text(text)))) == text


@settings(deadline=None, max_examples=200)
@given(texts=st.lists(nasty, max_size=5), trimmed=st.booleans())
def test_no_texts_of_clients_make_a_control_token_however_joined(texts: list[str], trimmed: bool) -> None:
    marked = [guard.text(text) for text in texts]
    assert controls("".join(text.strip() for text in marked) if trimmed else "".join(marked)) == []


@settings(deadline=None, max_examples=200)
@given(text=nasty, cut=st.integers(1, 9), token=st.sampled_from(CONTROL[:3]))
def test_no_text_of_a_client_completes_what_a_template_began(text: str, cut: int, token: str) -> None:
    begun, ended = token[: min(cut, len(token) - 1)], token[cut:]
    assert controls(begun + guard.text(text)) == []
    assert controls(guard.text(text) + ended) == []


@pytest.mark.parametrize("core", ["think", "/think", " think\n", "|im_end|", "im_end", "|im_end", "X"])
def test_core_of_a_control_token_is_cut_so_that_a_template_cannot_frame_it(core: str) -> None:
    for before, after in (("<", ">"), ("</", ">"), ("<|", "|>"), ("[", "]")):
        assert controls(before + guard.text(core) + after) == []
        assert controls(before + guard.text(core).strip() + after) == []


@pytest.mark.parametrize("text", ["thinking", "think about it", "type", "a, b", "", " "])
def test_text_that_cannot_take_part_is_left_alone(text: str) -> None:
    assert guard.text(text) == text


def test_template_tests_on_content_are_not_fooled() -> None:
    marked = guard.text("<think>x</think>")
    assert not marked.startswith("<think>")
    assert "</think>" not in marked


def test_longest_control_token_wins_as_in_tokenizers() -> None:
    assert guard.split("a<think>!b<think>") == ["a", "<think>!", "b", "<think>", ""]
    assert Guard(()).split("a<think>") == ["a<think>"]


def test_every_string_of_a_client_is_marked_and_nothing_of_ours() -> None:
    x = "<think>"
    marked = guard.text(x)
    value = {x: [x, {x: x}, 1, None, True]}
    marked_value = {marked: [marked, {marked: marked}, 1, None, True]}
    conversation = Conversation(
        (Turn("user", x), Turn("assistant", x, x, (Call(x, x, value),)), Turn("tool", x, call_id=x)),
        (ToolSpec(x, x, value),),
        thinking=False,
    )
    assert guard.conversation(conversation) == Conversation(
        (
            Turn("user", marked),
            Turn("assistant", marked, marked, (Call(marked, marked, marked_value),)),
            Turn("tool", marked, call_id=marked),
        ),
        (ToolSpec(marked, marked, marked_value),),
        thinking=False,
    )


def test_marker_is_made_of_noncharacters() -> None:
    assert all(0xFDD0 <= ord(character) <= 0xFDEF for character in MARKER)
    assert MARKER[0] not in MARKER[1:] and MARKER[-1] not in MARKER[:-1]
