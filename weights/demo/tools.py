"""Tools put together from topics, questions that need them, and what they return."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from weights.demo.topics import Slot, Topic
from weights.demo.words import Words, held_out

MADE_UP = 0.15  # share of names that nobody has seen, so that names are copied and not remembered
COMMANDS = ("ls", "cat", "rm", "head", "wc", "python", "touch", "du")


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition, and which of its parameters stands for which slot of the topic."""

    topic: Topic
    definition: dict
    keys: dict[str, str]

    @property
    def name(self) -> str:
        return self.definition["function"]["name"]


@dataclass(frozen=True, slots=True)
class Request:
    """A question in words, the call that it wants, and the values by slot."""

    tool: Tool
    question: str
    arguments: dict
    values: dict

    @property
    def call(self) -> tuple[str, dict]:
        return self.tool.name, self.arguments


def tool_name(w: Words, topic: Topic) -> str:
    if w.chance(MADE_UP):
        parts = [w.identifier(), w.identifier()] if w.chance(0.8) else [w.identifier()]
    else:
        parts = [*w.pick(topic.verbs.split()).split("_"), w.pick(topic.nouns.split())]
        if w.chance(0.12):
            parts = [parts[-1], *parts[:-1]]
    style = w.random.random()
    if style < 0.65:
        return "_".join(parts)
    if style < 0.78:
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style < 0.88:
        return "".join(part.capitalize() for part in parts)
    return "-".join(parts)


def schema(w: Words, slot: Slot) -> dict:
    kind, _, options = slot.kind.partition(":")
    named = {"int": "integer", "yes": "boolean", "list": "array", "decimal": "number"}
    spec: dict = {"type": named.get(kind, "string")}
    if kind == "one":
        spec["enum"] = options.split("|")
    if kind == "list":
        spec["items"] = {"type": "string"}
    if w.chance(0.75):
        spec["description"] = slot.about
    return spec


def make_tool(w: Words, topic: Topic) -> Tool:
    """Optional parameters are there more often than not; a made-up key always has a description to go by."""

    def make() -> Tool:
        properties, keys = {}, {}
        for slot in topic.slots:
            if slot.clause and w.chance(0.4):
                continue
            spec = schema(w, slot)
            if w.chance(MADE_UP):
                key, spec["description"] = w.identifier(), slot.about
            else:
                key = w.pick(slot.names.split())
            if key in properties:
                key += "_2"
            properties[key], keys[slot.key] = spec, key
        required = [keys[slot.key] for slot in topic.slots if not slot.clause]
        function = {"name": tool_name(w, topic), "description": w.pick(topic.about)}
        if w.chance(0.1) and any(noun in function["name"].lower() for noun in topic.nouns.split()):
            del function["description"]  # the name alone says it
        function["parameters"] = {"type": "object", "properties": properties, "required": required}
        return Tool(topic, {"type": "function", "function": function}, keys)

    for _ in range(200):
        tool = make()
        if held_out(f"{tool.name}|{','.join(tool.keys.values())}") == w.held:
            break
    return tool


def value(w: Words, slot: Slot):
    """What goes into the call."""
    kind, _, options = slot.kind.partition(":")
    if kind == "one":
        return w.pick(options.split("|"))
    if kind == "int":
        low, high = options.split("-")
        return w.random.randint(int(low), int(high))
    if kind == "yes":
        return w.chance(0.5)
    if kind == "list":
        return [getattr(w, options)() for _ in range(w.pick([1, 2, 2, 3]))]
    if kind == "cmd":
        return f"{w.pick(COMMANDS)} {w.path()}"
    return getattr(w, kind)()


def spoken(slot: Slot, given) -> str:
    """What the user says for it."""
    if isinstance(given, bool):
        return slot.kind.partition(":")[2].split("|")[0 if given else 1]
    if isinstance(given, list):
        return given[0] if len(given) == 1 else ", ".join(given[:-1]) + " and " + given[-1]
    return str(given)


def make_request(w: Words, tool: Tool) -> Request:
    ask, values, arguments = w.pick(tool.topic.asks), {}, {}
    for slot in tool.topic.slots:
        if slot.key not in tool.keys or (slot.clause and w.chance(0.5)):
            continue
        values[slot.key] = arguments[tool.keys[slot.key]] = value(w, slot)
        if slot.clause:
            body, end = re.fullmatch(r"(.*?)([?.]?)", ask).groups()
            ask = (
                body
                + (slot.clause if "{v}" in slot.clause else "{v}").replace("{v}", "{" + slot.key + "}")
                + end
            )
    words = {slot.key: spoken(slot, values[slot.key]) for slot in tool.topic.slots if slot.key in values}
    return Request(tool, ask.format_map(words), arguments, words)


def outcome(w: Words, request: Request) -> tuple[str, str]:
    """A result of the tool and the answer that quotes it."""

    class Fields(dict):
        def __missing__(self, key: str) -> str:
            made: dict[str, Callable[[], object]] = {
                "d": lambda: w.random.randint(1, 99),
                "i": lambda: w.random.randint(100, 9999),
                "x": w.decimal,
                "Word": lambda: w.word().capitalize(),
            }
            return str(made.get(key, lambda: getattr(w, key)())())

    fields = Fields(request.values)
    got = w.pick(request.tool.topic.results).format_map(fields)
    fields["r"] = got
    return got, w.pick(request.tool.topic.answers).format_map(fields)
