from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.detokenizer import Detokenizer


def byte_ids(chat: Chat, data: bytes) -> list[int]:
    """One id a byte."""
    by_byte = {chat.tokenizer.token_bytes(number): number for number in range(256)}
    return [by_byte[bytes([byte])] for byte in data]


def stream(chat: Chat, pieces: list[bytes]) -> list[str]:
    """What each piece gives, and the end."""
    detokenizer = Detokenizer(chat.tokenizer)
    return [*(detokenizer.push(byte_ids(chat, piece)) for piece in pieces), detokenizer.end()]


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_any_chunking_gives_the_text_of_all_bytes(tiny: Chat, data: st.DataObject) -> None:
    tokenizer = tiny.tokenizer
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocabulary_size + 3), max_size=40))
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6).map(sorted))
    detokenizer = Detokenizer(tokenizer)
    edges = [0, *cuts, len(ids)]
    text = "".join(detokenizer.push(ids[a:b]) for a, b in pairwise(edges)) + detokenizer.end()
    whole = b"".join(tokenizer.token_bytes(number) for number in ids if number not in tokenizer.special)
    assert text == whole.decode(errors="replace")


@settings(deadline=None, max_examples=80)
@given(data=st.binary(max_size=12))
def test_every_byte_gives_what_it_completes_and_no_later(tiny: Chat, data: bytes) -> None:
    given_so_far = ""
    for end, piece in enumerate(stream(tiny, [data[i : i + 1] for i in range(len(data))])[:-1], start=1):
        given_so_far += piece
        held = [n for n in range(4) if may_yet_become_a_character(data[end - n : end]) and n <= end]
        assert given_so_far == data[: end - max(held)].decode(errors="replace")


def may_yet_become_a_character(start: bytes) -> bool:
    """By trial of the bounds of every further byte."""
    if not start:
        return True
    tails = [[0x80], [0xBF], [0x90], [0x8F], [0xA0], [0x9F]]
    for length in range(1, 4):
        for first in tails:
            candidate = start + bytes(first) + b"\x80" * (length - 1)
            try:
                if len(candidate.decode()) == 1:
                    return True
            except UnicodeDecodeError:
                pass
    return False


def test_character_comes_whole_with_its_last_byte(tiny: Chat) -> None:
    assert stream(tiny, [b"a\xf0", b"\x9f", b"\x98", b"\x80b"]) == ["a", "", "", "😀b", ""]


@pytest.mark.parametrize("start", [b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98"])
def test_unfinished_character_at_the_end_is_one_replacement(tiny: Chat, start: bytes) -> None:
    assert stream(tiny, [b"a" + start]) == ["a", "\ufffd"]


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        ([b"\xff", b"a"], ["\ufffd", "a"]),
        ([b"\xc3", b"a"], ["", "\ufffda"]),
        ([b"\xed", b"\xa0", b"\x80"], ["", "\ufffd\ufffd", "\ufffd"]),
        ([b"\xe0", b"\x80"], ["", "\ufffd\ufffd"]),
        ([b"\xf4", b"\x90"], ["", "\ufffd\ufffd"]),
    ],
)
def test_invalid_bytes_are_replaced_once_they_are_known_to_be(
    tiny: Chat, pieces: list[bytes], given: list[str]
) -> None:
    assert stream(tiny, pieces) == [*given, ""]


def test_special_tokens_give_no_text_and_other_control_tokens_theirs(tiny: Chat) -> None:
    control = tiny.tokenizer.control
    ids = [control["<|im_start|>"], control["<think>"], control["<|im_end|>"], control["</tool_call>"]]
    assert Detokenizer(tiny.tokenizer).push(ids) == "<think></tool_call>"


def test_ids_without_text_give_none(qwen35: Chat) -> None:
    assert Detokenizer(qwen35.tokenizer).push([248070, 248076, 248077, 248319]) == ""
