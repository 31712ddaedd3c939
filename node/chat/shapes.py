"""What a tool's JSON schema says of each parameter, as far as it decides how a value is to be read.

Schemas are strangers' texts: references may go in circles, and branches may share branches without end. The
depth is bounded, which ends circles too, and what is known of a schema is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any
from urllib.parse import unquote

DEEPEST = 64  # schemas in each other; what is deeper counts as untyped
LONGEST_MATCHED = 128  # characters of a name that patterns are tried on

KINDS_OF_TYPE = {
    "string": {"string"},
    "integer": {"integer"},
    "number": {"number", "integer"},
    "boolean": {"boolean"},
    "null": {"null"},
    "array": {"array"},
    "object": {"object"},
}

# No groups, no alternatives and at most two repeats: others could take Python's matcher for ever.
_CHEAP_PATTERN = re.compile(r"[^()|*+?{]*(?:[*+?{][^()|*+?{]*){0,2}")


@dataclass(frozen=True, slots=True)
class Shape:
    """kinds     of JSON value that the schema allows, None where it does not say; 7 is an integer, 7.0 a number
    literals  strings that it lists
    """

    kinds: frozenset[str] | None = None
    literals: frozenset[str] = frozenset()

    def __or__(self, other: Shape) -> Shape:
        kinds = None if self.kinds is None or other.kinds is None else self.kinds | other.kinds
        return Shape(kinds, self.literals | other.literals)

    def __and__(self, other: Shape) -> Shape:
        if self.kinds is None or other.kinds is None:
            kinds = self.kinds or other.kinds
        else:
            kinds = (self.kinds & other.kinds) or None  # a contradiction says nothing
        return Shape(kinds, self.literals | other.literals)


ANY = Shape()
NULL = Shape(frozenset({"null"}))
TEXT = Shape(frozenset({"string"}))


class Shapes:
    """The shapes of one tool's parameters."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._known: dict[int, Shape] = {}

    def of(self, name: str) -> Shape:
        """The shape of a parameter; ANY for one that the schema does not know."""
        shapes = [self._shape(schema) for schema in self._schemas(name)]
        telling = [shape for shape in shapes if shape != ANY]
        return reduce(Shape.__or__, telling) if telling else ANY

    @cached_property
    def _objects(self) -> list[Mapping[str, Any]]:
        """The root and all schemas that it is composed of."""
        found: dict[int, Mapping[str, Any]] = {}
        following: list[Any] = [self._root]
        while following:
            schema = following.pop()
            if isinstance(schema, Mapping) and id(schema) not in found:
                found[id(schema)] = schema
                following += [self._target(schema.get("$ref"))]
                following += [
                    branch for word in ("allOf", "anyOf", "oneOf") for branch in _listed(schema, word)
                ]
        return list(found.values())

    def _schemas(self, name: str) -> list[Any]:
        """All that is said of the parameter; the more general only where there is nothing more special."""
        properties = [_named(schema, "properties") for schema in self._objects]
        if exact := [members[name] for members in properties if name in members]:
            return exact
        patterns = [_named(schema, "patternProperties") for schema in self._objects]
        matched = [member for members in patterns for key, member in members.items() if _matches(key, name)]
        return matched or [schema.get("additionalProperties") for schema in self._objects]

    def _shape(self, schema: Any, depth: int = 0) -> Shape:
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return ANY
        if id(schema) not in self._known:
            shape = reduce(Shape.__and__, self._sayings(schema, depth + 1))
            self._known[id(schema)] = shape | NULL if schema.get("nullable") is True else shape
        return self._known[id(schema)]

    def _sayings(self, schema: Mapping[str, Any], depth: int) -> Iterator[Shape]:
        """What each keyword says; all of it holds."""
        yield _of_types(schema)
        if "const" in schema:
            yield _of_values([schema["const"]])
        yield _of_values(_listed(schema, "enum"))
        yield self._shape(self._target(schema.get("$ref")), depth)
        for branch in _listed(schema, "allOf"):
            yield self._shape(branch, depth)
        for word in ("anyOf", "oneOf"):
            if branches := _listed(schema, word):
                yield reduce(Shape.__or__, [self._shape(branch, depth) for branch in branches])

    def _target(self, reference: Any) -> Any:
        """What a reference within the schema leads to, None where it leads nowhere."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._root
        steps = [unquote(step) for step in reference[1:].split("/")[1:]]
        for place, step in enumerate(steps):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping):  # a name with a slash that should have been written ~1
                return found.get("/".join(steps[place:]))
            else:
                return None
        return found


def _of_types(schema: Mapping[str, Any]) -> Shape:
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    if not types or not all(isinstance(name, str) and name in KINDS_OF_TYPE for name in types):
        return ANY
    return Shape(frozenset().union(*(KINDS_OF_TYPE[name] for name in types)))


def _of_values(values: Iterable[Any]) -> Shape:
    values = list(values)
    if not values:
        return ANY
    literals = frozenset(value for value in values if isinstance(value, str))
    return Shape(frozenset(kind_of(value) for value in values), literals)


def kind_of(value: Any) -> str:
    """The kind of a JSON value, as Python has it."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case Mapping():
            return "object"
        case _:
            return "array"


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _named(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _matches(pattern: str, name: str) -> bool:
    if len(name) > LONGEST_MATCHED or len(pattern) > LONGEST_MATCHED or not _CHEAP_PATTERN.fullmatch(pattern):
        return False
    try:
        return re.search(pattern, name) is not None
    except (re.error, OverflowError):
        return False
