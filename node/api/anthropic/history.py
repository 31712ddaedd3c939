"""The messages of a request become the turns of a conversation: joined, paired, ordered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from node.api.anthropic.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    join_texts,
    read_content,
)
from node.api.convert import demand
from node.api.errors import ApiError, invalid
from node.api.fields import FieldFilter
from node.chat.conversation import Call, Turn

# Clients look for these words and fold the message into the next user turn instead.
NO_SYSTEM_ROLE = (
    "role 'system' is not supported inside messages; put instructions in the top-level system parameter"
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or several neighbours of one role. Each part has the path that errors name it by."""

    role: str
    path: str
    parts: list[tuple[str, Part]]

    @property
    def calls(self) -> list[tuple[str, ToolUsePart]]:
        return [(path, part) for path, part in self.parts if isinstance(part, ToolUsePart)]

    @property
    def results(self) -> list[tuple[str, ToolResultPart]]:
        return [(path, part) for path, part in self.parts if isinstance(part, ToolResultPart)]

    @property
    def text(self) -> str:
        return join_texts([part for _, part in self.parts])


def read_messages(field_filter: FieldFilter, messages: Any) -> list[Message]:
    """Typed messages, neighbours of one role joined. Raises ApiError naming the part at fault."""
    demand(messages, list, "messages", "a list")
    if not messages:
        raise invalid("messages", "at least one message is required")
    joined: list[Message] = []
    for number, raw in enumerate(messages):
        message = _read_message(field_filter, raw, f"messages.{number}")
        if joined and joined[-1].role == message.role:
            joined[-1].parts.extend(message.parts)
        else:
            joined.append(message)
    if joined[0].role != "user":
        raise invalid("messages.0.role", "the first message must be the user's")
    return joined


def _read_message(field_filter: FieldFilter, raw: Any, path: str) -> Message:
    demand(raw, dict, path, "an object")
    role = raw.get("role")
    if role == "system":
        raise invalid(f"{path}.role", NO_SYSTEM_ROLE)
    if role not in ("user", "assistant"):
        raise invalid(f"{path}.role", "must be 'user' or 'assistant'")
    fields = field_filter.apply("message", raw, path, "messages")
    if "content" not in fields:
        raise invalid(f"{path}.content", "Field required")
    where = f"{path}.content"
    parts = read_content(field_filter, fields["content"], where, role, "messages.content")
    if role == "user" and not any(not isinstance(part, TextPart) or part.text.strip() for part in parts):
        raise invalid(where, "text content blocks must be non-empty")
    return Message(role, path, [(f"{where}.{number}", part) for number, part in enumerate(parts)])


def turns_of(messages: list[Message]) -> list[Turn]:
    """The turns of a conversation. Raises ApiError where calls and results do not pair."""
    turns: list[Turn] = []
    waiting: list[ToolUsePart] = []  # calls of the assistant's message before
    for message in messages:
        if message.role == "assistant":
            turns.append(_assistant(message))
            waiting = _unique(message)
        else:
            turns += _user(message, waiting)
            waiting = []
    if waiting:
        raise _without_result(messages[-1].path, [call.id for call in waiting])
    return turns


def _assistant(message: Message) -> Turn:
    thoughts = [part.thinking for _, part in message.parts if isinstance(part, ThinkingPart)]
    calls = tuple(Call(call.id, call.name, call.input) for _, call in message.calls)
    return Turn("assistant", message.text, "\n".join(thoughts) if thoughts else None, calls)


def _user(message: Message, waiting: list[ToolUsePart]) -> list[Turn]:
    """Results first and in the order of their calls, for templates write no ids; then the user's words."""
    results: dict[str, ToolResultPart] = {}
    asked = {call.id for call in waiting}
    for path, result in message.results:
        if result.tool_use_id not in asked or result.tool_use_id in results:
            raise invalid(
                path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {result.tool_use_id[:256]}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
            )
        results[result.tool_use_id] = result
    if missing := [call.id for call in waiting if call.id not in results]:
        raise _without_result(message.path, missing)
    turns = [Turn("tool", results[call.id].text, call_id=call.id) for call in waiting]
    if message.text:
        turns.append(Turn("user", message.text))
    return turns


def _unique(message: Message) -> list[ToolUsePart]:
    calls = [call for _, call in message.calls]
    if len({call.id for call in calls}) < len(calls):
        raise invalid(message.path, "`tool_use` ids must be unique")
    return calls


def _without_result(path: str, ids: list[str]) -> ApiError:
    return invalid(
        path,
        f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    )
