"""A Messages request: JSON in; a conversation, its sampling and its constraints out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from node.api.anthropic.fields import TABLES
from node.api.anthropic.history import Message, read_messages, turns_of
from node.api.anthropic.parts import TextPart, join_texts, read_content
from node.api.anthropic.scalars import Scalars, check_ranges
from node.api.anthropic.thinking import ThinkingConfig, check_budget, read_thinking
from node.api.anthropic.tools import Tool, ToolChoice, read_tool_choice, read_tools
from node.api.convert import convert, demand
from node.api.errors import invalid
from node.api.fields import FieldFilter
from node.api.generation_request import GenerationRequest
from node.chat.conversation import Conversation, Turn
from node.chat.output_constraints import CallableTool, Calls, OutputConstraints

CALLS = {"auto": Calls.FREE, "any": Calls.FORCED, "tool": Calls.FORCED, "none": Calls.FORBIDDEN}
NESTED = {"tool_choice": "tool_choice", "thinking": "thinking_config", "output_config": "output_config"}
BILLING_LINE = re.compile(
    r"x-anthropic-billing-header:[^\n]*"
)  # per-request metering: would spoil every prefix


class OutputFormat(msgspec.Struct):
    type: Literal["json_schema"]
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """Typed and checked, as far as one message at a time can be."""

    scalars: Scalars
    messages: list[Message]
    system: str
    tools: list[Tool]
    choice: ToolChoice
    thinking: ThinkingConfig
    output: OutputFormat | None
    output_path: str
    ignored: list[str]

    @property
    def model(self) -> str:
        return self.scalars.model

    def generation_request(self, size: int = 0) -> GenerationRequest:
        """Raises ApiError where calls and results do not pair, or the last message cannot be continued."""
        asked = self.scalars
        return GenerationRequest(
            conversation=self._conversation(),
            sampling=asked.sampling,
            max_tokens=asked.max_tokens or 0,
            stops=tuple(asked.stop_sequences),
            constraints=self._output_constraints(),
            size=size,
        )

    def _output_constraints(self) -> OutputConstraints:
        choice = self.choice
        tools = tuple(
            CallableTool(tool.name, tool.input_schema, tool.strict, f"tools.{number}.input_schema")
            for number, tool in enumerate(self.tools)
            if choice.type != "tool" or tool.name == choice.name
        )
        return OutputConstraints(
            calls=CALLS[choice.type],
            tools=tools,
            parallel=not choice.disable_parallel_tool_use,
            output=None if self.output is None else self.output.schema,
            output_path=self.output_path,
            budget=self.thinking.budget_tokens,
        )

    def _conversation(self) -> Conversation:
        messages, prefill = self.messages, ""
        if messages[-1].role == "assistant":
            prefill = self._prefill(messages[-1])
            messages = messages[:-1]
        first = [Turn("system", self.system)] if self.system.strip() else []
        return Conversation(
            turns=(*first, *turns_of(messages)),
            tools=tuple(tool.spec for tool in self.tools),
            thinking=self.thinking.on,
            prefill=prefill,
        )

    def _prefill(self, message: Message) -> str:
        """The beginning of the answer, which the model goes on with."""
        if message.calls:
            raise invalid(
                message.path,
                "`tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(call.id for _, call in message.calls)}.",
            )
        if not isinstance(message.parts[-1][1] if message.parts else None, TextPart):
            raise invalid("messages", "a last assistant message must end in text, to be continued")
        if self.thinking.on:
            raise invalid("messages", "an assistant message cannot be continued while thinking is on")
        if self.output is not None:
            raise invalid("messages", f"an assistant message cannot be continued in {self.output_path}")
        if message.text != message.text.rstrip():
            where = message.path
            raise invalid(where, "final assistant content cannot end with trailing whitespace")
        return message.text


def parse(body: dict[str, Any], *, counting: bool = False) -> MessagesRequest:
    """Raises ApiError naming the first field at fault.

    counting: the request is only counted, so `max_tokens` may be missing and budgets are not held against it.
    """
    field_filter = FieldFilter(TABLES)
    fields = field_filter.apply("request", body, "")
    for name in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if name not in fields:
            raise invalid(name, "Field required")
    for name, table in NESTED.items():  # what is unknown anywhere comes before what is wrong anywhere
        if isinstance(fields.get(name), dict):
            field_filter.apply(table, fields[name], name)
    messages = read_messages(field_filter, fields.pop("messages"))
    system = _system(field_filter, fields.pop("system", ""))
    tools = read_tools(field_filter, fields.pop("tools", []))
    choice = read_tool_choice(field_filter, fields.pop("tool_choice", {}), tools)
    thinking = read_thinking(field_filter, fields.pop("thinking", {}))
    output, output_path = _output(
        field_filter, fields.pop("output_config", {}), fields.pop("output_format", None)
    )
    scalars = convert(fields, Scalars)
    check_ranges(scalars)
    if not counting:
        check_budget(thinking, scalars.max_tokens or 0)
    return MessagesRequest(
        scalars, messages, system, tools, choice, thinking, output, output_path, field_filter.ignored
    )


def _system(field_filter: FieldFilter, system: Any) -> str:
    parts = read_content(field_filter, system, "system", "system", "system")
    texts = [join_texts([part]) for part in parts]
    if isinstance(system, list) and texts and BILLING_LINE.fullmatch(texts[0]):
        parts = parts[1:]
    return join_texts(parts)


def _output(field_filter: FieldFilter, config: Any, alias: Any) -> tuple[OutputFormat | None, str]:
    """The format that is asked for, and the path of its schema."""
    raw = field_filter.apply(
        "output_config", demand(config, dict, "output_config", "an object"), "output_config"
    )
    if "format" in raw and alias is not None:
        raise invalid("output_format", "output_config.format is given too")
    path, given = (
        ("output_format", alias) if alias is not None else ("output_config.format", raw.get("format"))
    )
    if given is None:
        return None, path
    fields = field_filter.apply("output_format", demand(given, dict, path, "an object"), path)
    return convert(fields, OutputFormat, path), f"{path}.schema"
