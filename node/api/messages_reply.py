"""The answer to a Messages request: one stream of events, or their fold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from node.api.answer import Answer, Ending
from node.api.envelope import anthropic_error
from node.chat.events import Event

PING_SECONDS = 10.0  # clients call 20 s of silence a stall
STOP_REASONS = {
    Ending.TURN: "end_turn",
    Ending.STOP_SEQUENCE: "stop_sequence",
    Ending.LIMIT: "max_tokens",
    Ending.ROOM: "model_context_window_exceeded",
}

log = logging.getLogger("node.api")


class MessageReply:
    """One message on its way out, in the words of Anthropic's API."""

    def __init__(self, answer: Answer, model: str, request_id: str) -> None:
        self._answer = answer
        self._model = model
        self._request_id = request_id

    async def whole(self) -> bytes:
        """The body of the answer that is not streamed."""
        texts: list[str] = []
        while self._answer.ending is None:
            texts += [event.text for event in await self._answer.next(patience=3600.0) or []]
        text = "".join(texts)
        content = [{"type": "text", "text": text, "citations": None}] if text else []
        return msgspec.json.encode(self._message(content, self._stop(), self._usage()))

    def stream(self, first: list[Event] | None) -> MessageFrames:
        """Server-sent events; `first` are the events that the head of the response waited for."""
        return MessageFrames(self, self._answer, first, self._request_id)

    def start_event(self) -> bytes:
        stop = {"stop_reason": None, "stop_sequence": None}
        return frame("message_start", message=self._message([], stop, self._usage()))

    def end_events(self) -> bytes:
        return frame("message_delta", delta=self._stop(), usage=self._usage()) + frame("message_stop")

    def _message(self, content: list[Any], stop: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "msg_" + self._request_id.removeprefix("req_"),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            **stop,
            "usage": usage,
        }

    def _stop(self) -> dict[str, Any]:
        assert self._answer.ending is not None
        reason = STOP_REASONS[self._answer.ending]
        return {"stop_reason": reason, "stop_sequence": self._answer.stop_sequence}

    def _usage(self) -> dict[str, Any]:
        """So far. The three input counts partition the prompt."""
        return {
            "input_tokens": self._answer.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": self._answer.output_tokens,
        }


class MessageFrames(AsyncIterator[bytes]):
    """The frames of a stream, as many as are ready in each piece. `aclose` gives up the answer.

    A class and not a generator: closing a generator that never started runs none of its code, and then a
    sequence would live on.
    """

    def __init__(
        self, reply: MessageReply, answer: Answer, first: list[Event] | None, request_id: str
    ) -> None:
        self._reply = reply
        self._answer = answer
        self._first = first
        self._request_id = request_id
        self._started = False
        self._open = False
        self._ended = False

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        if not self._started:
            self._started = True
            return self._reply.start_event() + self._render(self._first or [])
        try:
            while True:
                events = await self._answer.next(PING_SECONDS)
                if events is None:
                    return frame("ping")
                if piece := self._render(events):
                    return piece
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._ended = True
            return b"event: error\ndata: " + anthropic_error(error, self._request_id).body + b"\n\n"

    async def aclose(self) -> None:
        self._ended = True
        self._answer.close()

    def _render(self, events: list[Event]) -> bytes:
        """Frames of `events`, with what opens before them and closes after the last."""
        text = "".join(event.text for event in events)
        frames = b""
        if text and not self._open:
            self._open = True
            start = {"type": "text", "text": "", "citations": None}
            frames += frame("content_block_start", index=0, content_block=start)
        if text:
            frames += frame("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        if self._answer.ending is not None:
            self._ended = True
            frames += frame("content_block_stop", index=0) if self._open else b""
            frames += self._reply.end_events()
        return frames


def frame(name: str, **fields: Any) -> bytes:
    """One server-sent event; the JSON is a single line."""
    data = msgspec.json.encode({"type": name, **fields})
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
