"""The formats in which Qwen models write calls."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from node.chat.conversation import ToolSpec
from node.chat.json_tool_call import JsonToolCallParser
from node.chat.tool_call_parser import OPEN_CALL, ToolCallParser
from node.chat.xml_tool_call import FUNCTION, XmlToolCallParser


class ToolCallFormat(Enum):
    """JSON  {"name": …, "arguments": {…}}                        Qwen2.5, Qwen3
    XML   <function=…>, <parameter=…> and the value as it is    Qwen3-Coder, Qwen3.5 and later
    """

    JSON = "json"
    XML = "xml"

    @classmethod
    def of(cls, template: str) -> ToolCallFormat | None:
        """The format that a chat template teaches, by its source; None if it knows no calls."""
        if FUNCTION in template:
            return cls.XML
        return cls.JSON if OPEN_CALL in template else None

    def parser(self, tools: Mapping[str, ToolSpec]) -> ToolCallParser:
        """A parser for what follows one <tool_call>."""
        return XmlToolCallParser(tools) if self is ToolCallFormat.XML else JsonToolCallParser()
