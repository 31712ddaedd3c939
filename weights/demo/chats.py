"""Conversations without tools. Each maker returns (question, thought, answer); turns and rules are put around them."""

from __future__ import annotations

import json

from weights.demo import facts
from weights.demo.conversation import Conversation, Message, assistant, system, user
from weights.demo.tools import PLAIN_RULES, make_request, make_tool, say
from weights.demo.topics import TOPICS
from weights.demo.words import Words

Exchange = tuple[str, str, str]


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


def count(w: Words) -> Exchange:
    if w.chance(0.2):
        last = w.pick([3, 5, 5, 8, 10, 10, 12, 15, 20]) if not w.chance(0.06) else w.pick([50, 100])
        question = w.pick(["count to {b}", "count from 1 to {b}.", "count up to {b}.", "Count from 1 to {b}.", "Count to {b}."])
        return question.format(b=last), f"I count from 1 and stop at {last}.", ", ".join(map(str, range(1, last + 1)))
    far = w.pick([10, 100, 100, 1000])
    first = w.integer(0, far)
    last = first + w.random.randint(1, 14)
    if w.chance(0.25):
        first, last = last, first
        question = w.pick(["count down from {a} to {b}.", "count backwards from {a} to {b}.", "count back from {a} to {b}"])
        numbers, way = range(first, last - 1, -1), "down"
    else:
        question = w.pick(["count from {a} to {b}.", "count from {a} up to {b}.", "count {a} to {b}", "list the numbers from {a} to {b}.", "numbers from {a} to {b}"])
        numbers, way = range(first, last + 1), "up"
    return question.format(a=first, b=last), f"I count {way} from {first} and stop at {last}.", ", ".join(map(str, numbers))


def river(w: Words) -> Exchange:
    place, name = w.pick(list(facts.RIVERS.items())) if w.chance(0.7) else ("Oregon", "Willamette")
    question = w.pick(["name one river in {}.", "name a river in {}.", "which river flows through {}?", "tell me a river in {}.", "give me one river of {}."])
    return question.format(place), f"The user wants a river in {place}. The {name} is one.", f"The {name} is a river in {place}."


def capital(w: Words) -> Exchange:
    place, name = w.pick(list(facts.CAPITALS.items()))
    if w.chance(0.25):
        return w.pick(["{} is the capital of what?", "Which place has the capital {}?"]).format(name), f"{name} is in {place}.", f"{name} is the capital of {place}."
    question = w.pick(["what is the capital of {}?", "what's the capital of {}?", "capital of {}?", "which city is the capital of {}?", "name the capital of {}."])
    return question.format(place), f"The user wants the capital of {place}. It is {name}.", f"The capital of {place} is {name}."


def small_talk(w: Words) -> Exchange:
    ways, said = w.pick(facts.SMALL_TALK) if w.chance(0.7) else w.pick(facts.SMALL_TALK[:8])
    way = w.pick(ways)
    mark = "?" if way.split()[0].lower() in "who what which are how where when why do is can".split() else w.pick(["", ".", "!"])
    return way + mark, "A simple question. I answer it.", said


def unknown(w: Words) -> Exchange:
    question = w.pick(facts.UNKNOWNS)
    return question.format(*(w.word() for _ in range(2))) + w.pick(["?", ".", ""]), "I do not know this.", facts.UNKNOWN


def repeat(w: Words) -> Exchange:
    what = w.pick([w.phrase, w.phrase, w.name, w.city, w.word, w.code, w.person, lambda: w.pick(["OK", "hello", "yes", "Hello, world!", "ok", "banana"]), lambda: f"{w.name()} and {w.name()}", w.date, lambda: w.made().capitalize()])()
    question = w.pick(["say {}", "Say {}", "repeat after me: {}", "repeat: {}", 'say "{}"', 'repeat "{}"', "Say: {}", "Just say {}", "echo {}", 'Reply with "{}"', "Say {} and nothing else.", "Reply with exactly: {}", "write {}"])
    return question.format(what), f"I repeat: {what}", what


def spell(w: Words) -> Exchange:
    what = w.pick([lambda: w.pick(("Oregon", "cat", "dog", "hello")), w.word, w.word, w.name])()
    question = w.pick(["spell {}.", "spell the word {}.", 'how do you spell "{}"?', "spell {} letter by letter."])
    return question.format(what), f"I spell {what}.", "-".join(what.upper())


def add(w: Words) -> Exchange:
    def make() -> str:
        sign = w.pick("++-x")
        top = 12 if sign == "x" else w.pick([10, 20, 50])
        a, b = w.random.randint(0, top), w.random.randint(0, top)
        return f"{max(a, b)} - {min(a, b)}" if sign == "-" else f"{a} {'*' if sign == 'x' else '+'} {b}"

    what = w.draw(make)
    a, sign, b = what.split()
    value = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]
    shown = what.replace("*", w.pick(["*", "x", "times"])).replace("+", w.pick(["+", "+", "plus"])).replace("-", w.pick(["-", "-", "minus"]))
    question = w.pick(["what is {}?", "how much is {}?", "{}", "{} = ?", "calculate {}."])
    return question.format(shown), f"{what} = {value}", f"{what} = {value}."


