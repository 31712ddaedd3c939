"""A conversation as every dialect hands it over and as every chat template expects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by the assistant. Arguments are an object: several templates take no JSON text."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": dict(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said.

    text       one string: several templates fail on lists of parts, or render them as nothing, silently
    reasoning  the assistant's own; None where there was none, which templates tell from the empty string
    calls      the assistant's, in order
    call_id    of a tool's result: the call it answers
    """

    role: Role
    text: str
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    call_id: str | None = None

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [call.message for call in self.calls]
        if self.call_id is not None:
            message["tool_call_id"] = self.call_id
        return message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the client offers; schema is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def definition(self) -> dict[str, Any]:
        function: dict[str, Any] = {"name": self.name}
        if self.description:  # an empty one would cost the model tokens and tell it nothing
            function["description"] = self.description
        function["parameters"] = dict(self.schema)
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that a prompt is made of. Parts that a dialect joins into one string it joins before this.

    prefill  the beginning of the answer, which the model goes on with
    """

    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    thinking: bool = True
    prefill: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The turns in the form that chat templates expect."""
        return [turn.message for turn in self.turns]

    @property
    def definitions(self) -> list[dict[str, Any]] | None:
        """The tools in the form that chat templates expect: None, not an empty list, where there are none."""
        return [tool.definition for tool in self.tools] or None
