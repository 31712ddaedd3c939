"""Conversations without tools.

Each maker returns (question, thought, answer); other turns and system rules are put around them.
"""

from __future__ import annotations

import json

from weights.demo import facts
from weights.demo.arithmetic import Exchange, add, count, larger, prime
from weights.demo.asks import ASKS, MEMORIES
from weights.demo.calls import plain_rule, say
from weights.demo.conversation import Conversation, Message, assistant, system, user
from weights.demo.tools import make_request, make_tool
from weights.demo.topics import TOPICS
from weights.demo.words import Words

ASKING = {"who", "what", "which", "are", "how", "where", "when", "why", "do", "is", "can"}


def typed(w: Words, question: str) -> str:
    """As people type: with or without capital and question mark."""
    style = w.random.random()
    if style < 0.45:
        return question[0].upper() + question[1:]
    if style < 0.6:
        return question.rstrip("?.!")
    if style < 0.7:
        return question[0].upper() + question[1:].rstrip("?.!")
    if style < 0.78:
        return w.pick(["Please ", "please ", "Can you tell me: ", "Hey, ", "Question: "]) + question
    if style < 0.82:
        return question.upper() if question.isascii() and len(question) < 40 else question
    return question


def river(w: Words) -> Exchange:
    place, name = w.pick(list(facts.RIVERS.items())) if w.chance(0.7) else ("Oregon", "Willamette")
    question = w.pick(ASKS["river"])
    return (
        question.format(place),
        f"The user wants a river in {place}. The {name} is one.",
        f"The {name} is a river in {place}.",
    )


def capital(w: Words) -> Exchange:
    place, name = w.pick(list(facts.CAPITALS.items()))
    if w.chance(0.25):
        return (
            w.pick(ASKS["capital of what"]).format(name),
            f"{name} is in {place}.",
            f"{name} is the capital of {place}.",
        )
    question = w.pick(ASKS["capital"])
    return (
        question.format(place),
        f"The user wants the capital of {place}. It is {name}.",
        f"The capital of {place} is {name}.",
    )


def small_talk(w: Words) -> Exchange:
    ways, said = w.pick(facts.SMALL_TALK) if w.chance(0.7) else w.pick(facts.SMALL_TALK[:8])
    way = w.pick(ways)
    mark = "?" if way.split()[0].lower() in ASKING else w.pick(["", ".", "!"])
    return way + mark, "A simple question. I answer it.", said


def unknown(w: Words) -> Exchange:
    question = w.pick(facts.UNKNOWNS)
    return (
        question.format(*(w.word() for _ in range(2))) + w.pick(["?", ".", ""]),
        "I do not know this.",
        facts.UNKNOWN,
    )


def repeat(w: Words) -> Exchange:
    makers = [w.phrase, w.phrase, w.name, w.city, w.word, w.code, w.person]
    makers += [lambda: w.pick(["OK", "hello", "yes", "Hello, world!", "ok", "banana"])]
    makers += [lambda: f"{w.name()} and {w.name()}", w.date, lambda: w.made().capitalize()]
    what = w.pick(makers)()
    question = w.pick(ASKS["repeat"])
    return question.format(what), f"I repeat: {what}", what


def spell(w: Words) -> Exchange:
    what = w.pick([lambda: w.pick(("Oregon", "cat", "dog", "hello")), w.word, w.word, w.name])()
    question = w.pick(ASKS["spell"])
    return question.format(what), f"I spell {what}.", "-".join(what.upper())


def listing(w: Words) -> Exchange:
    what = w.pick(list(facts.LISTS))
    number = w.pick([2, 3, 3, 3, 4, 5])
    asked = w.pick([str(number), facts.NUMBERS[number - 1]])
    question = w.pick(ASKS["list"]).format(asked, what)
    return question, f"I list {number} of them.", ", ".join(facts.LISTS[what][:number])


def opposite(w: Words) -> Exchange:
    word, other = w.pick(list(facts.OPPOSITES.items()))
    word, other = (other, word) if w.chance(0.5) else (word, other)
    question = w.pick(ASKS["opposite"])
    return question.format(word), f"The opposite of {word} is {other}.", f"The opposite of {word} is {other}."


