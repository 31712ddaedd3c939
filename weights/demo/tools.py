"""Conversations with tools: definitions put together from topics, questions that need them, calls, results, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from weights.demo.conversation import Conversation, Message, assistant, result, system, user
from weights.demo.topics import TOPICS, Slot, Topic
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
    spec: dict = {"type": {"int": "integer", "yes": "boolean", "list": "array"}.get(kind, "string")}
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
            ask = body + (slot.clause if "{v}" in slot.clause else "{v}").replace("{v}", "{" + slot.key + "}") + end
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


def say(w: Words, question: str) -> str:
    """The many ways to put one question."""
    if w.chance(0.15):
        question += w.pick([" Use the tool.", " Use a tool.", " Please.", " Thanks!", " Use the tool"])
    if w.chance(0.1):
        question = w.pick(["Please: ", "Hey, ", "Hello! ", "Hi, ", "Can you help? "]) + question
    if w.chance(0.12):
        question = question.rstrip("?.")
    return question


def rules(w: Words) -> list[Message]:
    """System texts that change nothing."""
    if w.chance(0.8):
        return []
    return [system(w.pick(PLAIN_RULES))]


PLAIN_RULES = (
    "You are a helpful assistant.",
    "You are a helpful assistant with tools.",
    "Use the tools when they fit.",
    "Be brief.",
    "Answer the user.",
    "You help people of a small company.",
)


def offer(w: Words, wanted: list[Topic], count: int, missing: bool = False) -> tuple[list[Tool], list[Tool]]:
    """Tools for the wanted topics, and the list that is shown: those among others, or only others when missing."""
    needed = [make_tool(w, topic) for topic in wanted]
    others = [make_tool(w, topic) for topic in w.random.sample([t for t in TOPICS if t not in wanted], 4)]
    shown = others[: max(count, 1)] if missing else needed + others[: max(count - len(needed), 0)]
    names: dict[str, Tool] = {tool.name: tool for tool in reversed(shown)}
    shown = list(names.values())
    w.random.shuffle(shown)
    return needed, shown


def listing(tools: list[Tool]) -> str:
    return "I have " + ", ".join(tool.name for tool in tools) + "."


def opening(w: Words, request: Request, shown: list[Tool], fits: bool = True) -> Message:
    """The first answer: a call, or a plain word that nothing fits. Thinking names the wish, then what is there."""
    why = f"The user wants to {request.tool.topic.do}. {listing(shown)} "
    if fits:
        return assistant("", why + f"{request.tool.name} can do that.", (request.call,))
    return assistant(f"Sorry, none of my tools can {request.tool.topic.do}.", why + "None of them can do that.")


def build(w: Words, kind: str, messages: list[Message], shown: list[Tool], thinking: bool) -> Conversation:
    return Conversation(kind, tuple(messages), tuple(tool.definition for tool in shown), thinking)


def single(w: Words, thinking: bool) -> list[Conversation]:
    (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 4))
    request = make_request(w, tool)
    return [build(w, "call", [*rules(w), user(say(w, request.question)), opening(w, request, shown)], shown, thinking)]


def missing_pair(w: Words, thinking: bool) -> list[Conversation]:
    """The same question with the fitting tool and without it: only the list decides."""
    topic, count = w.pick(TOPICS), w.random.randint(1, 4)
    (tool,), shown = offer(w, [topic], count)
    request = make_request(w, tool)
    asked, before = user(say(w, request.question)), rules(w)
    without = [other for other in shown if other is not tool]
    if not without or w.chance(0.5):
        used = {other.topic for other in shown}
        spare = make_tool(w, w.pick([t for t in TOPICS if t not in used]))
        without = [spare if other is tool else other for other in shown]
    return [
        build(w, "call", [*before, asked, opening(w, request, shown)], shown, thinking),
        build(w, "missing", [*before, asked, opening(w, request, without, fits=False)], without, thinking),
    ]


def two_requests(w: Words) -> tuple[list[Request], list[Tool], str, Message]:
    """Two wishes in one turn, of one topic or of two."""
    if w.chance(0.35):
        (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 3))
        requests = [make_request(w, tool), make_request(w, tool)]
        why = f"The user wants to {tool.topic.do}, twice. {listing(shown)} I call {tool.name} two times."
    else:
        tools, shown = offer(w, w.random.sample(TOPICS, 2), w.random.randint(2, 4))
        requests = [make_request(w, tool) for tool in tools]
        first, second = tools
        why = f"The user wants to {first.topic.do} and to {second.topic.do}. {listing(shown)} I call {first.name} and {second.name}."
    a, b = (request.question for request in requests)
    joint = w.pick(["{a} {b}", "{a} And {b}", "{a} Also: {b}", "{a} Then: {b}", "First: {a} Second: {b}", "{a}\n{b}"])
    if a[-1] not in "?." and "\n" not in joint:
        a += "."
    return requests, shown, say(w, joint.format(a=a, b=b)), assistant("", why, tuple(r.call for r in requests))


def double(w: Words, thinking: bool) -> list[Conversation]:
    _, shown, question, answer = two_requests(w)
    return [build(w, "two calls", [*rules(w), user(question), answer], shown, thinking)]


def answered(w: Words, thinking: bool) -> list[Conversation]:
    (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 3))
    request = make_request(w, tool)
    got, said = outcome(w, request)
    messages = [*rules(w), user(say(w, request.question)), opening(w, request, shown), result(got)]
    messages.append(assistant(said, f"The tool says: {got}. I tell the user."))
    if w.chance(0.15):
        messages += [user(w.pick(["Thanks!", "Thank you.", "thanks", "Great, thanks!"])), assistant("You are welcome!", "The user thanks me.")]
        return [build(w, "thanks", messages, shown, thinking)]
    if w.chance(0.2):
        other = make_request(w, tool)
        messages += [user(say(w, other.question)), opening(w, other, shown)]
        return [build(w, "call again", messages, shown, thinking)]
    return [build(w, "result", messages, shown, thinking)]


def answered_twice(w: Words, thinking: bool) -> list[Conversation]:
    requests, shown, question, answer = two_requests(w)
    (got, said), (got2, said2) = (outcome(w, request) for request in requests)
    why = f"The tools say: {got}, and: {got2}. I tell the user."
    messages = [*rules(w), user(question), answer, result(got), result(got2)]
    messages.append(assistant(" ".join(s if s[-1] in ".!" else s + "." for s in (said, said2)), why))
    return [build(w, "two results", messages, shown, thinking)]


FAILURES = (
    "{Word} not found", "unknown {word}", "permission denied", "no connection", "service {word} is down", "quota of {d} exceeded",
    "invalid value {word}", "code {i}", "{word} is not available", "access to {word} refused",
)  # fmt: skip


def failed(w: Words, thinking: bool) -> list[Conversation]:
    """An error is passed on in its own words; one that says "try again" is tried once more."""
    (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 3))
    request = make_request(w, tool)
    start = [*rules(w), user(say(w, request.question)), opening(w, request, shown)]
    if w.chance(0.35):
        trouble = w.pick(["timeout", "busy", "temporary failure", "server overloaded"]) + w.pick([", try again", ". Try again.", ", please try again"])
        start += [result(f"Error: {trouble}"), assistant("", "It failed, but I may try again.", (request.call,))]
        if w.chance(0.5):
            return [build(w, "retry", start, shown, thinking)]
        got, said = outcome(w, request)
        start += [result(got), assistant(said, f"The tool says: {got}. I tell the user.")]
        return [build(w, "retry result", start, shown, thinking)]
    trouble = w.pick(FAILURES).format(
        Word=w.word().capitalize(), word=w.word(), d=w.random.randint(2, 99), i=w.random.randint(100, 999)
    )
    start += [result(f"Error: {trouble}"), assistant(f"Sorry, that failed: {trouble}.", f"The tool failed: {trouble}. I say so.")]
    return [build(w, "error", start, shown, thinking)]


def beside(w: Words, talk: Conversation) -> Conversation:
    """A chat while tools are offered, which nobody needs."""
    _, shown = offer(w, [], w.random.randint(1, 4))
    return build(w, "chat beside tools", list(talk.messages), shown, talk.thinking)
