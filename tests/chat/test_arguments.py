"""What a model wrote becomes JSON by the schema of the tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.arguments import Arguments, can_only_be_string, to_json
from node.chat.shapes import Shape, Shapes

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
OBJECT, ARRAY = {"type": "object"}, {"type": "array"}


def converted(value: str, schema: Any) -> str:
    return to_json(value, Shapes({"properties": {"p": schema}}).of("p"))


CONVERSIONS: list[tuple[Any, str, str]] = [
    # Strings are what they are.
    (STRING, "123", '"123"'),
    (STRING, "true", '"true"'),
    (STRING, "null", '"null"'),
    (STRING, '{"a": 1}', '"{\\"a\\": 1}"'),
    (STRING, " a ", '" a "'),
    (STRING, "", '""'),
    ({"enum": ["1", "2"]}, "1", '"1"'),
    ({"const": "true"}, "true", '"true"'),
    # Numbers as they are written.
    (INTEGER, "7", "7"),
    (INTEGER, " 7\n", "7"),
    (INTEGER, "-0", "-0"),
    (INTEGER, "9" * 1000, "9" * 1000),
    (INTEGER, "9" * 1001, f'"{"9" * 1001}"'),
    (INTEGER, "7.0", "7"),
    (INTEGER, "7.5", "7.5"),
    (INTEGER, "seven", '"seven"'),
    (INTEGER, "", '""'),
    (INTEGER, "07", '"07"'),
    (INTEGER, "+7", '"+7"'),
    (NUMBER, "7", "7"),
    (NUMBER, "7.0", "7.0"),
    (NUMBER, "1e3", "1e3"),
    (NUMBER, "0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    (NUMBER, "NaN", '"NaN"'),
    (NUMBER, "Infinity", '"Infinity"'),
    (NUMBER, "-Infinity", '"-Infinity"'),
    (NUMBER, "1e999", '"1e999"'),
    ({"enum": [1, 2]}, "2", "2"),
    # Booleans and null, as JSON and Python have them.
    (BOOLEAN, "true", "true"),
    (BOOLEAN, "True", "true"),
    (BOOLEAN, "False", "false"),
    (BOOLEAN, "yes", '"yes"'),
    (NULL, "None", "null"),
    (NULL, "null", "null"),
    ({"type": "integer", "nullable": True}, "None", "null"),
    (INTEGER, "None", '"None"'),
    # Objects and arrays.
    (OBJECT, '{"a": [1, 2.50]}', '{"a": [1, 2.50]}'),
    (OBJECT, "{'a': 1}", "\"{'a': 1}\""),
    (OBJECT, '{"a": NaN}', '"{\\"a\\": NaN}"'),
    (OBJECT, '{"a": 1} x', '"{\\"a\\": 1} x"'),
    (ARRAY, "[\n  1\n]", "[\n  1\n]"),
    (
        ARRAY,
        '["\\ud83d\\ude00", "\\ud83d", "\\ude00 \\\\ud83d"]',
        '["\\ud83d\\ude00", "\\ufffd", "\\ufffd \\\\ud83d"]',
    ),
    (ARRAY, "[" * 300 + "]" * 300, json.dumps("[" * 300 + "]" * 300)),
    (ARRAY, "[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
    # Without a type: structures only.
    ({}, "7", '"7"'),
    ({}, "true", '"true"'),
    ({}, "None", '"None"'),
    ({}, '"a"', '"\\"a\\""'),
    ({}, '{"a": 1}', '{"a": 1}'),
    ({}, "[1]", "[1]"),
    ({}, "[1", '"[1"'),
    (True, "7", '"7"'),
    ({"type": "str"}, "7", '"7"'),
    # Unions: what is valid for another kind than string is that.
    ({"type": ["string", "null"]}, "null", "null"),
    ({"type": ["string", "null"]}, "None", "null"),
    ({"type": ["string", "null"]}, "123", '"123"'),
    ({"type": ["string", "null"]}, " null and void", '" null and void"'),
    ({"anyOf": [STRING, INTEGER]}, "5", "5"),
    ({"anyOf": [STRING, INTEGER]}, "5.5", '"5.5"'),
    ({"anyOf": [STRING, INTEGER]}, "five", '"five"'),
    ({"oneOf": [STRING, OBJECT]}, '{"a": 1}', '{"a": 1}'),
    ({"oneOf": [STRING, OBJECT]}, "[1]", '"[1]"'),
    ({"anyOf": [INTEGER, NULL]}, "None", "null"),
    ({"anyOf": [INTEGER, ARRAY]}, "[1]", "[1]"),
    ({"anyOf": [INTEGER, ARRAY]}, "true", "true"),
    ({"anyOf": [{}, INTEGER]}, "5", '"5"'),
    ({"enum": ["1", 2, None]}, "1", '"1"'),
    ({"enum": ["1", 2, None]}, "2", "2"),
    ({"enum": ["1", 2, None]}, "None", "null"),
    ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, "5", "5"),
    ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, "None", '"None"'),
    ({"allOf": [{"description": "x"}, INTEGER]}, "5", "5"),
    ({"allOf": [INTEGER, STRING]}, "5", '"5"'),
    ({"allOf": [NUMBER, INTEGER]}, "5.0", "5"),
]


@pytest.mark.parametrize(("schema", "value", "expected"), CONVERSIONS, ids=repr)
def test_value_is_converted_by_its_schema(schema: Any, value: str, expected: str) -> None:
    assert converted(value, schema) == expected


kinds = st.sets(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"]), min_size=1
)
shapes = st.builds(
    Shape, st.none() | kinds.map(frozenset), st.sets(st.sampled_from(["null", "1"])).map(frozenset)
)
starts = st.sampled_from(
    ["", " ", "null", "None", "Nonsense", "true", "1", "-", "{", "[1]", '"a"', "a", "\n"]
)
values = st.lists(starts | st.text(max_size=3), max_size=4)


@settings(deadline=None, max_examples=500)
@given(shape=shapes, pieces=values)
def test_value_in_pieces_is_the_value_as_a_whole(shape: Shape, pieces: list[str]) -> None:
    arguments = Arguments(_Always(shape))
    arguments.open("p")
    given_on = "".join([*map(arguments.push, pieces), arguments.close(), arguments.end()])
    assert given_on == f'{{"p": {to_json("".join(pieces), shape)}}}'
    json.loads(given_on)


@settings(deadline=None, max_examples=300)
@given(shape=shapes, pieces=values)
def test_what_can_only_be_a_string_becomes_one(shape: Shape, pieces: list[str]) -> None:
    whole = "".join(pieces)
    if any(can_only_be_string("".join(pieces[:count]), shape) for count in range(len(pieces) + 1)):
        assert json.loads(to_json(whole, shape)) == whole


class _Always(Shapes):
    def __init__(self, shape: Shape) -> None:
        super().__init__({})
        self._shape_of_all = shape

    def of(self, name: str) -> Shape:
        return self._shape_of_all


@pytest.mark.parametrize(
    ("schema", "start"),
    [
        (STRING, ""),
        ({}, "a"),
        ({}, "\n\n5"),
        ({"type": ["string", "null"]}, "a"),
        ({"type": ["string", "null"]}, "nothing"),
        ({"anyOf": [STRING, INTEGER]}, "a"),
        ({"anyOf": [STRING, OBJECT]}, "[1"),
    ],
)
def test_string_streams_as_soon_as_it_can_be_nothing_else(schema: Any, start: str) -> None:
    arguments = Arguments(Shapes({"properties": {"p": schema}}))
    arguments.open("p")
    arguments.push(start)
    assert arguments.push("!x").endswith("!x")


@pytest.mark.parametrize(
    ("schema", "start"), [({}, "{"), ({"type": ["string", "null"]}, "nu"), (INTEGER, "a")]
)
def test_value_waits_where_it_may_be_something_else(schema: Any, start: str) -> None:
    arguments = Arguments(Shapes({"properties": {"p": schema}}))
    arguments.open("p")
    assert arguments.push(start) == ""


def test_parameter_that_comes_twice_counts_once() -> None:
    arguments = Arguments(Shapes({}))
    given_on = ""
    for name, value in (("a", "1"), ("b", "2"), ("a", "3")):
        arguments.open(name)
        given_on += arguments.push(value) + arguments.close()
    assert given_on + arguments.end() == '{"a": "1", "b": "2"}'
