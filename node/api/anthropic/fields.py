"""What the node does with every field of a Messages request: the table that all else reads."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from node.api.errors import unsupported

NO_EXTRA = "Extra inputs are not permitted"
NO_SERVER_TOOLS = "this node runs custom tools only"


class Verdict(StrEnum):
    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


class Field(NamedTuple):
    """verdict   what happens to the field
    harmless  values of a refused field that ask for nothing, and are ignored instead
    message   of the refusal, after the field's path
    note      for the page of fields
    details   of the refusal, for SDKs
    """

    verdict: Verdict
    harmless: tuple[Any, ...] = ()
    message: str = NO_EXTRA
    note: str = ""
    details: dict[str, Any] | None = None

    def is_harmless(self, value: Any) -> bool:
        return not isinstance(value, bool) and value in self.harmless  # to Python, False is 0


def yes(note: str = "") -> Field:
    return Field(Verdict.SUPPORTED, note=note)


def ignored(note: str = "") -> Field:
    return Field(Verdict.IGNORED, note=note)


def refused(message: str = NO_EXTRA, *harmless: Any, note: str = "") -> Field:
    return Field(Verdict.REFUSED, harmless, message, note)


# The SDKs' tool runner asks for a thread first; told so, it sends the whole conversation with every turn instead.
NO_THREADS = Field(
    Verdict.REFUSED,
    message="this node keeps no conversations",
    details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
)
CACHE_CONTROL = ignored("prefixes are reused without being asked to")
CITATIONS = ignored()

TABLES: dict[str, dict[str, Field]] = {
    "request": {
        "model": yes("the exact id; no other name maps to it"),
        "messages": yes("the first is the user's; neighbours of one role are joined"),
        "max_tokens": yes("clamped to the remaining context; 0 runs the prompt and says nothing"),
        "system": yes("text, or text parts joined by a newline"),
        "stream": yes(),
        "stop_sequences": yes("at most 16 of 256 characters; matched in text only"),
        "temperature": yes("0 to 2, 1 where absent; 0 takes the likeliest token"),
        "top_p": yes(),
        "top_k": yes("0 or absent: off"),
        "seed": yes("an extension: 64 bits, repeats an answer"),
        "tools": yes("custom tools"),
        "tool_choice": yes("auto, any, none, tool; enforced while decoding"),
        "thinking": yes("enabled with a budget, adaptive, disabled"),
        "output_config": yes("format; effort and task_budget are ignored"),
        "output_format": yes("the older name of output_config.format"),
        "metadata": ignored(),
        "service_tier": ignored("there is one tier"),
        "cache_control": CACHE_CONTROL,
        "context_management": ignored("nothing is cleared from a conversation"),
        "diagnostics": ignored(),
        "anthropic_version": ignored(),
        "anthropic_beta": ignored(),
        "inference_geo": refused("this node cannot promise where it runs"),
        "speed": refused("this node has one speed, standard", "standard"),
        "container": refused(NO_SERVER_TOOLS),
        "mcp_servers": refused(NO_SERVER_TOOLS, []),
        "fallbacks": refused(NO_EXTRA, []),
        "fallback": refused(NO_EXTRA, []),
        "fallback_credit_token": refused(),
        "compaction": refused(),
        "thread": NO_THREADS,
        "billing_policy": refused(),
        "chat_template_kwargs": refused("thinking is the switch"),
        "min_p": yes("an extension, as are the three below"),
        "presence_penalty": yes("-2 to 2"),
        "frequency_penalty": yes("-2 to 2"),
        "repetition_penalty": yes("above 0, at most 2; of the prompt too"),
    },
    "message": {"role": yes("user or assistant"), "content": yes("text or parts")},
    "text": {"type": yes(), "text": yes(), "cache_control": CACHE_CONTROL, "citations": CITATIONS},
    "thinking": {
        "type": yes(),
        "thinking": yes("goes back to the model as the reasoning of its turn"),
        "signature": yes("any, or none"),
        "cache_control": CACHE_CONTROL,
    },
    "redacted_thinking": {"type": yes(), "data": ignored("opaque to this node: left out of the prompt")},
    "tool_use": {
        "type": yes(),
        "id": yes("any text of up to 256 characters"),
        "name": yes(),
        "input": yes("an object"),
        "cache_control": CACHE_CONTROL,
        "caller": refused(NO_SERVER_TOOLS, {"type": "direct"}),
        "toolset_name": refused(NO_SERVER_TOOLS),
    },
    "tool_result": {
        "type": yes(),
        "tool_use_id": yes("of a call in the assistant's message before"),
        "content": yes("text, or parts of text, documents and search results"),
        "is_error": yes("the text is then led by `Error: `"),
        "cache_control": CACHE_CONTROL,
        "toolset_name": refused(NO_SERVER_TOOLS),
    },
    "tool_reference": {"type": yes(), "tool_name": yes("read as text"), "cache_control": CACHE_CONTROL},
    "document": {
        "type": yes(),
        "source": yes("text, or content of text parts; PDF, URL and file are refused"),
        "title": yes(),
        "context": yes(),
        "cache_control": CACHE_CONTROL,
        "citations": CITATIONS,
    },
    "source": {"type": yes(), "media_type": ignored(), "data": yes(), "content": yes()},
    "search_result": {
        "type": yes(),
        "source": yes(),
        "title": yes(),
        "content": yes("text parts"),
        "cache_control": CACHE_CONTROL,
        "citations": CITATIONS,
    },
    "tool": {
        "type": yes("custom or absent"),
        "name": yes("letters, digits, _ and -, up to 128; unique"),
        "description": yes(),
        "input_schema": yes("any JSON schema of an object"),
        "strict": yes("arguments always fit the schema"),
        "cache_control": CACHE_CONTROL,
        "eager_input_streaming": ignored("arguments always stream as they are written"),
        "defer_loading": ignored("every tool is in the prompt"),
        "input_examples": ignored(),
        "allowed_callers": refused(NO_SERVER_TOOLS, ["direct"], []),
    },
    "tool_choice": {
        "type": yes(),
        "name": yes(),
        "disable_parallel_tool_use": yes("the first call ends the turn"),
    },
    "thinking_config": {
        "type": yes("enabled, adaptive, disabled"),
        "budget_tokens": yes("of enabled: at least 1024 and below max_tokens"),
        "display": yes("omitted keeps the thinking back; other values change nothing"),
        "block_binding": ignored(),
    },
    "output_config": {
        "effort": ignored(),
        "task_budget": ignored(),
        "format": yes("json_schema; always kept to"),
    },
    "output_format": {"type": yes("json_schema"), "schema": yes(), "name": ignored()},
}


class FieldFilter:
    """Passes a request's objects through the table and keeps the names of what was ignored."""

    def __init__(self) -> None:
        self._ignored: dict[str, None] = {}  # as an ordered set

    @property
    def ignored(self) -> list[str]:
        return list(self._ignored)

    def apply(self, table: str, value: dict[str, Any], path: str, label: str | None = None) -> dict[str, Any]:
        """The supported fields of `value`; raises ApiError for the first that is refused or unknown.

        path   of the object in the request, as in `messages.0.content.2`
        label  the same without numbers, under which ignored fields are named; [path]

        An explicit null equals absence.
        """
        fields = TABLES[table]
        supported = {}
        for name, item in value.items():
            where = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                raise unsupported(_printable(where))
            if item is None:
                continue
            if field.verdict is Verdict.SUPPORTED:
                supported[name] = item
            elif field.verdict is Verdict.REFUSED and not field.is_harmless(item):
                raise unsupported(where, f"{where}: {field.message}", field.details)
            else:
                prefix = path if label is None else label
                self._ignored[f"{prefix}.{name}" if prefix else name] = None
        return supported

    def ignore(self, name: str) -> None:
        """Something accepted and not acted on, that no table row stands for."""
        self._ignored[name] = None


def _printable(path: str) -> str:
    """A stranger's field name, fit for a message."""
    return path[:100].encode("ascii", "backslashreplace").decode().replace("\r", "").replace("\n", "")
