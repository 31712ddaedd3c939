"""Schemas of strangers: refused by name where they cannot be kept, and never costly."""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from node.chat.chat import Chat
from node.chat.output_constraints import CallableTool, Calls, OutputConstraints
from node.chat.schema import SchemaError
from tests.chat.constrained import CALL, ENDINGS, RandomModel, stop_ids, xml_call

WIDTH = 2048
DEMO = Path(__file__).parents[2] / "weights" / "demo"


@pytest.fixture(scope="module")
def demo() -> Chat:
    return Chat.read(DEMO)


def of(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"p": value}, "required": ["p"], **more}


def strict(chat: Chat, schema: Any, calls: Calls = Calls.FREE) -> None:
    tool = CallableTool("f", schema, strict=True, path="tools.3.input_schema")
    chat.constraint(OutputConstraints(calls, (tool,)), stop_ids(chat), WIDTH)


UNSUPPORTED = [
    ("not", {"not": {"type": "integer"}}),
    ("if", {"if": {}, "then": {}}),
    ("uniqueItems", {"type": "array", "uniqueItems": True}),
    ("contains", {"type": "array", "contains": {}}),
    ("propertyNames", {"type": "object", "propertyNames": {"maxLength": 3}}),
    ("dependentRequired", {"type": "object", "dependentRequired": {"a": ["b"]}}),
    ("unevaluatedProperties", {"type": "object", "unevaluatedProperties": False}),
    ("minProperties", {"type": "object", "minProperties": 2}),
    ("$dynamicRef", {"$dynamicRef": "#x"}),
    ("frobnicate", {"type": "integer", "frobnicate": 1}),
    ("format", {"type": "string", "format": "idn-email"}),
    ("pattern", {"type": "string", "pattern": "^(?!x).*$"}),
    ("pattern", {"type": "string", "pattern": "(a)\\1"}),
    ("pattern", {"type": "string", "pattern": "^a|b$"}),
    ("pattern", {"type": "string", "pattern": "x{9000}"}),
    ("type", {"type": "text"}),
    ("enum", {"enum": []}),
    ("oneOf", {"oneOf": [{"type": "number"}, {"type": "integer"}]}),
    ("minimum", {"type": "integer", "minimum": "1"}),
    ("required", {"type": "object", "required": "p"}),
    ("$ref", {"$ref": "https://example.com/schema.json"}),
    ("$ref", {"$ref": "#/$defs/missing"}),
    ("$ref", {"$ref": "#anchor"}),
]


@pytest.mark.parametrize(("keyword", "value"), UNSUPPORTED)
def test_strict_tools_refuse_what_cannot_be_kept(demo: Chat, keyword: str, value: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        strict(demo, of(value))
    assert caught.value.path == "tools.3.input_schema"
    assert caught.value.keyword == keyword
    assert str(caught.value)


@pytest.mark.parametrize(("keyword", "value"), [c for c in UNSUPPORTED if c[1].get("pattern") != "^a|b$"])
def test_outputs_refuse_what_cannot_be_kept(demo: Chat, keyword: str, value: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        demo.constraint(OutputConstraints(output=of(value)), stop_ids(demo), WIDTH)
    assert caught.value.path == "output_config.format.schema"
    assert caught.value.keyword == keyword


@pytest.mark.parametrize(("keyword", "value"), UNSUPPORTED)
def test_b21_what_is_not_strict_is_not_refused(demo: Chat, tiny: Chat, keyword: str, value: Any) -> None:
    for chat, width in ((demo, WIDTH), (tiny, 480)):
        constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", of(value)),), parallel=False)
        answer = RandomModel(chat, 1, likes=(*ENDINGS, "b", "a")).answer(constraints, width)
        assert CALL.fullmatch(answer), keyword


ADVERSARIAL: dict[str, Any] = {
    "exponential": {"type": "string", "pattern": "^((a|aa)*){1000}$"},
    "nested repeats": {"type": "string", "pattern": "^((((a{10}){10}){10}){10}){10}$"},
    "late states": {"type": "string", "pattern": "^.*a.{300}b$"},
    "huge lengths": {"type": "string", "minLength": 1, "maxLength": 10**12},
    "length and pattern": {
        "type": "string",
        "pattern": "^([a-z]+[0-9])*$",
        "minLength": 99,
        "maxLength": 1999,
    },
    "many items": {"type": "array", "minItems": 10**6, "items": {"type": "integer"}},
    "enum": {"enum": [f"value {n}" for n in range(4999)]},
    "all of any": {"allOf": [{"anyOf": [of({"type": "integer", "minimum": n}) for n in range(8)]}] * 5},
    "bytes": {"enum": ["x" * 300_000]},
    "values": {"enum": list(range(6000))},
    "schemas": {"anyOf": [{"type": "integer", "minimum": n} for n in range(6000)]},
    "numbers": {
        "anyOf": [{"type": "number", "minimum": n + 0.1234567, "multipleOf": 0.001} for n in range(300)]
    },
    "properties": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}},
    "patterns": {"anyOf": [{"type": "string", "pattern": f"^.*{n}.{{{n}}}$"} for n in range(150)]},
}
ADVERSARIAL["items in items"] = {"type": "integer"}
for _ in range(60):
    ADVERSARIAL["items in items"] = {"type": "array", "minItems": 30, "items": ADVERSARIAL["items in items"]}
