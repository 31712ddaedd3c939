"""Sampled ids become the events of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from node.chat.detokenizer import Detokenizer
from node.chat.events import Event, Text
from node.chat.stops import StopMatcher
from node.chat.tokenizer import Tokenizer


class OutputMachine:
    """A state machine over tokens, for one answer: any number of ids in, events out.

    consumed  tokens taken so far, the last of them the one that completed the stop string: what usage counts
    matched   the stop string that ended the answer; nothing is taken or given after it
    """

    def __init__(self, tokenizer: Tokenizer, stop_sequences: Sequence[str] = ()) -> None:
        self.consumed = 0
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopMatcher(stop_sequences)

    @property
    def matched(self) -> str | None:
        return self._stops.matched

    def push(self, ids: Iterable[int]) -> list[Event]:
        """The events that these ids bring about."""
        given = []
        for number in ids:
            if self.matched is not None:
                break
            self.consumed += 1
            given.append(self._stops.push(self._detokenizer.push((number,))))
        return _text_events("".join(given))

    def end(self) -> list[Event]:
        """The events that were held back in hope of more."""
        return _text_events(self._stops.push(self._detokenizer.end()) + self._stops.end())


def _text_events(text: str) -> list[Event]:
    return [Text(text)] if text else []
