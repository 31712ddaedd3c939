"""White space where one part of an answer meets the next belongs to the template, not to the answer."""

from __future__ import annotations

from node.chat.stops import StopMatcher

NEWLINES = "\r\n"


class Segment:
    """One part of an answer, thinking or text, on its way.

    White space at its end is held back until it is known whether a boundary follows. A segment of white space
    alone is never given.
    """

    def __init__(self, stops: StopMatcher, leading: str | None = "", before: str = "") -> None:
        """`leading` are the characters to drop at its start, None for all white space. `before` comes first.

        `stops` is the matcher of the whole answer; each segment is matched by itself, as the model wrote it.
        """
        stops.end()
        self.blank = True
        self._stops = stops
        self._leading = leading
        self._before = before
        self._given = False
        self._held: list[str] = []

    def push(self, text: str) -> str:
        """What of the segment can be given on; all of it when a stop string is complete."""
        self.blank = self.blank and not text.strip()
        known = self._hold(self._stops.push(text))
        return known if self._stops.matched is None else known + self._tail()

    def boundary(self) -> str:
        """The rest, when the template goes on after it."""
        return self._hold(self._stops.end())

    def end(self) -> str:
        """The rest, when nothing follows: white space at the end is as the model wrote it."""
        return self._hold(self._stops.end()) + self._tail()

    def _hold(self, text: str) -> str:
        text = text.lstrip(self._leading)
        if text:
            self._leading = ""
        kept = text.rstrip()
        if not kept:
            self._held.append(text)
            return ""
        known = "".join((self._before, *self._held, kept))
        self._before = ""
        self._held = [text[len(kept) :]]
        self._given = True
        return known

    def _tail(self) -> str:
        return "".join(self._held) if self._given else ""
