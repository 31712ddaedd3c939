"""Follows one answer and says what may be sampled next, so that it keeps what was promised.

Thinking is free until its budget is spent; free text is free until a call begins. Only then does a grammar speak.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from node.chat.output_constraints import Calls, OutputConstraints, ThinkingMode
from node.chat.tokenizer import Tokenizer

log = logging.getLogger("node.chat")

BOUNDARY = "\n\n"  # that templates write between the end of thinking and what follows
BETWEEN_CALLS = "\n"

Bits = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Controls:
    """Ids that steer an answer. Those that a vocabulary lacks are -1, which nobody samples."""

    think: int
    end_think: int
    call: int
    end_call: int
    stops: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, stops: frozenset[int]) -> Controls:
        control = tokenizer.control
        return cls(
            think=control.get("<think>", -1),
            end_think=control.get("</think>", -1),
            call=control.get("<tool_call>", -1),
            end_call=control.get("</tool_call>", -1),
            stops=stops,
        )


@dataclass(frozen=True, slots=True)
class Matchers:
    """At their start: of a call, from after its tag, and of the whole text of an answer."""

    call: LLMatcher | None = None
    output: LLMatcher | None = None


class _Phase(Enum):
    THINKING = auto()
    START = auto()  # of an answer whose form is promised
    TEXT = auto()
    CALL = auto()
    BETWEEN = auto()  # after a call, where another may follow
    OUTPUT = auto()
    DONE = auto()


class ConstraintMatcher:
    """For one answer. Not thread-safe: its engine calls it from one thread at a time."""

    def __init__(
        self,
        constraints: OutputConstraints,
        matchers: Matchers,
        controls: Controls,
        tokenizer: Tokenizer,
        width: int,
    ) -> None:
        self._output_constraints = constraints
        self._matchers = matchers
        self._controls = controls
        self._tokenizer = tokenizer
        self._width = width
        self._matcher: LLMatcher | None = None
        self._forced: deque[int] = deque()  # what alone may be sampled, in order
        self._thought = 0  # tokens of thinking so far
        self._may_think = constraints.thinking is ThinkingMode.OPTIONAL and controls.think >= 0
        self._broken = False
        if constraints.thinking is ThinkingMode.OPEN:
            self._phase = _Phase.THINKING
        else:
            self._phase = _Phase.START if constraints.shapes_answer else _Phase.TEXT

    def mask(self, ids: tuple[int, ...]) -> Bits | None:
        """After `ids`, sampled since the last call: a bit an id, or None where everything is allowed."""
        for number in ids:
            self._take(number)
        if self._broken:
            return None
        if self._forced:
            return self._only(self._forced[0])
        match self._phase:
            case _Phase.THINKING:
                return self._thinking_mask()
            case _Phase.TEXT:
                forbidden = self._output_constraints.calls is Calls.FORBIDDEN
                return self._all_but(self._controls.call) if forbidden else None
            case _Phase.START:
                return self._start_mask()
            case _Phase.BETWEEN:
                return self._only(self._tokenizer.encode(BETWEEN_CALLS)[0], *self._controls.stops)
            case _Phase.CALL | _Phase.OUTPUT:
                return self._grammar_mask()
            case _Phase.DONE:
                return self._only(*self._controls.stops)

    def _take(self, number: int) -> None:
        """Step over one sampled token."""
        forced = bool(self._forced)
        if forced:
            self._forced.popleft()
        match self._phase:
            case _Phase.THINKING:
                self._think(number, forced)
            case _Phase.TEXT | _Phase.START if number == self._controls.think:
                self._phase = _Phase.THINKING
                self._may_think = False
                self._spend(number)
            case _Phase.TEXT | _Phase.START | _Phase.BETWEEN if number == self._controls.call:
                self._begin_call()
            case _Phase.TEXT if number == self._controls.end_call and not self._output_constraints.parallel:
                self._phase = _Phase.DONE
            case _Phase.START if not forced:
                self._phase = _Phase.OUTPUT
                self._matcher = self._matchers.output.deep_copy() if self._matchers.output else None
                self._advance(number)
            case _Phase.BETWEEN if not forced:
                if number in self._controls.stops:
                    self._phase = _Phase.DONE
                else:
                    self._forced.extend([*self._tokenizer.encode(BETWEEN_CALLS)[1:], self._controls.call])
            case _Phase.OUTPUT if number in self._controls.stops:
                self._phase = _Phase.DONE
            case _Phase.CALL | _Phase.OUTPUT:
                self._advance(number)
                if self._phase is _Phase.CALL and number == self._controls.end_call:
                    self._end_call()

    def _think(self, number: int, forced: bool) -> None:
        if number == self._controls.end_think:
            shaped = self._output_constraints.shapes_answer
            self._phase = _Phase.START if shaped else _Phase.TEXT
            if shaped and not forced:  # where the end was forced, the boundary was with it
                self._forced.extend(self._tokenizer.encode(BOUNDARY))
        elif not forced:
            self._thought += 1
            self._spend(number)

    def _spend(self, last: int) -> None:
        """Force the end of thinking where its budget is spent."""
        budget = self._output_constraints.budget
        if budget is None or self._thought < budget:
            return
        if not self._tokenizer.token_bytes(last).endswith(b"\n"):
            self._forced.extend(self._tokenizer.encode("\n"))
        self._forced.extend([self._controls.end_think, *self._tokenizer.encode(BOUNDARY)])

    def _begin_call(self) -> None:
        if self._matchers.call is not None:
            self._phase = _Phase.CALL
            self._matcher = self._matchers.call.deep_copy()
        else:  # nothing is known of its inside, and its end is found in the text
            self._phase = _Phase.TEXT

    def _end_call(self) -> None:
        if not self._output_constraints.parallel:
            self._phase = _Phase.DONE
        else:
            self._phase = _Phase.BETWEEN if self._output_constraints.shapes_answer else _Phase.TEXT

    def _advance(self, number: int) -> None:
        if self._matcher is None or not self._matcher.consume_token(number):
            self._give_up()

    def _give_up(self) -> None:
        """The answer goes on without its constraints: the grammar has run into a limit, or into our own fault."""
        if not self._broken:
            log.error("a grammar failed while decoding: %s", self._matcher and self._matcher.get_error())
        self._broken = True

    def _thinking_mask(self) -> Bits | None:
        """A call from inside thinking would escape the grammar, and so would an end."""
        if self._output_constraints.shapes_answer:
            return self._all_but(self._controls.call, *self._controls.stops)
        if self._output_constraints.calls is Calls.FORBIDDEN or self._matchers.call is not None:
            return self._all_but(self._controls.call)
        return None

    def _start_mask(self) -> Bits:
        ways = [self._controls.think] if self._may_think else []
        if self._output_constraints.shapes_calls:
            ways.append(self._controls.call)
        bits = self._only(*ways)
        if self._matchers.output is not None:
            bits |= self._allowed_by(self._matchers.output.deep_copy())
        return bits

    def _grammar_mask(self) -> Bits | None:
        if self._matcher is None:
            return None
        bits = self._allowed_by(self._matcher)
        if self._matcher.is_error():
            self._give_up()
            return None
        if self._phase is _Phase.OUTPUT and self._matcher.is_accepting():
            bits = bits | self._only(*self._controls.stops)
        return bits

    def _allowed_by(self, matcher: LLMatcher) -> Bits:
        """llguidance may give a word more than the table has: it counts one id more."""
        return np.frombuffer(matcher.compute_bitmask(), dtype=np.uint32)[: -(-self._width // 32)]

    def _only(self, *ids: int) -> Bits:
        bits = np.zeros(-(-self._width // 32), dtype=np.uint32)
        for number in ids:
            bits[number // 32] |= np.uint32(1 << number % 32)
        return bits

    def _all_but(self, *ids: int) -> Bits:
        """Every id of the vocabulary, which the model's table may exceed, but these."""
        words, rest = divmod(min(self._tokenizer.vocabulary_size, self._width), 32)
        bits = np.zeros(-(-self._width // 32), dtype=np.uint32)
        bits[:words] = 0xFFFFFFFF
        if rest:
            bits[words] = (1 << rest) - 1
        return bits & ~self._only(*(number for number in ids if number >= 0))
