"""Calls written while the model still thinks: drafts, or real ones before which it forgot to stop thinking."""

from __future__ import annotations

from collections.abc import Mapping

from node.chat.conversation import ToolSpec
from node.chat.events import CallEnd, CallStart, Event
from node.chat.tool_call_format import ToolCallFormat
from node.chat.tool_call_parser import CLOSE_CALL, OPEN_CALL, ToolCallParser


class Draft:
    """One call or several with nothing but white space between, from <tool_call> on.

    Held until what follows decides: complete calls of known tools are real if the turn ends after them.

    events  what it comes to if it is real
    """

    def __init__(self, call_format: ToolCallFormat, tools: Mapping[str, ToolSpec]) -> None:
        self.events: list[Event] = []
        self._format = call_format
        self._tools = tools
        self._raw = [OPEN_CALL]
        self._parser: ToolCallParser | None = call_format.parser(tools)  # None between two calls

    @property
    def text(self) -> str:
        """What it comes to if it is a draft."""
        return "".join(self._raw)

    def write(self, text: str) -> bool:
        """Take more text; False, and nothing taken, if with that it cannot be real."""
        parser = self._parser
        fits = not text.strip() if parser is None else self._reads(parser, parser.push(text))
        if fits:
            self._raw.append(text)
        return fits

    def mark(self, control: str) -> bool:
        """Take a control token in the same way."""
        if self._parser is not None and self._parser.inside:
            return self.write(control)
        if self._parser is not None:
            fits = self._reads(self._parser, self._parser.close())
            if not fits or self.events[-1:] != [CallEnd()]:
                return False
        if control == OPEN_CALL:
            self._parser = self._format.parser(self._tools)
        elif control == CLOSE_CALL and self._parser is not None:
            self._parser = None
        else:
            return False
        self._raw.append(control)
        return True

    def end(self) -> bool:
        """The turn ends here: whether it is real. Thinking that stops within a call called nothing."""
        left = self._parser.close() if self._parser is not None else []
        broken = self._parser is not None and self._parser.rest is not None
        return self.events[-1:] == [CallEnd()] and not left and not broken

    def _reads(self, parser: ToolCallParser, events: list[Event]) -> bool:
        """Whether what the parser made of more text may be real."""
        self.events += events
        known = all(event.name in self._tools for event in events if isinstance(event, CallStart))
        return known and parser.rest is None
