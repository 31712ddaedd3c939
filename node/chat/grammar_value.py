"""Values of the XML form of calls: strings as they are, everything else as JSON, by the parameter's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from node.chat.schema import BOUNDS, TYPES, UNIONS, SchemaError
from node.chat.schema_pattern import FORMATS, PatternError, whole

if TYPE_CHECKING:
    from node.chat.grammar import Rules

CLOSING: Final = "\n</parameter>\n"
# What ends a value for those who read it (xml_call.py), with or without a line end before: no value holds it.
_ENDS: Final = r"/(?s:.*)<\/parameter>\n<(parameter=|\/function>)(?s:.*)/"
MAX_LENGTH: Final = 5000  # of a string whose length is limited: the engine writes repeats out

_STRINGS: Final = frozenset({"pattern", "format", "minLength", "maxLength"})
_OF_TYPE: Final = {
    "string": _STRINGS,
    "number": BOUNDS,
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "object": frozenset(
        {"properties", "patternProperties", "additionalProperties", "required", "maxProperties"}
    ),
}


def free_text(rules: Rules) -> str:
    """The name of the rule for any string at all and what closes it."""
    text = rules.add(f"/(?s:.*)/ & ~{_ENDS}", terminal=True)
    return rules.add(text, options=f"[suffix={json.dumps(CLOSING)}]")


class RawValues:
    """Adds rules for the values of one tool, each with its closing tag in it."""

    def __init__(self, rules: Rules, definitions: Mapping[str, Any], path: str, strict: bool) -> None:
        self._rules = rules
        self._definitions = definitions
        self._path = path
        self._strict = strict
        self._text = free_text(rules)

    def add(self, schema: Any, name: str) -> str:
        """The name of the rule for a parameter's value and what closes it. Raises SchemaError."""
        ways = list(dict.fromkeys(self._ways(schema, name, frozenset())))
        # Free text takes in all that the other ways would write, and which of them was meant shows afterwards.
        return self._text if self._text in ways else self._rules.add(" | ".join(ways))

    def _ways(self, schema: Any, name: str, followed: frozenset[str]) -> list[str]:
        """Rules, any of which the value may follow."""
        if not isinstance(schema, Mapping) or not schema:
            if schema is False:
                raise SchemaError(self._path, None, f"{name}: the schema false allows nothing")
            return [self._text]
        if "enum" in schema or "const" in schema:
            return self._constants(schema, name)
        if "$ref" in schema and len(schema) == 1:
            number = schema["$ref"].rpartition("/")[2]
            if number in followed:
                raise SchemaError(self._path, "$ref", f"{name}: refers to itself and to nothing else")
            return self._ways(self._definitions[number], name, followed | {number})
        if len(union := [keyword for keyword in UNIONS if keyword in schema]) > 0:
            if len(schema) == 1 and self._is_choice(union[0], schema[union[0]]):
                return [way for one in schema[union[0]] for way in self._ways(one, name, followed)]
            if schema.get("type", "string") == "string":
                return self._undecided(union[0], name)
        kinds = schema.get("type") or [kind for kind, keys in _OF_TYPE.items() if keys & schema.keys()]
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if not kinds:
            return self._undecided("$ref", name)
        others = [kind for kind in kinds if kind != "string"]
        ways = [self._string(schema, name)] if "string" in kinds else []
        if others:
            value = self._rules.json({**schema, "type": others} | self._referred(schema))
            ways.append(self._rules.add(f"{value} {json.dumps(CLOSING)}"))
        return ways

    def _is_choice(self, keyword: str, ways: list[Any]) -> bool:
        """Whether a value that keeps to one of the ways keeps to the union of them."""
        if keyword == "oneOf" and self._strict:
            ways = [one if isinstance(one, Mapping) else {} for one in ways]
            constants = [repr(value) for one in ways for value in one.get("enum", [one.get("const")])]
            if all({"enum", "const"} & one.keys() for one in ways):
                return len(set(constants)) == len(constants)
            kinds = ["number" if one.get("type") == "integer" else str(one.get("type")) for one in ways]
            return len(set(kinds)) == len(kinds) and set(kinds) <= set(TYPES)
        return keyword != "allOf" or len(ways) == 1

    def _undecided(self, keyword: str, name: str) -> list[str]:
        """A mixture that may be a string, and of which no regular expression can be made."""
        if self._strict:
            raise SchemaError(
                self._path, keyword, f"{name}: {keyword} beside other keywords, where a string is allowed"
            )
        return [self._text]

    def _referred(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"$defs": self._definitions} if '"$ref"' in json.dumps(schema) else {}

    def _constants(self, schema: Mapping[str, Any], name: str) -> list[str]:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        kinds = schema.get("type") or ["string", None]
        strings = [
            v for v in values if isinstance(v, str) and "string" in kinds and "</parameter>\n" not in v
        ]
        if rest := schema.keys() - {"enum", "const", "type", "minimum", "maximum"}:
            return self._undecided(min(rest), name)
        ways = []
        if strings:  # one lexeme: as so many rules, a long list would cost the parser a row of items
            texts = " | ".join(json.dumps(v + CLOSING, ensure_ascii=False) for v in strings)
            ways.append(self._rules.add(texts, terminal=True))
        if others := [v for v in values if not isinstance(v, str)]:
            typed = {k: v for k, v in schema.items() if k not in ("enum", "const")}
            value = self._rules.json({**typed, "enum": others})
            ways.append(self._rules.add(f"{value} {json.dumps(CLOSING)}"))
        if not ways:
            raise SchemaError(self._path, "enum", f"{name}: none of its values can be written")
        return ways

    def _string(self, schema: Mapping[str, Any], name: str) -> str:
        """Of a raw string. The closing tag is part of one lexeme with it: the lexer would run past it else."""
        if not _STRINGS & schema.keys():
            return self._text
        try:
            patterns = [whole(schema["pattern"])] if "pattern" in schema else []
        except PatternError as error:
            if self._strict:
                raise SchemaError(self._path, "pattern", f"{name}: pattern {error}") from error
            return self._text
        if "format" in schema:
            patterns.append(f"({FORMATS[schema['format']]})".replace("/", r"\/"))
        if {"minLength", "maxLength"} & schema.keys():
            low, high = schema.get("minLength", 0), schema.get("maxLength")
            if max(low, high or 0) > MAX_LENGTH:
                if low > MAX_LENGTH and self._strict:
                    raise SchemaError(self._path, "minLength", f"{name}: more than {MAX_LENGTH} characters")
                low, high = min(low, MAX_LENGTH), min(high or MAX_LENGTH, MAX_LENGTH)
            patterns.append(f"(?s:.{{{low},{'' if high is None else high}}})")
        no_closing = r"~/(?s:.*)\n<\/parameter>\n(?s:.*)/"
        content = " & ".join([*(f"/{pattern}/" for pattern in patterns), no_closing, f"~{_ENDS}"])
        terminal = self._rules.add(f"({content}) {json.dumps(CLOSING)}", terminal=True)
        return self._rules.add(terminal, options="[lazy]")
