"""Grammars, in llguidance's dialect of Lark, of what follows `<tool_call>` and of an answer in JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from node.chat.grammar_value import RawValues, free_text
from node.chat.schema import SchemaError

# json.dumps writes a space after each separator and models were trained on that; nothing else is white, so that
# no answer is lost in white space that never ends.
JSON_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}


MAX_NAME: Final = 256  # characters of a parameter's name


@dataclass(frozen=True, slots=True)
class CallRule:
    """A tool as a grammar sees it: `schema` has gone through schema.plain, and is None for free arguments."""

    name: str
    schema: Mapping[str, Any] | None
    strict: bool
    path: str


class Rules:
    """The text of a grammar as it grows: each rule is added once, and given a name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, str] = {}

    def add(self, body: str, *, options: str = "", terminal: bool = False) -> str:
        """The name of the rule with this body. A terminal is one regular expression, and takes no options."""
        line = f"{options}: {body}"
        if line not in self._names:
            self._names[line] = f"{'T' if terminal else 'r'}{len(self._names)}"
            self._lines.append(self._names[line] + line)
        return self._names[line]

    def json(self, schema: Mapping[str, Any]) -> str:
        return self.add(f"%json {json.dumps({**schema, 'x-guidance': JSON_STYLE})}")

    def text(self, start: str) -> str:
        return "\n".join([f"start: {start}", *self._lines, ""])


def literal(text: str) -> str:
    """A string of the grammar that means just this text."""
    return json.dumps(text, ensure_ascii=False)


def output_grammar(schema: Mapping[str, Any]) -> str:
    """Of an answer that is JSON by a schema that went through schema.plain."""
    rules = Rules()
    return rules.text(rules.json(schema))


def call_grammar(tools: Collection[CallRule], *, xml: bool, end: int) -> str:
    """Of one call, from after `<tool_call>` to `</tool_call>`, whose id is `end`. Raises SchemaError."""
    rules = Rules()
    if xml:
        calls = [rules.add(literal(tool.name + ">\n") + _parameters(rules, tool)) for tool in tools]
        opening, closing = "\n<function=", "</function>\n"
    else:
        calls = [
            rules.add(f"{literal(tool.name + NAME_END)} {rules.json(_arguments(tool))}") for tool in tools
        ]
        opening, closing = '\n{"name": "', "}\n"
    return rules.text(f"{literal(opening)} ({' | '.join(calls)}) {literal(closing)} <[{end}]>")


NAME_END: Final = '", "arguments": '


def _arguments(tool: CallRule) -> Mapping[str, Any]:
    """The schema of the arguments as JSON: an object, that of a plain tool holds what the tool declares."""
    if tool.schema is None:
        return {"type": "object"}
    schema = {**tool.schema, "type": "object"}
    if not schema.keys() & {"additionalProperties", "patternProperties", "anyOf", "allOf", "oneOf", "$ref"}:
        schema["additionalProperties"] = False
    return schema


def _parameters(rules: Rules, tool: CallRule) -> str:
    """The parameters of the XML form, in the order of the schema, each at most once."""
    if tool.schema is None:
        name = rules.add(r"/[^\s<>]{1,64}/", terminal=True)
        return f' ("<parameter=" {name} ">\\n" {free_text(rules)})*'
    root = resolve(tool.schema, tool.schema)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in root:
            raise SchemaError(tool.path, keyword, f"{keyword} is not supported at the top of a tool's schema")
    properties: Mapping[str, Any] = root.get("properties", {})
    required: Collection[str] = root.get("required", ())
    other = root.get("additionalProperties", True)
    values = RawValues(rules, tool.schema.get("$defs", {}), tool.path, tool.strict)
    parts = []
    for name in dict.fromkeys([*properties, *required]):
        if set("\n<>") & set(name) or name != name.strip() or not 0 < len(name) <= MAX_NAME:
            raise SchemaError(tool.path, "properties", f"{name!r} cannot be the name of a parameter")
        if (schema := properties.get(name, other)) is False:
            if name in required:
                raise SchemaError(tool.path, "required", f"{name} is required, and not allowed")
            continue
        parameter = rules.add(f"{literal(f'<parameter={name}>' + chr(10))} {values.add(schema, name)}")
        parts.append(parameter + ("" if name in required else "?"))
    return "".join(f" {part}" for part in parts)


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Past references that stand alone, to the schema they mean."""
    seen = set()
    while isinstance(schema, Mapping) and schema.keys() <= {"$ref", "$defs"} and "$ref" in schema:
        number = schema["$ref"].rpartition("/")[2]
        if number in seen:
            return {}
        seen.add(number)
        schema = root.get("$defs", {})[number]
    return schema if isinstance(schema, Mapping) else {}
