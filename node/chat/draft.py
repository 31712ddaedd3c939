"""Calls written while the model still thinks: drafts, or real ones before which it forgot to stop thinking."""

from __future__ import annotations

from collections.abc import Mapping

from node.chat.call_form import CallForm
from node.chat.call_reader import CLOSE_CALL, OPEN_CALL, CallReader
from node.chat.conversation import ToolSpec
from node.chat.events import CallEnd, CallStart, Event


class Draft:
    """One call or several with nothing but white space between, from <tool_call> on.

    Held until what follows decides: complete calls of known tools are real if the turn ends after them.

    events  what it comes to if it is real
    """

    def __init__(self, form: CallForm, tools: Mapping[str, ToolSpec]) -> None:
        self.events: list[Event] = []
        self._form = form
        self._tools = tools
        self._raw = [OPEN_CALL]
        self._reader: CallReader | None = form.reader(tools)  # None between two calls

    @property
    def text(self) -> str:
        """What it comes to if it is a draft."""
        return "".join(self._raw)

    @property
    def complete(self) -> bool:
        """Whether it could be real if the turn ended here."""
        ended = self.events[-1:] == [CallEnd()]
        return ended and (self._reader is None or self._reader.started)

    def write(self, text: str) -> bool:
        """Take more text; False, and nothing taken, if with that it can not be real."""
        if self._reader is None:
            fits = not text.strip()
        else:
            events = self._reader.push(text)
            self.events += events
            fits = self._reader.rest is None and self._knows(events)
        if fits:
            self._raw.append(text)
        return fits

    def mark(self, control: str) -> bool:
        """Take a control token in the same way."""
        if self._reader is not None and self._reader.inside:
            return self.write(control)
        if self._reader is not None:
            self.events += self._reader.close()
            if not self.complete:
                return False
        if control == OPEN_CALL:
            self._reader = self._form.reader(self._tools)
        elif control == CLOSE_CALL and self._reader is not None:
            self._reader = None
        else:
            return False
        self._raw.append(control)
        return True

    def _knows(self, events: list[Event]) -> bool:
        return all(event.name in self._tools for event in events if isinstance(event, CallStart))