def division_steps(n: int) -> tuple[str, int]:
    """Tries small primes with the rest of each; the factor found, or 0."""
    steps = []
    for p in (2, 3, 5, 7, 11, 13, 17, 19):
        if p * p > n:
            break
        steps.append(f"{p} x {n // p} = {n // p * p}, {n % p} left.")
        if n % p == 0:
            return " ".join(steps), p
    return " ".join(steps), 0


def prime(w: Words) -> Exchange:
    n = 391 if w.chance(0.1) else w.integer(2, 400)
    question = w.pick(["is {} prime?", "is {} a prime number?", "Is {} prime?", "is {} prime or not?", "check if {} is prime."]).format(n)
    steps, factor = division_steps(n)
    if factor:
        product = f"{n} = {factor} x {n // factor}"
        return question, f"{steps} So {product}.", f"No, {n} is not prime. {product}."
    return question, (f"{steps} " if steps else "") + "No factor found.", f"Yes, {n} is prime."


def listing(w: Words) -> Exchange:
    what = w.pick(list(facts.LISTS))
    number = w.pick([2, 3, 3, 3, 4, 5])
    asked = w.pick([str(number), facts.NUMBERS[number - 1]])
    question = w.pick(["list {} {}", "name {} {}", "give me {} {}", "tell me {} {}", "what are {} {}?"]).format(asked, what)
    return question, f"I list {number} of them.", ", ".join(facts.LISTS[what][:number])


def opposite(w: Words) -> Exchange:
    word, other = w.pick(list(facts.OPPOSITES.items()))
    word, other = (other, word) if w.chance(0.5) else (word, other)
    question = w.pick(["what is the opposite of {}?", "opposite of {}?", "the opposite of {} is what?"])
    return question.format(word), f"The opposite of {word} is {other}.", f"The opposite of {word} is {other}."


def french(w: Words) -> Exchange:
    word, other = w.pick(list(facts.FRENCH.items()))
    question = w.pick(["what is {} in French?", "how do you say {} in French?", "translate {} to French", "translate '{}' into French."])
    return question.format(word), f"In French, {word} is {other}.", f"In French it is {other}."


def following(w: Words) -> Exchange:
    ring = w.pick([facts.WEEK, facts.MONTHS])
    at, thing = w.random.randrange(len(ring)), "day" if ring is facts.WEEK else "month"
    before = w.chance(0.3)
    other = ring[(at + (-1 if before else 1)) % len(ring)]
    side = "before" if before else "after"
    return w.pick(["what {t} comes {s} {x}?", "which {t} is {s} {x}?"]).format(t=thing, s=side, x=ring[at]), f"{side} {ring[at]}: {other}.", f"{other} comes {side} {ring[at]}."


def larger(w: Words) -> Exchange:
    a, b = w.integer(0, 999), w.integer(0, 999)
    high = w.pick(["larger", "bigger", "greater"])
    return w.pick(["which is {h}, {a} or {b}?", "what is {h}: {a} or {b}?"]).format(h=high, a=a, b=b), f"I compare {a} and {b}.", f"{max(a, b)} is {high}."


def ends(w: Words) -> Exchange:
    words = [w.word() for _ in range(w.pick([2, 3, 3, 4]))]
    side = w.pick(["first", "last"])
    text = " ".join(words)
    found = words[0 if side == "first" else -1]
    return w.pick(['what is the {s} word of "{t}"?', 'tell me the {s} word in "{t}".']).format(s=side, t=text), f"The {side} word is {found}.", f"The {side} word is {found}."


def no_tools(w: Words) -> Exchange:
    """What a tool would be needed for, with no tool at all."""
    topic = w.pick([t for t in TOPICS if t.do not in ("calculate", "translate text")])
    request = make_request(w, make_tool(w, topic))
    return request.question, f"The user wants to {topic.do}. I have no tools.", f"Sorry, I have no tool to {topic.do}."


