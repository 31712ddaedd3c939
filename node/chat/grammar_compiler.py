"""Grammars become matchers, each tried out before it is trusted: what they cost is up to strangers."""

from __future__ import annotations

import re
import time
from typing import Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from node.chat.tokenizer import Tokenizer

MAX_GRAMMAR_BYTES: Final = 512 * 1024  # of all tools; thirty of Claude Code's come to 20 KiB
TRIAL_STEPS: Final = 6
TRIAL_SECONDS: Final = (
    0.1  # of processor, the most expensive mask of the trial; those of real schemas take 0.02
)
MAX_TRIED_SECONDS: Final = 1.0  # of processor, all of compiling

LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # 20 ms
    step_lexer_fuel=200_000,  # 14 ms a mask
    step_max_items=50_000,  # 3 ms a mask
    max_items_in_row=2000,
    max_lexer_states=50_000,  # 2 KB each
    max_grammar_size=200_000,
    verbose_errors=False,  # those quote the grammar, and so the client
)

_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
_KEYWORDS: Final = (  # what llguidance's message says, and the keyword that it says it of
    ("oneOf", "oneOf"),
    ("format", "format"),
    ("look", "pattern"),
    ("regex", "pattern"),
    ("backreference", "pattern"),
    ("expressions", "pattern"),
    ("minimum", "minimum"),
    ("references", "$ref"),
)


class GrammarError(Exception):
    """A grammar that is wrong or too costly; `keyword` of its schema is at fault, where that is known."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = re.search(r'Unimplemented keys: \["([^"]+)"', message)
        guess = next((keyword for part, keyword in _KEYWORDS if part in message), None)
        self.keyword: str | None = found[1] if found else guess


class GrammarCompiler:
    """Holds llguidance's form of the vocabulary, seconds in the making. Any thread may use it."""

    def __init__(self, tokenizer: Tokenizer, width: int, end_of_turn: int) -> None:
        """Of a model whose table holds `width` rows; `end_of_turn` is allowed where a grammar is complete."""
        self.width = width
        self.end_of_turn = end_of_turn
        self._vocabulary = LLTokenizer(TokenizerWrapper(_Words(tokenizer, width, end_of_turn)), n_vocab=width)

    def compile(self, grammar: str) -> LLMatcher:
        """A matcher at its start, to be copied. Raises GrammarError."""
        if len(grammar) > MAX_GRAMMAR_BYTES:
            raise GrammarError(
                f"comes to a grammar of {len(grammar)} bytes, the limit is {MAX_GRAMMAR_BYTES}"
            )
        began = time.thread_time()
        matcher = LLMatcher(self._vocabulary, grammar, log_level=0, limits=LIMITS)
        if matcher.is_error():
            raise GrammarError(_reason(matcher))
        self._try(matcher.deep_copy(), began)
        return matcher

    def _try(self, matcher: LLMatcher, began: float) -> None:
        """Take some steps as a model could. Time of this thread, so that a busy machine refuses no more."""
        for _ in range(TRIAL_STEPS):
            started = time.thread_time()
            bits = int.from_bytes(matcher.compute_bitmask(), "little")
            now = time.thread_time()
            if matcher.is_error():
                raise GrammarError(_reason(matcher))
            if now - started > TRIAL_SECONDS or now - began > MAX_TRIED_SECONDS:
                raise GrammarError("too costly to enforce while decoding")
            if matcher.is_stopped() or not bits:
                return
            matcher.consume_token((bits & -bits).bit_length() - 1)


def _reason(matcher: LLMatcher) -> str:
    """The first of llguidance's lines that says something; the rest quotes the grammar."""
    message = _PLACE.sub("", matcher.get_error())
    lines = [line for line in message.splitlines() if line.startswith("error: ")] or message.splitlines()
    return lines[0].removeprefix("error: ")[:300] if lines else "cannot be compiled"


class _Words:
    """The vocabulary as llguidance asks for it. Control tokens are special, whatever the file calls them: no text
    of a grammar may be spelled with one."""

    def __init__(self, tokenizer: Tokenizer, width: int, end_of_turn: int) -> None:
        self.eos_token_id = end_of_turn
        self.bos_token_id = None
        self.tokens = [tokenizer.token_bytes(number) for number in range(width)]
        self.special_token_ids = sorted(tokenizer.control.values())
        self._tokenizer = tokenizer
        self._single = {text: number for number, text in enumerate(self.tokens) if len(text) == 1}

    def __call__(self, text: bytes | str) -> list[int]:
        raw = text.encode() if isinstance(text, str) else text
        ids = self._tokenizer.encode(raw.decode())
        if b"".join(map(self._tokenizer.token_bytes, ids)) == raw:
            return ids
        # The tokenizer brings text into normal form; a name that is not in it can still be spelled by bytes.
        return [self._single[bytes([byte])] for byte in raw]
