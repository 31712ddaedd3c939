"""The answer to a Messages request: one stream of events, or their fold."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from node.api.answer import Answer, Ending
from node.api.anthropic.content import ContentEvent, ContentWriter, fold
from node.api.anthropic.envelope import error_body
from node.api.envelope import as_api_error
from node.api.errors import ApiError
from node.chat.events import Event

PING_SECONDS = 10.0  # clients call 20 s of silence a stall
STOP_REASONS = {
    Ending.TURN: "end_turn",
    Ending.CALLS: "tool_use",
    Ending.STOP_SEQUENCE: "stop_sequence",
    Ending.LIMIT: "max_tokens",
    Ending.CONTEXT: "model_context_window_exceeded",
}

log = logging.getLogger("node.api")


class MessageReply:
    """One message on its way out, in the words of Anthropic's API."""

    def __init__(self, answer: Answer, model: str, request_id: str, writer: ContentWriter) -> None:
        self.answer = answer
        self.request_id = request_id
        self._model = model
        self._writer = writer

    async def whole(self) -> bytes:
        """The body of the answer that is not streamed."""
        events: list[ContentEvent] = []
        while self.answer.ending is None:
            events += self.content_events(await self.answer.next(timeout=3600.0) or [])
        content = fold(events, self._writer.complete)
        return msgspec.json.encode(self._message(content, self._stop(), self._usage()))

    def content_events(self, events: list[Event]) -> list[ContentEvent]:
        """What `events` do to the content, and, with the last of them, its end."""
        written = [done for event in events for done in self._writer.write(event)]
        return written + (self._writer.end() if self.answer.ending is not None else [])

    def start_frame(self) -> bytes:
        stop = {"stop_reason": None, "stop_sequence": None}
        return frame({"type": "message_start", "message": self._message([], stop, self._usage())})

    def end_frames(self) -> bytes:
        end = {"type": "message_delta", "delta": self._stop(), "usage": self._usage()}
        return frame(end) + frame({"type": "message_stop"})

    def _message(self, content: list[Any], stop: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "msg_" + self.request_id.removeprefix("req_"),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            **stop,
            "usage": usage,
        }

    def _stop(self) -> dict[str, Any]:
        assert self.answer.ending is not None
        reason = STOP_REASONS[self.answer.ending]
        return {"stop_reason": reason, "stop_sequence": self.answer.stop_sequence}

    def _usage(self) -> dict[str, Any]:
        """So far. The three input counts partition the prompt."""
        return {
            "input_tokens": self.answer.prompt_tokens - self.answer.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.answer.cached_tokens,
            "output_tokens": self.answer.output_tokens,
            "output_tokens_details": {"thinking_tokens": self.answer.thinking_tokens},
            "service_tier": "standard",
        }


class MessageFrames(AsyncIterator[bytes]):
    """The frames of a stream, as many as are ready in each piece. `aclose` gives up the answer.

    A class and not a generator: closing a generator that never started runs none of its code, and then a
    sequence would live on.
    """

    def __init__(self, reply: MessageReply, first: list[Event] | None) -> None:
        """`first` are the events that the head of the response waited for, None if it did not wait longer."""
        self._reply = reply
        self._first = first
        self._started = False
        self._ended = False
        self._written = time.monotonic()

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        if not self._started:
            self._started = True
            piece = self._reply.start_frame() + self._render(self._first or [])
        else:
            piece = await self._next()
        self._written = time.monotonic()
        return piece

    async def _next(self) -> bytes:
        """What comes next, or a ping: tokens may come for a long time and show nothing."""
        try:
            while (left := self._written + PING_SECONDS - time.monotonic()) > 0:
                events = await self._reply.answer.next(left)
                if events is not None and (piece := self._render(events)):
                    return piece
            return frame({"type": "ping"})
        except Exception as error:
            if not isinstance(error, ApiError):
                log.exception("%s failed while it streamed", self._reply.request_id)
            self._ended = True
            return b"event: error\ndata: " + error_body(as_api_error(error), self._reply.request_id) + b"\n\n"

    async def aclose(self) -> None:
        self._ended = True
        self._reply.answer.close()

    def _render(self, events: list[Event]) -> bytes:
        frames = b"".join(map(frame, self._reply.content_events(events)))
        if self._reply.answer.ending is not None:
            self._ended = True
            frames += self._reply.end_frames()
        return frames


def frame(event: dict[str, Any]) -> bytes:
    """One server-sent event; the JSON is a single line."""
    name: str = event["type"]
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
