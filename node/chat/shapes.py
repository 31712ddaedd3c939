"""What a tool's JSON schema says of each parameter, as far as it decides how a value is to be read.

Schemas are strangers' texts: references may go in circles, and branches may share branches without end. So
nothing is looked at before a call names the parameter, each schema is looked at once, and the work of a call
is bounded: what would take more counts as untyped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

DEEPEST = 64  # schemas in each other; what is deeper counts as untyped
MOST_WORK = 1000  # schemas, and stretches of references and lists, looked at for one call; some 5 µs each
STRETCH = 16  # characters or values
MOST_PATTERNS = 8  # of names; to compile one and try it can take 0.5 ms
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

# No groups, no alternatives, and a repeat or, from the start on, two: Python's matcher could take others for ever.
_REPEATED = r"[^()|*+?{]*(?:[*+?{][^()|*+?{]*)"
_CHEAP_PATTERN = re.compile(rf"\^{_REPEATED}{{0,2}}|{_REPEATED}?")

Kinds: TypeAlias = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Shape:
    """kinds     of JSON value that the schema allows, None where it does not say; 7 is an integer, 7.0 a number
    literals  strings that it lists
    """

    kinds: Kinds = None
    literals: frozenset[str] = frozenset()


ANY = Shape()
TEXT = Shape(frozenset({"string"}))


@dataclass(slots=True)
class _Known:
    """What has been found on the way through one parameter's schemas."""

    kinds: dict[int, Kinds] = field(default_factory=dict)  # by id of the schema
    literals: set[str] = field(default_factory=set)


class Shapes:
    """The shapes of one tool's parameters, for one call."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._work = 0

    def of(self, name: str) -> Shape:
        """The shape of a parameter; ANY for one that the schema does not know."""
        known = _Known()
        try:
            kinds = [self._kinds(schema, known) for schema in self._schemas(name)]
        except _TooMuch:
            return ANY
        telling = [allowed for allowed in kinds if allowed is not None]
        return Shape(frozenset().union(*telling) if telling else None, frozenset(known.literals))

    @cached_property
    def _objects(self) -> list[Mapping[str, Any]]:
        """The root and all schemas that it is composed of."""
        found: dict[int, Mapping[str, Any]] = {}
        following: list[Any] = [self._root]
        while following:
            schema = following.pop()
            self._spend(1)
            if isinstance(schema, Mapping) and id(schema) not in found:
                found[id(schema)] = schema
                following.append(self._target(schema.get("$ref")))
                for word in ("allOf", "anyOf", "oneOf"):
                    following += _listed(schema, word)
        return list(found.values())

    def _schemas(self, name: str) -> list[Any]:
        """All that is said of the parameter; the more general only where there is nothing more special."""
        properties = [_named(schema, "properties") for schema in self._objects]
        if exact := [members[name] for members in properties if name in members]:
            return exact
        patterns = [_named(schema, "patternProperties") for schema in self._objects]
        if sum(map(len, patterns)) > MOST_PATTERNS:
            return []
        matched = [member for members in patterns for key, member in members.items() if _matches(key, name)]
        return matched or [schema.get("additionalProperties") for schema in self._objects]

    def _kinds(self, schema: Any, known: _Known, depth: int = 0) -> Kinds:
        self._spend(1)
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return None
        if id(schema) not in known.kinds:
            known.kinds[id(schema)] = None  # in a circle it says nothing
            allowed: Kinds = None
            for said in self._sayings(schema, known, depth + 1):
                allowed = _both(allowed, said)
            if schema.get("nullable") is True and allowed is not None:
                allowed |= {"null"}
            known.kinds[id(schema)] = allowed
        return known.kinds[id(schema)]

    def _sayings(self, schema: Mapping[str, Any], known: _Known, depth: int) -> Iterator[Kinds]:
        """What each keyword says; all of it holds."""
        if "type" in schema:
            yield _of_types(schema["type"])
        for values in ([schema["const"]] if "const" in schema else [], _listed(schema, "enum")):
            if values:
                self._spend(len(values) // STRETCH)
                known.literals.update(value for value in values if isinstance(value, str))
                yield frozenset(map(kind_of, {type(value): value for value in values}.values()))
        if "$ref" in schema:
            yield self._kinds(self._target(schema["$ref"]), known, depth)
        for branch in _listed(schema, "allOf"):
            yield self._kinds(branch, known, depth)
        for word in ("anyOf", "oneOf"):
            if branches := _listed(schema, word):
                yield _either([self._kinds(branch, known, depth) for branch in branches])

    def _target(self, reference: Any) -> Any:
        """What a reference within the schema leads to, None where it leads nowhere."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        self._spend(len(reference) // STRETCH)
        found: Any = self._root
        steps = unquote(reference[1:]).split("/")[1:]
        for index, step in enumerate(steps):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping):  # a name with a slash that should have been written ~1
                return found.get("/".join(steps[index:]))
            else:
                return None
        return found

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MOST_WORK:
            raise _TooMuch


class _TooMuch(Exception):
    """The schema would take longer than a call is worth."""


def _both(one: Kinds, other: Kinds) -> Kinds:
    if one is None or other is None:
        return one or other
    return (one & other) or None  # a contradiction says nothing


def _either(branches: list[Kinds]) -> Kinds:
    telling = [allowed for allowed in branches if allowed is not None]
    return frozenset().union(*telling) if len(telling) == len(branches) else None


def _of_types(said: Any) -> Kinds:
    types = said if isinstance(said, list) else [said]
    if not 0 < len(types) <= len(KINDS_OF_TYPE):
        return None
    if not all(isinstance(name, str) and name in KINDS_OF_TYPE for name in types):
        return None
    return frozenset().union(*(KINDS_OF_TYPE[name] for name in types))


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
