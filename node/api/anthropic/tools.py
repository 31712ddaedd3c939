"""Tool definitions of a request, and what it asks of their use."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from node.api.anthropic.fields import NO_SERVER_TOOLS
from node.api.convert import convert, demand
from node.api.errors import invalid, unsupported
from node.api.fields import FieldFilter
from node.chat.conversation import ToolSpec

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class Tool(msgspec.Struct):
    name: str
    input_schema: dict[str, Any]
    type: str = "custom"
    description: str = ""
    strict: bool = False

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.input_schema)


class ToolChoice(msgspec.Struct):
    """`name` is that of the one tool, where `type` is tool."""

    type: Literal["auto", "any", "none", "tool"] = "auto"
    name: str = ""
    disable_parallel_tool_use: bool = False


def read_tools(field_filter: FieldFilter, tools: Any) -> list[Tool]:
    """Raises ApiError naming the definition at fault."""
    names: set[str] = set()
    read = []
    for number, raw in enumerate(demand(tools, list, "tools", "a list")):
        path = f"tools.{number}"
        kind = demand(raw, dict, path, "an object").get("type")
        if kind not in (None, "custom"):
            shown = kind[:50] if isinstance(kind, str) else "this"
            raise unsupported(f"{path}.type", f"{shown} is not supported; {NO_SERVER_TOOLS}")
        tool = convert(field_filter.apply("tool", raw, path, "tools"), Tool, path)
        if not NAME.fullmatch(tool.name):
            raise invalid(f"{path}.name", f"must match {NAME.pattern}")
        if tool.name in names:
            raise invalid(f"{path}.name", "tool names must be unique")
        names.add(tool.name)
        read.append(tool)
    return read


def read_tool_choice(field_filter: FieldFilter, choice: Any, tools: list[Tool]) -> ToolChoice:
    """Raises ApiError where the choice cannot be kept to with these tools."""
    raw = field_filter.apply("tool_choice", demand(choice, dict, "tool_choice", "an object"), "tool_choice")
    read = convert(raw, ToolChoice, "tool_choice")
    if read.type in ("any", "tool") and not tools:
        raise invalid("tool_choice", f"'{read.type}' needs tools")
    if read.type == "tool" and read.name not in {tool.name for tool in tools}:
        raise invalid("tool_choice.name", f"no tool is named {read.name[:128]!r}")
    if read.type != "tool" and read.name:
        field_filter.ignore("tool_choice.name")
    return read
