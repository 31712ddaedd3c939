"""The forms in which Qwen models write calls."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from node.chat.call_reader import OPEN_CALL, CallReader
from node.chat.conversation import ToolSpec
from node.chat.json_call import JsonCallReader
from node.chat.xml_call import FUNCTION, XmlCallReader


class CallForm(Enum):
    """JSON  {"name": …, "arguments": {…}}                        Qwen2.5, Qwen3
    XML   <function=…>, <parameter=…> and the value as it is    Qwen3-Coder, Qwen3.5 and later
    """

    JSON = "json"
    XML = "xml"

    @classmethod
    def of(cls, template: str) -> CallForm | None:
        """The form that a chat template teaches, by its source; None if it knows no calls."""
        if FUNCTION in template:
            return cls.XML
        return cls.JSON if OPEN_CALL in template else None

    def reader(self, tools: Mapping[str, ToolSpec]) -> CallReader:
        """A reader for what follows one <tool_call>."""
        return XmlCallReader(tools) if self is CallForm.XML else JsonCallReader()
