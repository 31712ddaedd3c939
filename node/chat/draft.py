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

    def write(self, text: str) -> bool:
        """Take more text; False, and nothing taken, if with that it can not be real."""
        reader = self._reader
        fits = not text.strip() if reader is None else self._reads(reader, reader.push(text))
        if fits:
            self._raw.append(text)
        return fits

    def mark(self, control: str) -> bool:
        """Take a control token in the same way."""
        if self._reader is not None and self._reader.inside:
            return self.write(control)
        if self._reader is not None:
            fits = self._reads(self._reader, self._reader.close())
            if not fits or self.events[-1:] != [CallEnd()]:
                return False
        if control == OPEN_CALL:
            self._reader = self._form.reader(self._tools)
        elif control == CLOSE_CALL and self._reader is not None:
            self._reader = None
        else:
            return False
        self._raw.append(control)
        return True

    def end(self) -> bool:
        """The turn ends here: whether it is real. Thinking that stops within a call called nothing."""
        left = self._reader.close() if self._reader is not None else []
        broken = self._reader is not None and self._reader.rest is not None
        return self.events[-1:] == [CallEnd()] and not left and not broken

    def _reads(self, reader: CallReader, events: list[Event]) -> bool:
        """Whether what the reader made of more text may be real."""
        self.events += events
        known = all(event.name in self._tools for event in events if isinstance(event, CallStart))
        return known and reader.rest is None
