"""What a request was promised about the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Calls(StrEnum):
    """Whether the answer may call tools."""

    FREE = "free"  # it may, and decides itself
    FORCED = "forced"  # it begins with a call, after thinking
    FORBIDDEN = "forbidden"


class ThinkingMode(StrEnum):
    """How the answer begins."""

    CLOSED = "closed"  # outside thinking, and it stays there
    OPEN = "open"  # inside: the prompt opened it
    OPTIONAL = "optional"  # outside, and the model may open it itself


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called.

    schema  of its arguments
    strict  whether every call keeps to the schema, or is refused beforehand; else a call does its best
    path    of the schema in the request, for errors
    """

    name: str
    schema: Mapping[str, Any]
    strict: bool = False
    path: str = "tools.0.input_schema"


@dataclass(frozen=True, slots=True)
class OutputConstraints:
    """All that decoding has to enforce. The one that asks for nothing costs nothing.

    tools        that may be called: where one is forced, that one alone
    parallel     whether one answer may hold several calls
    output       JSON schema of the text; with tools that are free, the answer is a call or such a text
    output_path  of that schema in the request, for errors
    budget       most tokens of thinking
    """

    calls: Calls = Calls.FREE
    tools: tuple[CallableTool, ...] = ()
    parallel: bool = True
    output: Mapping[str, Any] | None = None
    output_path: str = "output_config.format.schema"
    thinking: ThinkingMode = ThinkingMode.CLOSED
    budget: int | None = None

    @property
    def strict(self) -> bool:
        return any(tool.strict for tool in self.tools)

    @property
    def shapes_calls(self) -> bool:
        """Whether the inside of a call is decoded by a grammar."""
        if self.calls is Calls.FORBIDDEN or not self.tools:
            return False
        return self.calls is Calls.FORCED or self.strict or self.output is not None

    @property
    def shapes_answer(self) -> bool:
        """Whether the answer must reach a form before it may end."""
        return self.calls is Calls.FORCED or self.output is not None

    @property
    def empty(self) -> bool:
        """Whether anything at all may be sampled."""
        counted = self.budget is not None and self.thinking is not ThinkingMode.CLOSED
        single = bool(self.tools) and not self.parallel
        return not (counted or single or self.strict or self.shapes_answer or self.calls is Calls.FORBIDDEN)