ADVERSARIAL["fans"] = {"$ref": "#/$defs/0"}
FANS = {
    str(n): of({"allOf": [{"$ref": f"#/$defs/{n + 1}"}, {"$ref": f"#/$defs/{n + 1}"}]})
    if n < 40
    else {"type": "integer"}
    for n in range(41)
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_schemas_cost_little(demo: Chat, name: str) -> None:
    demo.warm_constraints(WIDTH)
    schema = of(ADVERSARIAL[name], **{"$defs": FANS})
    began = time.thread_time()
    for constraints in (
        OutputConstraints(output=schema),
        OutputConstraints(tools=(CallableTool("f", schema, strict=True),)),
    ):
        try:
            demo.constraint(constraints, stop_ids(demo), WIDTH)
        except SchemaError as error:
            assert len(str(error)) < 500
    assert time.thread_time() - began < 2


def test_depth_is_limited(demo: Chat) -> None:
    deep: Any = {"type": "integer"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError):
        strict(demo, of(deep))


def test_recursive_references_are_kept(demo: Chat) -> None:
    tree = of({"$ref": "#/definitions/a~1b"})
    tree["definitions"] = {
        "a/b": {
            "type": "object",
            "description": "beside a reference to itself",
            "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/definitions/a~1b", "title": "x"}},
            "required": ["n"],
            "additionalProperties": False,
        }
    }
    constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", tree, strict=True),), parallel=False)
    for seed in range(10):
        body = CALL.fullmatch(RandomModel(demo, seed).answer(constraints, WIDTH))
        assert body
        value = xml_call(body[1], {"f": {"properties": {"p": {"type": "object"}}}})[1]["p"]
        while value:
            assert isinstance(value.pop("n"), int)
            value = value.pop("next", None)


def is_duration(text: str) -> None:
    assert re.fullmatch(r"P(?=.)(\d+[YMWD])*(T(\d+[HMS])+)?", text)


def is_host(text: str) -> None:
    assert len(text) < 254
    assert all(re.fullmatch("(?!-)[a-zA-Z0-9-]{1,63}(?<!-)", part) for part in text.split("."))


JUDGES = {
    "date": datetime.date.fromisoformat,
    "time": lambda text: datetime.time.fromisoformat(re.sub(r"\.\d+", "", text)),
    "date-time": lambda text: datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", text)),
    "duration": is_duration,
    "email": lambda text: is_host(text.partition("@")[2]),
    "hostname": is_host,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "uuid": uuid.UUID,
    "uri": lambda text: re.compile("[a-z]", re.I).match(text[0]),
}


@pytest.mark.parametrize("name", JUDGES)
def test_formats_of_raw_strings_are_kept(demo: Chat, name: str) -> None:
    schema = of({"type": "string", "format": name})
    constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", schema, strict=True),), parallel=False)
    for seed in range(8):
        body = CALL.fullmatch(RandomModel(demo, seed, likes=(*ENDINGS, ":")).answer(constraints, WIDTH))
        assert body
        value = xml_call(body[1], {"f": schema})[1]["p"]
        if name.startswith("date") and value.startswith("0000"):
            continue  # a year that RFC 3339 has and Python has not
        JUDGES[name](value)


def test_lengths_count_characters_of_raw_strings(demo: Chat) -> None:
    schema = of({"type": "string", "minLength": 3, "maxLength": 4})
    constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", schema, strict=True),), parallel=False)
    for seed in range(30):
        body = CALL.fullmatch(RandomModel(demo, seed).answer(constraints, WIDTH))
        assert body
        assert 3 <= len(xml_call(body[1], {"f": schema})[1]["p"]) <= 4


def test_top_of_a_strict_schema_is_an_object_of_properties(demo: Chat) -> None:
    with pytest.raises(SchemaError) as caught:
        strict(demo, {"anyOf": [of({"type": "integer"}), of({"type": "string"})]})
    assert caught.value.keyword == "anyOf"


@pytest.mark.parametrize("name", ["e\u0301x", "\u212b", "\ufb01", '"\\ b', "日本 語"])
def test_names_are_kept_whatever_the_tokenizer_would_make_of_them(demo: Chat, tiny: Chat, name: str) -> None:
    schema = {"type": "object", "properties": {name: {"const": name}}, "required": [name]}
    constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", schema, strict=True),), parallel=False)
    call = CALL.fullmatch(RandomModel(demo, 1).answer(constraints, WIDTH))
    assert call
    assert call[1] == f"<function=f>\n<parameter={name}>\n{name}\n</parameter>\n</function>"
    call = CALL.fullmatch(RandomModel(tiny, 1).answer(constraints, 480))
    assert call
    assert json.loads(call[1])["arguments"] == {name: name}


def test_long_enums_of_raw_strings_are_kept(demo: Chat) -> None:
    schema = of({"type": "string", "enum": [f"value {n}" for n in range(4000)]})
    constraints = OutputConstraints(Calls.FORCED, (CallableTool("f", schema, strict=True),), parallel=False)
    call = CALL.fullmatch(RandomModel(demo, 1).answer(constraints, WIDTH))
    assert call
    assert xml_call(call[1], {"f": schema})[1]["p"] in schema["properties"]["p"]["enum"]
