"""Events of the output parser become content events of a message; the whole message is their fold."""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
from collections.abc import Callable
from typing import Any

import msgspec

from node.chat.events import CallArguments, CallEnd, CallStart, Event, TextDelta, ThinkingDelta

ID_LETTERS = string.ascii_letters + string.digits
ContentEvent = dict[str, Any]


def make_call_id() -> str:
    """Random and not made from the clock: ids must differ within an answer and over all time."""
    return "toolu_" + "".join(secrets.choice(ID_LETTERS) for _ in range(24))


class ContentWriter:
    """Opens and closes the parts of a message, one at a time, numbered from 0.

    show_thinking  False keeps the text of thinking back and gives its signature alone
    """

    def __init__(self, show_thinking: bool, make_id: Callable[[], str] = make_call_id) -> None:
        self._show_thinking = show_thinking
        self._make_id = make_id
        self._index = -1
        self._open: str | None = None  # the kind of the part that is open
        self._thinking = hashlib.sha256()
        self.complete: set[int] = set()  # indexes of the calls that the model finished

    def write(self, event: Event) -> list[ContentEvent]:
        match event:
            case ThinkingDelta(text):
                self._thinking.update(text.encode())
                events = self._begin({"type": "thinking", "thinking": "", "signature": ""})
                return events + (
                    [self._delta("thinking_delta", thinking=text)] if self._show_thinking else []
                )
            case TextDelta(text):
                events = self._begin({"type": "text", "text": "", "citations": None})
                return [*events, self._delta("text_delta", text=text)]
            case CallStart(name):
                part = {"type": "tool_use", "id": self._make_id(), "name": name, "input": {}}
                return self.end() + self._begin(part)
            case CallArguments(json):
                return [self._delta("input_json_delta", partial_json=json)]
            case CallEnd():
                self.complete.add(self._index)
                return self.end()

    def end(self) -> list[ContentEvent]:
        """Close what is open."""
        if self._open is None:
            return []
        events = []
        if self._open == "thinking":
            events.append(self._delta("signature_delta", signature=self._signature()))
        self._open = None
        return [*events, {"type": "content_block_stop", "index": self._index}]

    def _begin(self, part: dict[str, Any]) -> list[ContentEvent]:
        """Open `part`, unless one of its kind is open."""
        if self._open == part["type"]:
            return []
        events = self.end()
        self._index += 1
        self._open = part["type"]
        return [*events, {"type": "content_block_start", "index": self._index, "content_block": part}]

    def _delta(self, kind: str, **fields: str) -> ContentEvent:
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, **fields}}

    def _signature(self) -> str:
        """Opaque and never checked: histories come from other nodes and models too."""
        digest, self._thinking = self._thinking.digest(), hashlib.sha256()
        return base64.b64encode(b"b3os" + digest).decode()


def fold(events: list[ContentEvent], complete: set[int]) -> list[dict[str, Any]]:
    """The content of the whole message. Calls that the model did not finish are left out."""
    content: list[dict[str, Any]] = []
    pieces: list[list[str]] = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append(dict(event["content_block"]))
            pieces.append([])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "signature_delta":
                content[-1]["signature"] = delta["signature"]
            else:
                pieces[-1] += [value for key, value in delta.items() if key != "type"]
    whole = []
    for index, (part, texts) in enumerate(zip(content, pieces, strict=True)):
        text = "".join(texts)
        if part["type"] != "tool_use":
            whole.append(part | {part["type"]: text})
        elif index in complete:
            whole.append(part | {"input": msgspec.json.decode(text) if text else {}})
    return whole
