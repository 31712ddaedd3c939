"""What operators write: sizes, counts, seconds, shares, origins. Each parser raises ValueError with what it wants."""

from __future__ import annotations

import re
from collections.abc import Callable

UNITS = {"": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]+))?")
LEFT_OUT = {("http", "80"), ("https", "443")}  # by browsers: an origin with one of these would match nothing


def size(text: str) -> int:
    """Bytes, from `24GiB`, `512MiB`, `80GB` or a bare number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size such as 24GiB")
    return int(float(match[1]) * UNITS[(match[2] or "").upper()])


def size_between(least: str, most: str = "") -> Callable[[str], int]:
    """A size within bounds, which are written as sizes too."""

    def parse(text: str) -> int:
        number = size(text)
        if number < size(least):
            raise ValueError(f"must be at least {least}")
        if most and number > size(most):
            raise ValueError(f"must be at most {most}")
        return number

    return parse


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = whole_number(text)
        if number < least:
            raise ValueError(f"must be at least {least}")
        return number

    return parse


def port(text: str) -> int:
    number = whole_number(text)
    if not 0 <= number < 2**16:
        raise ValueError("must be between 0 and 65535")
    return number


def seconds(text: str) -> float:
    number = _number(text)
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of seconds")
    return number


def some_seconds(text: str) -> float:
    """More than none: for timeouts that would end everything at once."""
    number = seconds(text)
    if not number:
        raise ValueError("must be more than 0 seconds")
    return number


def share(text: str) -> float:
    number = _number(text)
    if not 0 < number <= 1:
        raise ValueError("must be more than 0 and at most 1")
    return number


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def origins(text: str) -> tuple[str, ...]:
    """`*`, or origins as browsers send them, separated by commas."""
    listed = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    for origin in listed if listed != ("*",) else ():
        found = ORIGIN.fullmatch(origin)
        if found is None or found.groups() in LEFT_OUT:
            raise ValueError(
                "must be * or origins such as https://chat.example.com, without path or default port"
            )
    return listed


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None
