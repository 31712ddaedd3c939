"""JSON that comes in pieces is what it is as a whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.json_reader import JsonError, ValueReader

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
pieces = st.sampled_from(
    ['"', "\\", "\\u", "d83d", "\\ud83d", "\\ude00", "{", "}", "[", "]", ",", ":", " ", "\n"]
) | st.sampled_from(["1", "-", "0", ".5", "e9", "true", "nul", "l", "NaN", '"a"', '"b":', "x", "\x00"])


def read(text: str, cuts: list[int]) -> tuple[str, str, bool]:
    """The JSON of a text that comes in pieces, what follows it, and whether it is whole."""
    reader = ValueReader()
    written, rest = "", ""
    for start, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]):
        fragment, place = reader.push(text[start:end], 0)
        fragment.encode()
        written += fragment
        rest += text[start + place : end]
    return written, rest, reader.closed


@settings(deadline=None, max_examples=300)
@given(
    value=values,
    ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
    cuts=st.lists(st.integers(0, 60), max_size=8) | st.just(list(range(200))),
)
def test_value_in_pieces_is_written_as_a_whole(
    value: Any, ascii: bool, indent: int | None, cuts: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert read(f" {text} ;", cuts) == (json.dumps(value, ensure_ascii=False), " ;", True)


@settings(deadline=None, max_examples=600)
@given(text=st.lists(pieces, max_size=14).map("".join), cuts=st.lists(st.integers(0, 40), max_size=8))
def test_what_is_read_to_its_end_is_json_and_the_same_in_pieces(text: str, cuts: list[int]) -> None:
    try:
        written, rest, closed = read(text, [])
    except JsonError:
        with pytest.raises(JsonError):
            read(text, cuts)
        return
    assert read(text, cuts) == (written, rest, closed)
    if closed:
        meant = json.loads(text[: len(text) - len(rest)], strict=False)
        assert (
            json.loads(written) == json.loads(json.dumps(meant).replace("\\ud83d", "\\ufffd"))
            or "\\u" in text
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"\\ud83d\\ude00"', '"😀"'),
        ('"\\ud83d"', '"\ufffd"'),
        ('"\\ude00"', '"\ufffd"'),
        ('"\\ud83d\\ud83d\\ude00"', '"\ufffd😀"'),
        ('"\\ud83d\\n\\ude00"', '"\ufffd\\n\ufffd"'),
        ('"\\ud83d \\u00e9\\/"', '"\ufffd é/"'),
        ('"a\nb\x00"', '"a\\nb\\u0000"'),
        ('{"a":[1,2.50,-0.0e-1],"b":{}}', '{"a": [1, 2.50, -0.0e-1], "b": {}}'),
        (f"[{'9' * 999}]", f"[{'9' * 999}]"),
    ],
)
def test_json_is_written_so_that_everyone_can_read_it(text: str, expected: str) -> None:
    for cuts in ([], list(range(len(text)))):
        assert read(text, cuts) == (expected, "", True)
    json.loads(expected)


@pytest.mark.parametrize(
    "text",
    [
        "[1,]",
        "{1: 2}",
        '{"a" 1}',
        '{"a": }',
        "[1 2]",
        "[01]",
        "[+1]",
        "[1.]",
        "[.5]",
        "[nul]",
        "[NaN]",
        "[1e400]",
        "[-]",
        "]",
        ",",
        "[}",
        '{"a": 1]',
        '"\\x"',
        '"\\u00g0"',
        "[True]",
        "[1a]",
        "[" * 201,
        '["a" "b"]',
        "[tr ue]",
        f"[{'9' * 1001}]",
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    for cuts in ([], list(range(len(text)))):
        with pytest.raises(JsonError):
            read(text, cuts)
