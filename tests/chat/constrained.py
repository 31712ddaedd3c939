"""A model that samples at random what a constraint allows, and a judge of what came out."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from node.chat.chat import Chat
from node.chat.constraint_matcher import ConstraintMatcher
from node.chat.output_constraints import OutputConstraints

ENDINGS = ("<|im_end|>", "</tool_call>", "</think>", "\n</parameter>\n", '"', "}", "]", "</function>\n", "q")
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


def stop_ids(chat: Chat) -> frozenset[int]:
    return frozenset({chat.tokenizer.control["<|im_end|>"], chat.tokenizer.control["<|endoftext|>"]})


def allowed(mask: np.ndarray[Any, np.dtype[np.uint32]]) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


class RandomModel:
    """Some of its choices are random among all that is allowed, the others go for what it likes."""

    def __init__(self, chat: Chat, seed: int, eagerness: float = 0.6, likes: Sequence[str] = ENDINGS) -> None:
        self._chat = chat
        self._random = random.Random(seed)
        self._eagerness = eagerness
        control = chat.tokenizer.control
        self._endings = [[control[e]] if e in control else chat.tokenizer.encode(e) for e in likes]

    def ids(self, constraint: ConstraintMatcher, width: int, limit: int = 400) -> list[int]:
        """Sampled until a stop id, or up to the limit."""
        out: list[int] = []
        plan: list[int] = []
        new: tuple[int, ...] = ()
        while len(out) < limit and (not out or out[-1] not in stop_ids(self._chat)):
            mask = constraint.mask(new)
            if mask is None:
                ids = list(range(self._chat.tokenizer.vocabulary_size))
            else:
                assert mask.shape == (-(-width // 32),)
                ids = allowed(mask)
                assert ids, "nothing is allowed"
                assert ids[-1] < self._chat.tokenizer.vocabulary_size
            if not plan and self._random.random() < self._eagerness:
                fitting = [ending for ending in self._endings if ending[0] in ids]
                plan = list(self._random.choice(fitting)) if fitting else []
            if plan and plan[0] not in ids:
                plan = []
            number = plan.pop(0) if plan else self._random.choice(ids)
            out.append(number)
            new = (number,)
        return out

    def answer(self, constraints: OutputConstraints, width: int, limit: int = 1000) -> str:
        """Without the stop token, which it must reach."""
        constraint = self._chat.constraint(constraints, stop_ids(self._chat), width)
        assert constraint is not None
        ids = self.ids(constraint, width, limit)
        assert ids[-1] in stop_ids(self._chat), written(self._chat, ids)
        return written(self._chat, ids[:-1])


def written(chat: Chat, ids: Sequence[int]) -> str:
    return b"".join(map(chat.tokenizer.token_bytes, ids)).decode(errors="replace")


def xml_call(body: str, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call's inside, whose form must be exact."""
    found = re.fullmatch(r"<function=([^>\n]+)>\n(.*)</function>", body, re.DOTALL)
    assert found, body
    properties = schemas[found[1]].get("properties", {})
    arguments, rest = {}, found[2]
    while rest:
        value = re.match(r"<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n", rest, re.DOTALL)
        assert value, rest
        is_text = properties.get(value[1], {"type": "string"}).get("type") == "string"
        arguments[value[1]] = value[2] if is_text else json.loads(value[2])
        rest = rest[value.end() :]
    return found[1], arguments


def faults(value: Any, schema: Any, root: Mapping[str, Any], place: str = "") -> list[str]:
    """What is wrong with a value, by the part of JSON schema that the random schemas use."""
    if isinstance(schema, bool):
        return [] if schema else [place]
    if "$ref" in schema:
        return faults(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in schema:
        return [] if any(not faults(value, one, root) for one in schema["anyOf"]) else [f"{place}: anyOf"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: {value!r} of enum"]
    kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
    kinds |= {"array": list, "object": dict}
    kind = schema.get("type", "object")
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{place}: {value!r} is no {kind}"]
    found = []
    if isinstance(value, str):
        length = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        if not length or not re.search(schema.get("pattern", ""), value):
            found.append(f"{place}: {value!r}")
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{place}: {len(value)} items")
        found += [
            f for n, one in enumerate(value) for f in faults(one, schema["items"], root, f"{place}.{n}")
        ]
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, one in value.items():
            found += faults(one, properties.get(name, False), root, f"{place}.{name}")
    elif isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        found.append(f"{place}: {value} out of bounds")
    return found


def random_schema(random: random.Random, depth: int = 0) -> dict[str, Any]:
    """An object's schema, of properties that may be anything."""
    names = random.sample(["a", "b c", "ü", "longer_name", "e"], random.randint(0 if depth else 1, 4))
    properties = {name: _random_value(random, depth) for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    schema["required"] = [name for name in names if random.random() < 0.6]
    if depth == 0:
        schema["$defs"] = {"pair": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}
    return schema


def _random_value(random: random.Random, depth: int) -> dict[str, Any]:
    simple: list[dict[str, Any]] = [
        {"type": "string", "description": "free"},
        {"type": "string", "minLength": 2, "maxLength": 6},
        {"type": "string", "pattern": "^[a-c]+(x|yz)$"},
        {"type": "string", "pattern": "q"},
        {"type": "string", "enum": ["one", 'tw"o\n', "<three>", "ü"]},
        {"type": "integer"},
        {"type": "integer", "minimum": -3, "maximum": 120},
        {"type": "number", "minimum": 0.5, "maximum": 2},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": [1, None, True]},
        {"$ref": "#/$defs/pair"},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    ]
    if depth < 2 and random.random() < 0.3:
        if random.random() < 0.5:
            return random_schema(random, depth + 1)
        return {"type": "array", "items": _random_value(random, depth + 1), "minItems": 1, "maxItems": 3}
    return random.choice(simple)
