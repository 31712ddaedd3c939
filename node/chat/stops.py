"""Stop strings found in text as it streams, in time linear in the text (Aho and Corasick's automaton)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class StopMatcher:
    """Gives text on until a stop string is complete; that string and all after it is kept back.

    The first to be complete wins, and of two complete at the same character the one that starts earlier.
    Only as much is held back as may yet become a stop string: the automaton's state is the longest such end
    of the text, and a state is as deep as that end is long.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.matched: str | None = None
        self._held = ""
        self._state = 0
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._whole: list[str | None] = [None]  # the longest stop string that ends in each state
        for string in strings:
            self._insert(string)
        self._fallback = self._link()

    def push(self, text: str) -> str:
        """What of the text so far can be given on."""
        if self.matched is not None:
            return ""
        if not self._next[0]:
            return text
        state, steps, fallback = self._state, self._next, self._fallback
        before, self._held = self._held, ""
        for index, character in enumerate(text):
            while state and character not in steps[state]:
                state = fallback[state]
            state = steps[state].get(character, 0)
            if (whole := self._whole[state]) is not None:
                self.matched = whole
                return (before + text[: index + 1])[: -len(whole)]
        self._state = state
        known = before + text
        cut = len(known) - self._depth[state]
        self._held = known[cut:]
        return known[:cut]

    def end(self) -> str:
        """What was held back and became no stop string."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _insert(self, string: str) -> None:
        if not string:
            raise ValueError("a stop string is empty")
        state = 0
        for depth, character in enumerate(string, start=1):
            if character not in self._next[state]:
                self._next[state][character] = len(self._next)
                self._next.append({})
                self._depth.append(depth)
                self._whole.append(None)
            state = self._next[state][character]
        self._whole[state] = string

    def _link(self) -> list[int]:
        """For each state its longest proper end that is a state too; breadth first, as those are shorter."""
        fallback = [0] * len(self._next)
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            for character, child in self._next[state].items():
                shorter = fallback[state]
                while shorter and character not in self._next[shorter]:
                    shorter = fallback[shorter]
                fallback[child] = self._next[shorter].get(character, 0)
                self._whole[child] = self._whole[child] or self._whole[fallback[child]]
                queue.append(child)
        return fallback