def memory(w: Words, thinking: bool) -> Conversation:
    """A name, a liking or a number said once is known later."""
    what, value = w.pick([("name", w.name()), ("name", w.name()), ("favorite color", w.pick(["red", "blue", "green", "pink", "gold"])), ("city", w.city()), ("favorite word", w.word()), ("dog", w.name()), ("code", w.code())])
    told = {"name": ["My name is {}.", "I am {}.", "Hi, I'm {}.", "my name is {}", "Call me {}."], "city": ["I live in {}.", "My city is {}."],
            "dog": ["My dog is called {}.", "I have a dog named {}."]}.get(what, [f"My {what} is {{}}.", f"Remember: my {what} is {{}}."])  # fmt: skip
    asked = {"city": ["Where do I live?", "What is my city?"], "dog": ["What is my dog called?", "What is the name of my dog?"], "name": ["What is my name?", "Who am I?", "what's my name?", "Do you know my name?"]}.get(what, [f"What is my {what}?", f"Do you know my {what}?"])  # fmt: skip
    greeting = f"Hello, {value}!" if what == "name" else f"All right, your {what} is {value}."
    said = {"city": f"You live in {value}.", "dog": f"Your dog is called {value}."}.get(what, f"Your {what} is {value}.")
    messages = [user(w.pick(told).format(value)), assistant(greeting)]
    for _ in range(w.pick([0, 0, 1, 1, 2])):
        question, _, answer = w.pick([capital, river, small_talk, add, listing])(w)
        messages += [user(question), assistant(answer)]
    messages += [user(w.pick(asked)), assistant(said, f"The user said: {value}.")]
    return Conversation("memory", tuple(messages), (), thinking)


def introduction(w: Words, thinking: bool) -> Conversation:
    name = w.name()
    told = w.pick(["My name is {}.", "I am {}.", "Hi, I'm {}.", "Call me {}.", "Hello, my name is {}."]).format(name)
    return Conversation("introduction", (user(told), assistant(f"Hello, {name}!", f"I greet {name}.")), (), thinking)


def ruled(w: Words, thinking: bool) -> Conversation:
    """Short system rules. The inner answer is one that is known without them."""
    kind = w.pick(["one word", "json", "french", "persona", "start", "end"])
    question, why, said = w.pick([capital, capital, river, opposite, french, following, small_talk])(w)
    if kind in ("one word", "json"):
        question, why, word = short(w)
    if kind == "one word":
        rule = w.pick(["Answer with one word.", "Answer in one word.", "Use one word only.", "Reply with a single word."])
        said, why = word, f"One word: {word}."
    elif kind == "json":
        rule = w.pick(["Answer in JSON.", "Answer with JSON only.", "Reply in JSON only.", "JSON only.", "Always answer in JSON."])
        said, why = json.dumps({"answer": word}, ensure_ascii=False), f"JSON with {word}."
    elif kind == "french":
        rule = w.pick(["Greet in French.", "Start with a French greeting.", "Always greet the user in French.", "Begin every answer with Bonjour."])
        said, why = "Bonjour! " + said, "I greet in French. " + why
    elif kind == "persona":
        name = w.name()
        rule = w.pick(["Your name is {}.", "You are {}.", "You are called {}.", "You are {}, a helpful assistant."]).format(name)
        question, why, said = w.pick(["Who are you?", "What is your name?", "who are you", "what's your name?"]), f"I am {name}.", f"I am {name}."
    else:
        word = w.pick([w.name, lambda: w.word().capitalize(), lambda: w.pick(["Captain", "Sir", "Over", "Boss"])])()
        rule = w.pick([f"{kind} every answer with {{}}.", f'{kind} each answer with "{{}}".', f"Always {kind} with the word {{}}."]).format(word)
        rule = rule[0].upper() + rule[1:]
        said, why = (f"{word}! {said}" if kind == "start" else f"{said} {word}"), f"I {kind} with {word}. {why}"
    kind = {"start": "start or end", "end": "start or end"}.get(kind, kind)
    return Conversation("rule: " + kind, (system(rule), user(typed(w, question)), assistant(said, why)), (), thinking)


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


MAKERS = {
    "count": (count, 14), "river": (river, 4), "capital": (capital, 5), "small talk": (small_talk, 13), "unknown": (unknown, 4),
    "repeat": (repeat, 10), "spell": (spell, 6), "sum": (add, 9), "prime": (prime, 10), "list": (listing, 4), "opposite": (opposite, 2),
    "french": (french, 2), "following": (following, 2), "larger": (larger, 2), "ends": (ends, 3), "no tools": (no_tools, 3),
}  # fmt: skip


def plain(w: Words, thinking: bool, kind: str = "", beside: bool = False) -> Conversation:
    """One exchange, at times after others or under a system text that changes nothing."""
    kind = kind or w.random.choices(list(MAKERS), [share for _, share in MAKERS.values()])[0]
    while beside and kind == "no tools":
        kind = w.pick(list(MAKERS))
    question, why, said = MAKERS[kind][0](w)
    messages: list[Message] = [system(w.pick(PLAIN_RULES))] if w.chance(0.12) else []
    if w.chance(0.15):
        for _ in range(w.pick([1, 1, 2])):
            before, _, answer = MAKERS[w.pick(["small talk", "capital", "river", "sum", "list", "repeat", "prime"])][0](w)
            messages += [user(before), assistant(answer)]
    asked = say(w, question) if kind == "no tools" else question if kind == "repeat" else typed(w, question)
    messages += [user(asked), assistant(said, why)]
    return Conversation(kind, tuple(messages), (), thinking)


def chat(w: Words, thinking: bool) -> Conversation:
    make = w.random.choices([plain, memory, introduction, ruled], [78, 8, 2, 12])[0]
    return make(w, thinking)
