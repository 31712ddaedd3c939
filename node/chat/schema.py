"""A JSON schema from a stranger, made small, plain and self-contained, or refused by the keyword.

llguidance ignores keywords that it does not know. What is promised must not be weakened in silence, so the
keywords that pass are listed here, and the rest is refused where strictness was asked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from node.chat.schema_pattern import FORMATS, PatternError, check_cost

MAX_BYTES: Final = (
    256 * 1024
)  # Claude Code's largest tool has 10 KiB, an OpenAPI document turned into one 100
MAX_DEPTH: Final = 64  # of schemas in schemas; llguidance recurses
MAX_SCHEMAS: Final = 2000  # in one, references counted once; as properties of one object they take a second
MAX_VALUES: Final = 5000  # of all enums together; some 10 µs each
MAX_COUNT: Final = 10**9  # of characters or items; llguidance writes it into a regular expression
MAX_DIGITS: Final = 18  # of an integer without bounds, lest one never end; llguidance counts in 64 bits

# They say nothing about which values are valid. nullable widens: a value that is never null keeps to it.
ANNOTATIONS: Final = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$vocabulary", "id", "title", "description", "default"),
        *("example", "examples", "deprecated", "readOnly", "writeOnly", "nullable", "discriminator", "xml"),
        *("contentMediaType", "contentEncoding", "contentSchema", "externalDocs"),
    }
)
UNIONS: Final = ("anyOf", "oneOf", "allOf")
TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "maxProperties"})
BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


class SchemaError(Exception):
    """A schema that cannot be enforced: the client's to mend.

    path     of the schema in the request
    keyword  of the schema that is at fault, where one is
    """

    def __init__(self, path: str, keyword: str | None, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.keyword = keyword


def plain(schema: object, *, path: str, strict: bool) -> dict[str, Any]:
    """The schema without annotations, its references gathered in $defs under numbers.

    Raises SchemaError. Where it is not strict, a keyword that cannot be enforced is left out instead.
    """
    try:
        size = len(json.dumps(schema))
    except (RecursionError, ValueError, TypeError) as error:
        raise SchemaError(path, None, f"not a schema that can be read: {error}") from error
    if size > MAX_BYTES:
        raise SchemaError(path, None, f"{size} bytes, the limit is {MAX_BYTES}")
    return _Plain(schema, path, strict).made()


class _Plain:
    """One schema on its way. `references` numbers the texts of $ref, which `definitions` follows."""

    def __init__(self, root: object, path: str, strict: bool) -> None:
        self._root = root
        self._path = path
        self._strict = strict
        self._references: dict[str, str] = {}
        self._schemas = 0
        self._values = 0

    def made(self) -> dict[str, Any]:
        root: bool | dict[str, Any] = self._schema(self._root, "", 0)
        definitions: dict[str, Any] = {}
        while len(definitions) < len(self._references):
            text, number = list(self._references.items())[len(definitions)]
            definitions[number] = self._schema(self._resolved(text), text, 0)
        if isinstance(root, bool):
            if not root:
                raise SchemaError(self._path, None, "the schema false allows nothing")
            root = {}
        return root | ({"$defs": definitions} if definitions else {})

    def _refuse(self, location: str, keyword: str | None, why: str) -> SchemaError:
        where = location.lstrip("#/.")
        return SchemaError(self._path, keyword, f"{where}: {why}" if where else why)

    def _schema(self, schema: object, location: str, depth: int) -> Any:
        self._schemas += 1
        if self._schemas > MAX_SCHEMAS or depth > MAX_DEPTH:
            raise self._refuse("", None, f"more than {MAX_SCHEMAS} schemas, or {MAX_DEPTH} deep")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise self._refuse(location, None, "a schema is an object or a boolean")
        result: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword in ANNOTATIONS or keyword.startswith("x-") or keyword in ("$defs", "definitions"):
                continue
            try:
                result |= self._keyword(schema, keyword, value, location, depth + 1)
            except _Unsupported as error:
                if self._strict:
                    raise self._refuse(location, keyword, f"{keyword} {error}".strip()) from error
        if "integer" in _listed(result.get("type")):
            limit = 10**MAX_DIGITS - 1
            if not result.keys() & {"minimum", "exclusiveMinimum"}:
                result["minimum"] = -limit
            if not result.keys() & {"maximum", "exclusiveMaximum"}:
                result["maximum"] = limit
        return result

    def _keyword(
        self, schema: Mapping[str, Any], keyword: str, value: Any, location: str, depth: int
    ) -> dict[str, Any]:
        """What one keyword contributes. Raises _Unsupported."""
        here = f"{location}.{keyword}"
        if (keyword in ("enum", "const") or isinstance(value, float | int)) and not _is_finite(value):
            raise _Unsupported("has a number that is not finite, or too large to be read as one")
        match keyword, value:
            case "$ref", str():
                return {"$ref": f"#/$defs/{self._references.setdefault(value, str(len(self._references)))}"}
            case "anyOf" | "oneOf" | "allOf", [_, *_]:
                # Where no strictness was asked, which of several fits does not matter, if only one does.
                named = "anyOf" if keyword == "oneOf" and not self._strict else keyword
                return {named: [self._schema(one, f"{here}.{n}", depth) for n, one in enumerate(value)]}
            case "type", _ if value and all(kind in TYPES for kind in _listed(value)):
                return {keyword: value}
            case "enum", [_, *_]:
                self._count(len(value))
                return {keyword: value}
            case "const", _:
                self._count(1)
                return {keyword: value}
            case "properties" | "patternProperties", Mapping():
                if keyword == "patternProperties":
                    for pattern in value:
                        _afford(pattern)
                return {keyword: {k: self._schema(v, f"{here}.{k}", depth) for k, v in value.items()}}
            case "required", list() if all(isinstance(name, str) for name in value):
                return {keyword: value}
            case "items", list():
                return {"prefixItems": [self._schema(v, f"{here}.{n}", depth) for n, v in enumerate(value)]}
            case "prefixItems", list():
                return {keyword: [self._schema(v, f"{here}.{n}", depth) for n, v in enumerate(value)]}
            case "additionalItems", bool() | Mapping():
                # Says something only beside a list of items, and is named items since that is prefixItems.
                beside = isinstance(schema.get("items"), list)
                return {"items": self._schema(value, here, depth)} if beside else {}
            case "items" | "additionalProperties", bool() | Mapping():
                return {keyword: self._schema(value, here, depth)}
            case "pattern", str():
                _afford(value)
                return {keyword: value}
            case "format", str():
                if schema.get("type", "string") != "string":
                    return {}  # int32 and its like: a hint
                if value not in FORMATS:
                    raise _Unsupported(f"{value} is not known")
                return {keyword: value}
            case "minProperties", int() if value <= len(schema.get("required", ())):
                return {}
            case "uniqueItems", False:
                return {}
            case _, int() if keyword in COUNTS and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
                return {keyword: value}
            case _, int() | float() if keyword in BOUNDS:
                return {keyword: value}
        known = keyword in COUNTS | BOUNDS or keyword in (
            "$ref",
            "type",
            "enum",
            "properties",
            "required",
            *UNIONS,
        )
        raise _Unsupported("has a value that cannot be read" if known else "is not supported")

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._refuse("", "enum", f"more than {MAX_VALUES} values")

    def _resolved(self, text: str) -> object:
        """What a reference means. Only those that stay inside the schema do."""
        found = self._root
        if not text.startswith("#"):
            raise self._refuse("", "$ref", f"{text[:100]} leads out of the schema")
        for step in text[1:].split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise self._refuse("", "$ref", f"{text[:100]} leads nowhere")
        if text not in ("#", "#/") and "/" not in text:
            raise self._refuse("", "$ref", f"{text[:100]} names an anchor: only paths are followed")
        return found


class _Unsupported(Exception):
    """A keyword that cannot be enforced."""


def _afford(pattern: str) -> None:
    try:
        check_cost(pattern)
    except PatternError as error:
        raise _Unsupported(f"{pattern[:60]!r}: {error}") from error


def _is_finite(value: Any) -> bool:
    """Whether all numbers in a value are. 1e400 is JSON, but infinity to who reads it, which cannot be written."""
    following = [value]
    while following:
        one = following.pop()
        if isinstance(one, int | float) and not -sys.float_info.max <= one <= sys.float_info.max:
            return False
        following += one.values() if isinstance(one, Mapping) else one if isinstance(one, list) else ()
    return True


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
