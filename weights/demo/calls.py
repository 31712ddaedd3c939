"""Conversations with tools: calls, two at once, results, errors, and questions whose tool is missing."""

from __future__ import annotations

from weights.demo.conversation import Conversation, Message, assistant, result, system, user
from weights.demo.tools import Request, Tool, make_request, make_tool, outcome
from weights.demo.topics import TOPICS, Topic
from weights.demo.words import Words


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
    return [system(plain_rule(w))]


def plain_rule(w: Words) -> str:
    return w.pick(PLAIN_RULES).format(w.word().capitalize())


PLAIN_RULES = (
    "You are a helpful assistant.",
    "You are a helpful assistant with tools.",
    "Use the tools when they fit.",
    "Be brief.",
    "Answer the user.",
    "You help people of a small company.",
    "You are a support agent of {}.",
    "You work for {}. Be polite.",
)


def offer(w: Words, wanted: list[Topic], count: int) -> tuple[list[Tool], list[Tool]]:
    """Tools for the wanted topics, and the list that is shown: those among others, shuffled."""
    needed = [make_tool(w, topic) for topic in wanted]
    others = [make_tool(w, topic) for topic in w.random.sample([t for t in TOPICS if t not in wanted], 4)]
    shown = needed + others[: max(count - len(needed), 0)]
    names: dict[str, Tool] = {tool.name: tool for tool in reversed(shown)}
    shown = list(names.values())
    w.random.shuffle(shown)
    return needed, shown


def listing(tools: list[Tool]) -> str:
    return "I have " + ", ".join(tool.name for tool in tools) + "."


def opening(w: Words, request: Request, shown: list[Tool], fits: bool = True) -> Message:
    """The first answer: a call, or a word that nothing fits. Thinking names the wish, then what is there."""
    do = request.tool.topic.do
    why = f"The user wants to {do}. {listing(shown)}"
    if fits:
        return assistant("", why, (request.call,), verdict=f"{request.tool.name} can do that.")
    return assistant(f"Sorry, none of my tools can {do}.", why, verdict="None of them can do that.")


def build(w: Words, kind: str, messages: list[Message], shown: list[Tool], thinking: bool) -> Conversation:
    return Conversation(kind, tuple(messages), tuple(tool.definition for tool in shown), thinking)


def single(w: Words, thinking: bool) -> list[Conversation]:
    (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 4))
    request = make_request(w, tool)
    return [
        build(
            w,
            "call",
            [*rules(w), user(say(w, request.question)), opening(w, request, shown)],
            shown,
            thinking,
        )
    ]


def missing_pair(w: Words, thinking: bool, alone: float = 0.3) -> list[Conversation]:
    """The same question with the fitting tool and without it: only the list decides. `alone`: share of single tools."""
    topic, count = w.pick(TOPICS), 1 if w.chance(alone) else w.random.randint(2, 4)
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
        (tool,), shown = offer(w, [w.pick([t for t in TOPICS if t.slots])], w.random.randint(1, 3))
        requests = [make_request(w, tool), make_request(w, tool)]
        why = f"The user wants to {tool.topic.do}, twice. {listing(shown)} I call {tool.name} two times."
    else:
        tools, shown = offer(w, w.random.sample(TOPICS, 2), w.random.randint(2, 4))
        requests = [make_request(w, tool) for tool in tools]
        first, second = tools
        why = f"The user wants to {first.topic.do} and to {second.topic.do}. {listing(shown)} "
        why += f"I call {first.name} and {second.name}."
    a, b = (request.question for request in requests)
    joint = w.pick(
        ["{a} {b}", "{a} And {b}", "{a} Also: {b}", "{a} Then: {b}", "First: {a} Second: {b}", "{a}\n{b}"]
    )
    if a[-1] not in "?." and "\n" not in joint:
        a += "."
    return (
        requests,
        shown,
        say(w, joint.format(a=a, b=b)),
        assistant("", why, tuple(r.call for r in requests)),
    )


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
        messages += [
            user(w.pick(["Thanks!", "Thank you.", "thanks", "Great, thanks!"])),
            assistant("You are welcome!", "The user thanks me."),
        ]
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
    "{Word} not found", "unknown {word}", "permission denied", "no connection", "service {word} is down",
    "quota of {d} exceeded",
    "invalid value {word}", "code {i}", "{word} is not available", "access to {word} refused",
)  # fmt: skip


def failed(w: Words, thinking: bool) -> list[Conversation]:
    """An error is passed on in its own words; one that says "try again" is tried once more."""
    (tool,), shown = offer(w, [w.pick(TOPICS)], w.random.randint(1, 3))
    request = make_request(w, tool)
    start = [*rules(w), user(say(w, request.question)), opening(w, request, shown)]
    if w.chance(0.35):
        trouble = w.pick(["timeout", "busy", "temporary failure", "server overloaded"]) + w.pick(
            [", try again", ". Try again.", ", please try again"]
        )
        start += [
            result(f"Error: {trouble}"),
            assistant("", "It failed, but I may try again.", (request.call,)),
        ]
        if w.chance(0.5):
            return [build(w, "retry", start, shown, thinking)]
        got, said = outcome(w, request)
        start += [result(got), assistant(said, f"The tool says: {got}. I tell the user.")]
        return [build(w, "retry result", start, shown, thinking)]
    trouble = w.pick(FAILURES).format(
        Word=w.word().capitalize(), word=w.word(), d=w.random.randint(2, 99), i=w.random.randint(100, 999)
    )
    start += [
        result(f"Error: {trouble}"),
        assistant(f"Sorry, that failed: {trouble}.", f"The tool failed: {trouble}. I say so."),
    ]
    return [build(w, "error", start, shown, thinking)]


def beside(w: Words, talk: Conversation) -> Conversation:
    """A chat while tools are offered, which nobody needs."""
    _, shown = offer(w, [], w.random.randint(1, 4))
    return build(w, "chat beside tools", list(talk.messages), shown, talk.thinking)
