"""Exchanges about numbers: counting, sums, primes by division, the larger of two."""

from __future__ import annotations

from weights.demo.asks import ASKS
from weights.demo.words import Words

Exchange = tuple[str, str, str]  # question, thought, answer


def count(w: Words) -> Exchange:
    if w.chance(0.2):
        last = w.pick([3, 5, 5, 8, 10, 10, 12, 15, 20]) if not w.chance(0.1) else w.pick([50, 100])
        question = w.pick(ASKS["count to"])
        return (
            question.format(b=last),
            f"I count from 1 and stop at {last}.",
            ", ".join(map(str, range(1, last + 1))),
        )
    far = w.pick([10, 100, 100, 1000])
    first = w.integer(0, far)
    last = first + w.random.randint(1, 14)
    if w.chance(0.25):
        first, last = last, first
        question = w.pick(ASKS["count down"])
        numbers, way = range(first, last - 1, -1), "down"
    else:
        question = w.pick(ASKS["count up"])
        numbers, way = range(first, last + 1), "up"
    return (
        question.format(a=first, b=last),
        f"I count {way} from {first} and stop at {last}.",
        ", ".join(map(str, numbers)),
    )


def add(w: Words) -> Exchange:
    def make() -> str:
        sign = w.pick("++-x")
        top = 12 if sign == "x" else w.pick([10, 20, 50])
        a, b = w.random.randint(0, top), w.random.randint(0, top)
        return f"{max(a, b)} - {min(a, b)}" if sign == "-" else f"{a} {'*' if sign == 'x' else '+'} {b}"

    what = w.draw(make)
    a, sign, b = what.split()
    value = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]
    shown = what
    for plain_sign, ways in (
        ("*", ["*", "x", "times"]),
        ("+", ["+", "+", "plus"]),
        ("-", ["-", "-", "minus"]),
    ):
        shown = shown.replace(plain_sign, w.pick(ways))
    question = w.pick(ASKS["sum"])
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
    question = w.pick(ASKS["prime"]).format(n)
    steps, factor = division_steps(n)
    if factor:
        product = f"{n} = {factor} x {n // factor}"
        return question, f"{steps} So {product}.", f"No, {n} is not prime. {product}."
    return question, (f"{steps} " if steps else "") + "No factor found.", f"Yes, {n} is prime."


def larger(w: Words) -> Exchange:
    a, b = w.integer(0, 999), w.integer(0, 999)
    high = w.pick(["larger", "bigger", "greater"])
    return (
        w.pick(ASKS["larger"]).format(h=high, a=a, b=b),
        f"I compare {a} and {b}.",
        f"{max(a, b)} is {high}.",
    )
