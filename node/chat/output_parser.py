"""Sampled ids become the events of an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from node.chat.conversation import ToolSpec
from node.chat.detokenizer import Detokenizer
from node.chat.draft import Draft
from node.chat.events import CallEnd, CallStart, Event, TextDelta, ThinkingDelta, merge
from node.chat.segment import NEWLINES, Segment
from node.chat.stops import StopMatcher
from node.chat.tokenizer import Tokenizer
from node.chat.tool_call_format import ToolCallFormat
from node.chat.tool_call_parser import CLOSE_CALL, OPEN_CALL, ToolCallParser

OPEN_THINKING = "<think>"
CLOSE_THINKING = "</think>"


class OutputParser:
    """A state machine over tokens, for one answer: thinking, then text, then calls. Any ids in, events out.

    Tags count where they are tokens of their own; what only reads like one is text. Text is made of segments:
    up to the first call, between two, after the last.

    consumed         tokens taken so far, the last of them the one that completed the answer: what usage counts
    thinking_tokens  those within thinking, without its tags
    calls            complete ones
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        call_format: ToolCallFormat | None,
        tools: Collection[ToolSpec] = (),
        stop_sequences: Collection[str] = (),
        thinking_open: bool = False,
        parallel: bool = True,
    ) -> None:
        """`call_format` is None where calls are but text. If not `parallel`, the answer is done with the first call."""
        self.consumed = 0
        self.thinking_tokens = 0
        self.calls = 0
        self._format = call_format
        self._tools = {tool.name: tool for tool in tools}
        self._parallel = parallel
        self._tags = {
            tokenizer.control[tag]: tag
            for tag in (OPEN_THINKING, CLOSE_THINKING, OPEN_CALL, CLOSE_CALL)
            if tag in tokenizer.control
        }
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopMatcher(stop_sequences)
        self._thinking = thinking_open
        self._thought = False  # what was given last is thinking
        self._segment = Segment(StopMatcher(()), NEWLINES) if thinking_open else Segment(self._stops)
        self._call: ToolCallParser | None = None
        self._draft: Draft | None = None
        self._tokens_before_draft = 0
        self._events: list[Event] = []

    @property
    def matched(self) -> str | None:
        """The stop string that ended the answer."""
        return self._stops.matched

    @property
    def done(self) -> bool:
        """Nothing more is wanted, taken or given."""
        return self.matched is not None or (self.calls > 0 and not self._parallel)

    def push(self, ids: Iterable[int]) -> list[Event]:
        """The events that these ids bring about."""
        for number in ids:
            if self.done:
                break
            self.consumed += 1
            self._take(number)
        return self._taken()

    def end(self, *, cut: bool) -> list[Event]:
        """The last events, when the model ended its turn, or when its answer was cut off."""
        if not self.done:
            self._write(self._detokenizer.end())
        if not self.done and self._thinking:
            self._end_thinking(cut)
        if not self.done and self._call is not None:
            self._end_call(self._call, cut)
        if not self.done:
            self._show(self._segment.end())
            self._segment = Segment(self._stops)
        return self._taken()

    def _take(self, number: int) -> None:
        tag = self._tags.get(number)
        if tag is None:
            self.thinking_tokens += self._thinking
            self._write(self._detokenizer.push((number,)))
            return
        self._write(self._detokenizer.end())
        if self.done:
            return
        if self._thinking:
            self._tag_in_thinking(tag)
        elif self._call is not None:
            self._tag_in_call(self._call, tag)
        else:
            self._tag_in_text(tag)

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._draft is not None:
            if not self._draft.write(text):
                self._drop_draft()
                self._show(self._segment.push(text))
        elif self._call is not None:
            self._read(self._call, self._call.push(text))
        else:
            self._show(self._segment.push(text))

    def _tag_in_text(self, tag: str) -> None:
        if tag == OPEN_CALL and self._format is not None:
            self._call = self._format.parser(self._tools)
        elif tag in (OPEN_THINKING, CLOSE_THINKING) and self._segment.blank:
            self._thinking = tag == OPEN_THINKING
            self._segment = (
                Segment(StopMatcher(()), NEWLINES, "\n" if self._thought else "")
                if self._thinking
                else Segment(self._stops, NEWLINES)
            )
        else:
            self._write(tag)

    def _tag_in_thinking(self, tag: str) -> None:
        if tag == CLOSE_THINKING:
            self._drop_draft()
            self._close_thinking()
            return
        self.thinking_tokens += 1
        if self._draft is not None:
            if self._draft.mark(tag):
                return
            self._drop_draft()
        if tag == OPEN_CALL and self._format is not None:
            self._draft = Draft(self._format, self._tools)
            self._tokens_before_draft = self.thinking_tokens - 1
        elif tag != OPEN_THINKING or not self._segment.blank:
            self._show(self._segment.push(tag))

    def _tag_in_call(self, call: ToolCallParser, tag: str) -> None:
        if call.inside:
            self._read(call, call.push(tag))
            return
        self._read(call, call.close())
        self._call = None
        understood = tag == CLOSE_CALL and call.rest is None
        if not understood and not self.done:
            self._tag_in_text(tag)

    def _read(self, call: ToolCallParser, events: list[Event]) -> None:
        self._give_calls(events)
        if call.rest is not None and not self.done:
            self._call = None
            self._write(call.rest)

    def _give_calls(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, CallStart):
                self._end_segment()
                self._thought = False
            self._events.append(event)
            if isinstance(event, CallEnd):
                self.calls += 1
                if self.done:
                    return

    def _end_segment(self, leading: str | None = None) -> None:
        """A boundary: the template goes on, and text after it begins anew."""
        self._show(self._segment.boundary())
        self._segment = Segment(self._stops, leading)

    def _close_thinking(self) -> None:
        self._end_segment(NEWLINES)
        self._thinking = False

    def _drop_draft(self) -> None:
        """It was but a draft: thinking, word for word."""
        draft, self._draft = self._draft, None
        if draft is not None:
            self._show(self._segment.push(draft.text))

    def _end_thinking(self, cut: bool) -> None:
        draft = self._draft
        if draft is None or cut or not draft.end():
            self._drop_draft()
            return
        self._draft = None
        self.thinking_tokens = self._tokens_before_draft
        self._close_thinking()
        self._give_calls(draft.events)

    def _end_call(self, call: ToolCallParser, cut: bool) -> None:
        self._call = None
        if not cut:
            self._give_calls(call.close())
        rest = call.rest or ""
        if rest.removeprefix(OPEN_CALL).strip():
            self._write(rest)
        else:  # a call, or nothing after <tool_call>
            self._end_segment()

    def _show(self, text: str) -> None:
        if text:
            self._events.append(ThinkingDelta(text) if self._thinking else TextDelta(text))
            self._thought = self._thinking

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return merge(events)