def french(w: Words) -> Exchange:
    word, other = w.pick(list(facts.FRENCH.items()))
    question = w.pick(ASKS["french"])
    return question.format(word), f"In French, {word} is {other}.", f"In French it is {other}."


def following(w: Words) -> Exchange:
    ring = w.pick([facts.WEEK, facts.MONTHS])
    at, thing = w.random.randrange(len(ring)), "day" if ring is facts.WEEK else "month"
    before = w.chance(0.3)
    other = ring[(at + (-1 if before else 1)) % len(ring)]
    side = "before" if before else "after"
    return (
        w.pick(ASKS["following"]).format(t=thing, s=side, x=ring[at]),
        f"{side} {ring[at]}: {other}.",
        f"{other} comes {side} {ring[at]}.",
    )


def ends(w: Words) -> Exchange:
    words = [w.word() for _ in range(w.pick([2, 3, 3, 4]))]
    side = w.pick(["first", "last"])
    text = " ".join(words)
    found = words[0 if side == "first" else -1]
    return (
        w.pick(ASKS["ends"]).format(s=side, t=text),
        f"The {side} word is {found}.",
        f"The {side} word is {found}.",
    )


def no_tools(w: Words) -> Exchange:
    """What a tool would be needed for, with no tool at all."""
    topic = w.pick([t for t in TOPICS if t.do not in ("calculate", "translate text")])
    request = make_request(w, make_tool(w, topic))
    return (
        request.question,
        f"The user wants to {topic.do}. I have no tools.",
        f"Sorry, I have no tool to {topic.do}.",
    )


def memory(w: Words, thinking: bool) -> Conversation:
    """A name, a liking or a number said once is known later."""
    what, value = w.pick(
        [
            ("name", w.name()),
            ("name", w.name()),
            ("favorite color", w.pick(["red", "blue", "green", "pink", "gold"])),
            ("city", w.city()),
            ("favorite word", w.word()),
            ("dog", w.name()),
            ("code", w.code()),
        ]
    )
    told, asked, said = MEMORIES.get(what, MEMORIES[""])
    greeting = f"Hello, {value}!" if what == "name" else f"All right, your {what} is {value}."
    messages = [user(w.pick(told).format(what=what, value=value)), assistant(greeting)]
    for _ in range(w.pick([0, 0, 1, 1, 2])):
        question, _, answer = w.pick([capital, river, small_talk, add, listing])(w)
        messages += [user(question), assistant(answer)]
    asked, said = w.pick(asked).format(what=what), said.format(what=what, value=value)
    messages += [user(asked), assistant(said, f"The user said: {value}.")]
    return Conversation("memory", tuple(messages), (), thinking)


def introduction(w: Words, thinking: bool) -> Conversation:
    name = w.name()
    told = w.pick(ASKS["introduction"]).format(name)
    return Conversation(
        "introduction", (user(told), assistant(f"Hello, {name}!", f"I greet {name}.")), (), thinking
    )


def ruled(w: Words, thinking: bool) -> Conversation:
    """Short system rules. The inner answer is one that is known without them."""
    kind = w.pick(["one word", "json", "french", "persona", "start", "end"])
    question, why, said = w.pick([capital, capital, river, opposite, french, following, small_talk])(w)
    if kind in ("one word", "json"):
        question, why, word = short(w)
    if kind == "one word":
        rule = w.pick(ASKS["one word"])
        said, why = word, f"One word: {word}."
    elif kind == "json":
        rule = w.pick(ASKS["json"])
        said, why = json.dumps({"answer": word}, ensure_ascii=False), f"JSON with {word}."
    elif kind == "french":
        rule = w.pick(ASKS["greet in french"])
        said, why = "Bonjour! " + said, "I greet in French. " + why
    elif kind == "persona":
        name = w.name()
        rule = w.pick(ASKS["persona"]).format(name)
        question = w.pick(ASKS["who"])
        why = said = f"I am {name}."
    else:
        word = w.pick(
            [w.name, lambda: w.word().capitalize(), lambda: w.pick(["Captain", "Sir", "Over", "Boss"])]
        )()
        rule = w.pick(
            [
                f"{kind} every answer with {{}}.",
                f'{kind} each answer with "{{}}".',
                f"Always {kind} with the word {{}}.",
            ]
        ).format(word)
        rule = rule[0].upper() + rule[1:]
        said, why = (
            (f"{word}! {said}" if kind == "start" else f"{said} {word}"),
            f"I {kind} with {word}. {why}",
        )
    kind = {"start": "start or end", "end": "start or end"}.get(kind, kind)
    return Conversation(
        "rule: " + kind, (system(rule), user(typed(w, question)), assistant(said, why)), (), thinking
    )


