"""A Messages request: JSON in, a conversation and its sampling out."""

from __future__ import annotations

import re
import secrets
from typing import Any, Literal

import msgspec

from node.api.errors import ApiError, invalid, unsupported
from node.api.fields import sift
from node.chat.conversation import Conversation, Turn
from node.engine.sampling import Sampling

MOST_STOP_SEQUENCES = 16
LONGEST_STOP_SEQUENCE = 256  # characters
LARGEST_SEED = 2**64 - 1
# Clients look for these words and fold the message into the next user turn instead.
NO_SYSTEM_ROLE = (
    "role 'system' is not supported inside messages; put instructions in the top-level system parameter"
)
BILLING_LINE = re.compile(
    r"x-anthropic-billing-header:[^\n]*"
)  # per-request metering: would spoil every prefix


class Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str
    cache_control: Any = None
    citations: Any = None


def join(content: str | list[Text]) -> str:
    """Parts become one text, a newline between them: plain concatenation would glue words."""
    return content if isinstance(content, str) else "\n".join(part.text for part in content if part.text)


class Message(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    content: str | list[Text]

    @property
    def text(self) -> str:
        return join(self.content)


class MessagesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The supported fields, typed. `max_tokens` may be missing where tokens are only counted."""

    model: str
    messages: list[Message]
    max_tokens: int | None = None
    system: str | list[Text] = ""
    stream: bool = False
    stop_sequences: list[str] = []
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    @property
    def sampling(self) -> Sampling:
        seed = secrets.randbits(64) if self.seed is None else self.seed
        return Sampling(self.temperature, self.top_p, self.top_k, seed)

    @property
    def conversation(self) -> Conversation:
        system = self._system
        first = [Turn("system", system)] if system else []
        return Conversation(turns=(*first, *self._turns), thinking=False)

    @property
    def _system(self) -> str:
        if isinstance(self.system, list) and self.system and BILLING_LINE.fullmatch(self.system[0].text):
            return join(self.system[1:])
        return join(self.system)

    @property
    def _turns(self) -> list[Turn]:
        """Neighbours of one role are one turn."""
        turns: list[Turn] = []
        for message in self.messages:
            text = message.text
            if turns and turns[-1].role == message.role:
                text = f"{turns.pop().text}\n{text}"
            turns.append(Turn(message.role, text))
        return turns


def parse(body: dict[str, Any], *, counting: bool = False) -> tuple[MessagesRequest, list[str]]:
    """(request, names of ignored fields); raises ApiError naming the first field at fault.

    counting: the request is only counted, so `max_tokens` may be missing.
    """
    supported, ignored = sift(body)
    for name in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if name not in supported:
            raise invalid(name, f"{name}: Field required")
    _check_messages(supported["messages"])
    _check_parts("system", supported.get("system", ""))
    try:
        request = msgspec.convert(supported, MessagesRequest)
    except msgspec.ValidationError as error:
        raise _at_path(error) from None
    _check_ranges(request)
    return request, ignored + _ignored_marks(request)


def _check_messages(messages: Any) -> None:
    """What deserves a better sentence than the type check gives it."""
    if not isinstance(messages, list):
        raise invalid("messages", "messages: must be a list")
    if not messages:
        raise invalid("messages", "messages: at least one message is required")
    for number, message in enumerate(messages):
        path = f"messages.{number}"
        if not isinstance(message, dict):
            raise invalid(path, f"{path}: must be an object")
        role = message.get("role")
        if role == "system":
            raise invalid(f"{path}.role", f"{path}.role: {NO_SYSTEM_ROLE}")
        if role not in ("user", "assistant"):
            raise invalid(f"{path}.role", f"{path}.role: must be 'user' or 'assistant'")
        _check_parts(f"{path}.content", message.get("content"))
    if messages[0]["role"] != "user":
        raise invalid("messages.0.role", "messages.0.role: the first message must be the user's")
    if messages[-1]["role"] != "user":
        last = f"messages.{len(messages) - 1}"
        raise unsupported(last, f"{last}: continuing an assistant message is not supported yet")


def _check_parts(path: str, content: Any) -> None:
    if not isinstance(content, list):
        return
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind != "text":
            at = f"{path}.{number}"
            raise unsupported(f"{at}.type", f"{at}.{kind[:50]}: this node takes text only")


def _check_ranges(request: MessagesRequest) -> None:
    if request.max_tokens is not None and request.max_tokens < 0:
        raise invalid("max_tokens", "max_tokens: must not be negative")
    if not 0.0 <= request.temperature <= 2.0:
        raise invalid("temperature", "temperature: must be between 0 and 2")
    if not 0.0 < request.top_p <= 1.0:
        raise invalid("top_p", "top_p: must be above 0 and at most 1")
    if not 0 <= request.top_k < 2**31:
        raise invalid("top_k", "top_k: must not be negative")
    if request.seed is not None and not 0 <= request.seed <= LARGEST_SEED:
        raise invalid("seed", "seed: must be a whole number of at most 64 bits")
    if len(request.stop_sequences) > MOST_STOP_SEQUENCES:
        raise invalid("stop_sequences", f"stop_sequences: at most {MOST_STOP_SEQUENCES}")
    for number, stop in enumerate(request.stop_sequences):
        path = f"stop_sequences.{number}"
        if not stop.strip():
            raise invalid(path, f"{path}: each stop sequence must contain non-whitespace")
        if len(stop) > LONGEST_STOP_SEQUENCE:
            raise invalid(path, f"{path}: at most {LONGEST_STOP_SEQUENCE} characters")
    for number, message in enumerate(request.messages):
        if message.role == "user" and not message.text:
            path = f"messages.{number}.content"
            raise invalid(path, f"{path}: text content blocks must be non-empty")


def _ignored_marks(request: MessagesRequest) -> list[str]:
    """Ignored fields inside messages and system, named once each."""
    inside = {"messages.content": [m.content for m in request.messages], "system": [request.system]}
    return [
        f"{where}.{mark}"
        for where, contents in inside.items()
        for mark in ("cache_control", "citations")
        if any(getattr(p, mark) is not None for c in contents if not isinstance(c, str) for p in c)
    ]


def _at_path(error: msgspec.ValidationError) -> ApiError:
    """msgspec's `Expected ... - at `$.a[0].b`` as an error of the field `a.0.b`."""
    message, _, where = str(error).partition(" - at `$")
    path = re.sub(r"\[(\d+|\.\.\.)\]", r".\1", where.rstrip("`")).strip(".")
    if unknown := re.search(r"unknown field `(.*)`", message):
        return unsupported(f"{path}.{unknown[1]}"[:200])
    return invalid(path or None, f"{path}: {message}" if path else message)
