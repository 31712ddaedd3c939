"""Patterns of strings: what they cost, and how they match a raw value as a whole."""

from __future__ import annotations

import re
from typing import Final

import llguidance

MAX_PATTERN_CHARS: Final = 1024  # the longest of real tools, for URLs, have some 300
MAX_PATTERN_SIZE: Final = 2000  # atoms once counted repeats are written out; 30,000 made a mask of 300 ms

_TOKEN = re.compile(
    r"(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<\w+>))?)"
    r"|(?P<close>\))"
    r"|(?P<repeat>\{(?P<low>\d+)(?:,(?P<high>\d*))?\})"
    r"|(?P<other>.)",
    re.DOTALL,
)

# A raw value, as the XML form of calls writes it, has no quotes for llguidance's own formats to live in.
# Each of these is the common part of what its RFC allows: all that it matches is valid.
FORMATS: Final = {
    "date": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
    "time": r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    "duration": r"P([0-9]{1,9}[YMWD]|[0-9]{1,9}DT[0-9]{1,9}[HMS]|T[0-9]{1,9}[HMS])",
    "email": r"[a-zA-Z0-9_+-]{1,30}(\.[a-zA-Z0-9_+-]{1,30}){0,3}"
    r"@[a-zA-Z0-9]{1,30}(-[a-zA-Z0-9]{1,30})?(\.[a-zA-Z]{2,24}){1,3}",
    "hostname": r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?){0,6}",
    "ipv4": r"((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])",
    "ipv6": r"([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|::1|::",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "uri": r"[a-zA-Z][a-zA-Z0-9+.-]{0,15}:(//)?[a-zA-Z0-9._~:/?#@!$&'()*+,;=-]{1,1000}",
}
# February has 28 days here, and its 29th is lost: a date that does not exist would be worse.
FORMATS["date-time"] = f"{FORMATS['date']}T{FORMATS['time']}"


class PatternError(ValueError):
    """A pattern that cannot be enforced; says why."""


def check_cost(pattern: str) -> None:
    """Raises PatternError where counted repeats blow the pattern up: each is written out by the engine."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"longer than {MAX_PATTERN_CHARS} characters")
    sizes, last = [0], 0  # of each open group, and of the atom that a repeat would multiply
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            sizes.append(0)
            last = 0
        elif token["close"]:
            if len(sizes) == 1:
                raise PatternError("unbalanced parentheses")
            last = sizes.pop()
            sizes[-1] += last
        elif token["repeat"]:
            times = (
                max(int(token["high"] or token["low"]), 1) if len(token["repeat"]) < 12 else MAX_PATTERN_SIZE
            )
            sizes[-1] += last * (times - 1)
            last *= times
        elif token["other"] not in ("*", "+", "?", "|"):
            last = 1
            sizes[-1] += 1
        if sizes[-1] > MAX_PATTERN_SIZE:
            raise PatternError(f"its repeats come to more than {MAX_PATTERN_SIZE} characters")


def whole(pattern: str) -> str:
    """The pattern, which searches, as a regular expression that matches all of a value. Raises PatternError."""
    begins, ends = pattern.startswith("^"), bool(re.search(r"(?<!\\)(\\\\)*\$$", pattern))
    inner = pattern[begins : len(pattern) - ends]
    anchors = [token["other"] for token in _TOKEN.finditer(inner) if token["other"] in ("^", "$")]
    if anchors:
        raise PatternError(f"{anchors[0]} in its midst cannot be enforced")
    if (begins or ends) and _alternates(inner):
        raise PatternError("an anchor that holds for one alternative only cannot be enforced: group them")
    body = llguidance.regex_to_lark(f"(?:{inner})", "dw")
    return ("" if begins else "(?s:.*)") + body + ("" if ends else "(?s:.*)")


def _alternates(pattern: str) -> bool:
    """Whether there is a | outside all groups."""
    depth = 0
    for token in _TOKEN.finditer(pattern):
        depth += bool(token["open"]) - bool(token["close"])
        if token["other"] == "|" and depth == 0:
            return True
    return False
