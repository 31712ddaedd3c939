"""A Messages request: JSON in; a conversation, its sampling and its constraints out."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from node.api.anthropic.fields import TABLES
from node.api.anthropic.history import Message, read_messages, turns_of
from node.api.anthropic.parts import TextPart, join, read_content
from node.api.anthropic.tools import Tool, ToolChoice, read_choice, read_tools
from node.api.convert import convert, demand
from node.api.errors import ApiError, invalid
from node.api.fields import FieldFilter
from node.api.generation_request import GenerationRequest
from node.chat.conversation import Conversation, Turn
from node.chat.output_constraints import CallableTool, Calls, OutputConstraints
from node.engine.sampling import Sampling

MOST_STOP_SEQUENCES = 16
LONGEST_STOP_SEQUENCE = 256  # characters
LARGEST_SEED = 2**64 - 1
CALLS = {"auto": Calls.FREE, "any": Calls.FORCED, "tool": Calls.FORCED, "none": Calls.FORBIDDEN}
NESTED = {"tool_choice": "tool_choice", "thinking": "thinking_config", "output_config": "output_config"}
LEAST_BUDGET = 1024  # thinking tokens
BILLING_LINE = re.compile(
    r"x-anthropic-billing-header:[^\n]*"
)  # per-request metering: would spoil every prefix


class ThinkingConfig(msgspec.Struct):
    type: Literal["enabled", "adaptive", "disabled"] = "disabled"
    budget_tokens: int | None = None
    display: str = "summarized"

    @property
    def on(self) -> bool:
        return self.type != "disabled"

    @property
    def shown(self) -> bool:
        return self.display != "omitted"


class OutputFormat(msgspec.Struct):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class Scalars(msgspec.Struct):
    """The fields that hold one value each."""

    model: str
    max_tokens: int | None = None
    stream: bool = False
    stop_sequences: list[str] = []
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            self.temperature,
            self.top_p,
            self.top_k,
            secrets.randbits(64) if self.seed is None else self.seed,
            self.min_p,
            self.repetition_penalty,
            self.frequency_penalty,
            self.presence_penalty,
        )


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
    choice = read_choice(field_filter, fields.pop("tool_choice", {}), tools)
    thinking = _thinking(field_filter, fields.pop("thinking", {}))
    output, output_path = _output(
        field_filter, fields.pop("output_config", {}), fields.pop("output_format", None)
    )
    scalars = convert(fields, Scalars)
    _check_ranges(scalars)
    if not counting:
        _check_budget(thinking, scalars.max_tokens or 0)
    return MessagesRequest(
        scalars, messages, system, tools, choice, thinking, output, output_path, field_filter.ignored
    )


def _system(field_filter: FieldFilter, system: Any) -> str:
    parts = read_content(field_filter, system, "system", "system", "system")
    texts = [join([part]) for part in parts]
    if isinstance(system, list) and texts and BILLING_LINE.fullmatch(texts[0]):
        parts = parts[1:]
    return join(parts)


def _thinking(field_filter: FieldFilter, thinking: Any) -> ThinkingConfig:
    raw = field_filter.apply("thinking_config", demand(thinking, dict, "thinking", "an object"), "thinking")
    if "type" not in raw and raw:
        raise invalid("thinking.type", "Field required")
    read = convert(raw, ThinkingConfig, "thinking")
    if read.type == "enabled" and (read.budget_tokens is None or read.budget_tokens < LEAST_BUDGET):
        raise _wrong_budget(f"must be at least {LEAST_BUDGET}")
    if read.type != "enabled" and read.budget_tokens is not None:
        field_filter.ignore("thinking.budget_tokens")
        read.budget_tokens = None
    return read


def _check_budget(thinking: ThinkingConfig, max_tokens: int) -> None:
    if thinking.budget_tokens is not None and thinking.budget_tokens >= max_tokens:
        raise _wrong_budget("must be less than max_tokens")


def _wrong_budget(message: str) -> ApiError:
    """Told without its path, as the documents print it."""
    return ApiError("invalid_request", message, param="thinking.budget_tokens")


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


def _check_ranges(asked: Scalars) -> None:
    if asked.max_tokens is not None and asked.max_tokens < 0:
        raise invalid("max_tokens", "must not be negative")
    if not 0.0 <= asked.temperature <= 2.0:
        raise invalid("temperature", "must be between 0 and 2")
    if not 0.0 < asked.top_p <= 1.0:
        raise invalid("top_p", "must be above 0 and at most 1")
    if not 0 <= asked.top_k < 2**31:
        raise invalid("top_k", "must be between 0 and 2147483647")
    if not 0.0 <= asked.min_p <= 1.0:
        raise invalid("min_p", "must be between 0 and 1")
    for name in ("presence_penalty", "frequency_penalty"):
        if not -2.0 <= getattr(asked, name) <= 2.0:
            raise invalid(name, "must be between -2 and 2")
    if not 0.0 < asked.repetition_penalty <= 2.0:
        raise invalid("repetition_penalty", "must be above 0 and at most 2")
    if asked.seed is not None and not 0 <= asked.seed <= LARGEST_SEED:
        raise invalid("seed", "must be a whole number of at most 64 bits")
    if len(asked.stop_sequences) > MOST_STOP_SEQUENCES:
        raise invalid("stop_sequences", f"at most {MOST_STOP_SEQUENCES}")
    for number, stop in enumerate(asked.stop_sequences):
        path = f"stop_sequences.{number}"
        if not stop.strip():
            raise invalid(path, "each stop sequence must contain non-whitespace")
        if len(stop) > LONGEST_STOP_SEQUENCE:
            raise invalid(path, f"at most {LONGEST_STOP_SEQUENCE} characters")