def short(w: Words) -> Exchange:
    """A question with a one-word answer."""
    make = w.pick(["capital", "capital", "opposite", "french", "river", "next"])
    if make == "next":
        at = w.random.randrange(7)
        return f"what day comes after {facts.WEEK[at]}?", "", facts.WEEK[(at + 1) % 7]
    table, question = {
        "capital": (facts.CAPITALS, "what is the capital of {}?"),
        "opposite": (facts.OPPOSITES, "what is the opposite of {}?"),
        "french": (facts.FRENCH, "what is {} in French?"),
        "river": (facts.RIVERS, "name one river in {}."),
    }[make]
    key, said = w.pick([pair for pair in table.items() if " " not in pair[1]])
    return question.format(key), "", said


def extract(w: Words) -> Exchange:
    """Facts out of a sentence into JSON."""
    name, city, age = w.name(), w.name(), w.integer(2, 99)
    told, found = w.pick([
        ("{n} is {a} years old.", {"name": name, "age": age}),
        ("{n} lives in {c}.", {"name": name, "city": city}),
        ("{n} is {a} and lives in {c}.", {"name": name, "age": age, "city": city}),
        ("In {c} lives {n}.", {"name": name, "city": city}),
    ])  # fmt: skip
    keys = " and ".join(found) if len(found) == 2 else "name, age and city"
    question = w.pick(ASKS["extract"])
    told = told.format(n=name, a=age, c=city)
    return question.format(k=keys, t=told), f"JSON with {keys}.", json.dumps(found, ensure_ascii=False)


def untold(w: Words) -> Exchange:
    what = w.pick(["name", "name", "name", "city", "favorite color", "favorite word"])
    question = w.pick(ASKS["untold"])
    return (
        question.format(what),
        f"The user has not told me the {what}.",
        f"You have not told me your {what}.",
    )


MAKERS = {
    "count": (count, 14), "river": (river, 4), "capital": (capital, 5), "small talk": (small_talk, 13),
    "unknown": (unknown, 4), "repeat": (repeat, 10), "spell": (spell, 6), "sum": (add, 9),
    "prime": (prime, 10),
    "list": (listing, 4), "opposite": (opposite, 2), "french": (french, 2), "following": (following, 2),
    "larger": (larger, 2), "ends": (ends, 3), "no tools": (no_tools, 7),
    "extract": (extract, 4), "untold": (untold, 2),
}  # fmt: skip


def plain(w: Words, thinking: bool, kind: str = "", beside: bool = False) -> Conversation:
    """One exchange, at times after others or under a system text that changes nothing."""
    kind = kind or w.random.choices(list(MAKERS), [share for _, share in MAKERS.values()])[0]
    while beside and kind == "no tools":
        kind = w.pick(list(MAKERS))
    question, why, said = MAKERS[kind][0](w)
    messages: list[Message] = [system(plain_rule(w))] if w.chance(0.12) else []
    if w.chance(0.15):
        for _ in range(w.pick([1, 1, 2])):
            before, _, answer = MAKERS[
                w.pick(["small talk", "capital", "river", "sum", "list", "repeat", "prime"])
            ][0](w)
            messages += [user(before), assistant(answer)]
    asked = say(w, question) if kind == "no tools" else question if kind == "repeat" else typed(w, question)
    messages += [user(asked), assistant(said, why)]
    return Conversation(kind, tuple(messages), (), thinking)


def chat(w: Words, thinking: bool) -> Conversation:
    make = w.random.choices([plain, memory, introduction, ruled], [78, 8, 2, 12])[0]
    return make(w, thinking)
