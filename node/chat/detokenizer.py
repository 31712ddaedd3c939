"""Sampled ids become text as soon as there is text in them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from node.chat.tokenizer import Tokenizer

# Bytes at the end of a text that begin a character and may yet become one: every proper prefix of a row of
# Unicode's table of well-formed UTF-8. Python's own incremental decoder waits after ED A0 too, which cannot.
_UNFINISHED = re.compile(
    rb"(?:[\xc2-\xdf]"
    rb"|\xe0[\xa0-\xbf]?|[\xe1-\xec\xee\xef][\x80-\xbf]?|\xed[\x80-\x9f]?"
    rb"|\xf0(?:[\x90-\xbf][\x80-\xbf]?)?|[\xf1-\xf3](?:[\x80-\xbf][\x80-\xbf]?)?|\xf4(?:[\x80-\x8f][\x80-\xbf]?)?"
    rb")\Z"
)
_LONGEST_UNFINISHED = 3


class Detokenizer:
    """Never gives half a character, never waits for more than the rest of one.

    Special tokens give no text; other control tokens give theirs.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending = b""

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete."""
        tokenizer = self._tokenizer
        spelled = (tokenizer.token_bytes(number) for number in ids if number not in tokenizer.special)
        data = self._pending + b"".join(spelled)
        unfinished = _UNFINISHED.search(data[-_LONGEST_UNFINISHED:])
        cut = len(data) - len(unfinished.group()) if unfinished else len(data)
        self._pending = data[cut:]
        return data[:cut].decode(errors="replace")

    def end(self) -> str:
        """U+FFFD where the last character was never finished."""
        pending, self._pending = self._pending, b""
        return pending.decode(errors="replace")
