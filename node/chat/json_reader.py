"""JSON read as it comes, and written again so that it is valid whatever comes next."""

from __future__ import annotations

import re

from node.chat.arguments import DEEPEST, can_be_read, quoted

WHITE = " \t\r\n"

_PLAIN = re.compile(r'[^"\\]*')
_WORD = re.compile(r"[-+.0-9a-zA-Z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SIMPLE_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_HEX = frozenset("0123456789abcdefABCDEF")


class JsonError(ValueError):
    """What came is no JSON."""


class StringReader:
    """The characters of a string, after its opening quote. Bare line breaks, which models write, are let pass."""

    def __init__(self) -> None:
        self.closed = False
        self._escape = ""  # as much as has come of one
        self._high = ""  # the first half of a pair of escapes

    def push(self, text: str, position: int) -> tuple[str, int]:
        """The characters known now, and the position in `text` up to which it was read."""
        found: list[str] = []
        while position < len(text) and not self.closed:
            if self._escape:
                self._escape += text[position]
                found.append(self._unescaped())
                position += 1
                continue
            end = _PLAIN.match(text, position).end()  # type: ignore[union-attr]  # it matches everywhere
            if end > position:
                found += [self._lone(), text[position:end]]
            elif text[position] == "\\":
                self._escape = "\\"
                end += 1
            else:
                found.append(self._lone())
                self.closed = True
                end += 1
            position = end
        return "".join(found), position

    def _unescaped(self) -> str:
        """The character of the escape, if it is whole."""
        escape = self._escape
        if len(escape) == 2 and escape[1] in _SIMPLE_ESCAPES:
            self._escape = ""
            return self._lone() + _SIMPLE_ESCAPES[escape[1]]
        if escape[1] != "u" or not _HEX.issuperset(escape[2:]):
            raise JsonError
        if len(escape) < len("\\uFFFF"):
            return ""
        self._escape = ""
        unit = chr(int(escape[2:], 16))
        if "\udc00" <= unit <= "\udfff" and self._high:
            high, self._high = self._high, ""
            return (high + unit).encode("utf-16", "surrogatepass").decode("utf-16")
        lone = self._lone()
        if "\ud800" <= unit <= "\udbff":
            self._high = unit
            return lone
        return lone + ("\ufffd" if "\udc00" <= unit <= "\udfff" else unit)

    def _lone(self) -> str:
        """U+FFFD for a first half of a pair whose second did not come: UTF-8 cannot carry it."""
        high, self._high = self._high, ""
        return "\ufffd" if high else ""


class ValueReader:
    """One value, with white space as json.dumps writes it. Raises JsonError for what is not JSON.

    Strings are given on as they come, numbers and words when they are whole, and all of it can be read by
    every client: no surrogates, no infinities, no endless nesting.
    """

    def __init__(self) -> None:
        self.closed = False
        self._string: StringReader | None = None
        self._word: list[str] = []
        self._brackets: list[str] = []  # those that are to come, the next one last
        self._expected = (
            "value"  # or key, :, more (a comma or a bracket); a ? is after it if a bracket may come
        )

    @property
    def begun(self) -> bool:
        return self.closed or bool(self._brackets or self._word or self._string)

    @property
    def in_string(self) -> bool:
        return self._string is not None

    def push(self, text: str, position: int) -> tuple[str, int]:
        """The JSON known now, and the position in `text` up to which it was read."""
        written: list[str] = []
        while position < len(text) and not self.closed:
            if self._string is not None:
                characters, position = self._string.push(text, position)
                written.append(quoted(characters)[1:-1])
                if self._string.closed:
                    self._string = None
                    written.append('"')
                    self._after_string()
                continue
            end = _WORD.match(text, position).end()  # type: ignore[union-attr]  # it matches everywhere
            if end > position:
                if not self._expected.startswith("value"):
                    raise JsonError
                self._word.append(text[position:end])
                position = end
                continue
            if self._word:
                written.append(self._whole_word())
                continue
            if text[position] not in WHITE:
                written.append(self._sign(text[position]))
            position += 1
        return "".join(written), position

    def _sign(self, sign: str) -> str:
        """What a quote, bracket, comma or colon brings about, by what is expected there."""
        match self._expected, sign:
            case (("value" | "value?" | "key" | "key?"), '"'):
                self._string = StringReader()
                self._expected = "after key" if self._expected.startswith("key") else "more"
            case (("value" | "value?"), ("{" | "[")):
                if len(self._brackets) == DEEPEST:
                    raise JsonError
                self._brackets.append("}" if sign == "{" else "]")
                self._expected = "key?" if sign == "{" else "value?"
            case (("more" | "key?" | "value?"), ("}" | "]")) if self._brackets[-1:] == [sign]:
                self._brackets.pop()
                self._after_value()
            case "more", ",":
                self._expected = "key" if self._brackets[-1] == "}" else "value"
                return ", "
            case "after key", ":":
                self._expected = "value"
                return ": "
            case _:
                raise JsonError
        return sign

    def _after_string(self) -> None:
        if self._expected == "more":
            self._after_value()

    def _after_value(self) -> None:
        self._expected = "more"
        self.closed = not self._brackets

    def _whole_word(self) -> str:
        word = "".join(self._word)
        self._word = []
        number = _NUMBER.fullmatch(word)
        if word not in ("true", "false", "null") and not (number and can_be_read(word)):
            raise JsonError
        self._after_value()
        return word
