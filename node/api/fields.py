"""What the node does with each top-level field of a Messages request, as one table."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from node.api.errors import unsupported

NO_EXTRA = "Extra inputs are not permitted"


class Verdict(StrEnum):
    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


class Field(NamedTuple):
    """verdict   what happens to the field
    harmless  values of a refused field that ask for nothing, and are ignored instead
    message   of the refusal, after the field's name
    """

    verdict: Verdict
    harmless: tuple[Any, ...] = ()
    message: str = NO_EXTRA


SUPPORTED = Field(Verdict.SUPPORTED)
IGNORED = Field(Verdict.IGNORED)
NOT_YET = "this node does not support it yet"

MESSAGES: dict[str, Field] = {
    "model": SUPPORTED,
    "messages": SUPPORTED,
    "max_tokens": SUPPORTED,
    "system": SUPPORTED,
    "stream": SUPPORTED,
    "stop_sequences": SUPPORTED,
    "temperature": SUPPORTED,
    "top_p": SUPPORTED,
    "top_k": SUPPORTED,
    "seed": SUPPORTED,
    "metadata": IGNORED,
    "service_tier": IGNORED,
    "cache_control": IGNORED,
    "context_management": IGNORED,
    "diagnostics": IGNORED,
    "anthropic_version": IGNORED,
    "anthropic_beta": IGNORED,
    "tools": Field(Verdict.REFUSED, ([],), NOT_YET),
    "tool_choice": Field(Verdict.REFUSED, ({"type": "auto"}, {"type": "none"}), NOT_YET),
    "thinking": Field(Verdict.REFUSED, ({"type": "disabled"},), NOT_YET),
    "output_format": Field(Verdict.REFUSED, (), NOT_YET),
    "min_p": Field(Verdict.REFUSED, (0,), NOT_YET),
    "presence_penalty": Field(Verdict.REFUSED, (0,), NOT_YET),
    "frequency_penalty": Field(Verdict.REFUSED, (0,), NOT_YET),
    "repetition_penalty": Field(Verdict.REFUSED, (1,), NOT_YET),
    "inference_geo": Field(Verdict.REFUSED, (), "this node can not promise where it runs"),
    "speed": Field(Verdict.REFUSED, ("standard",), "this node has one speed, standard"),
    "container": Field(Verdict.REFUSED),
    "mcp_servers": Field(Verdict.REFUSED, ([],), "this node runs custom tools only"),
    "fallbacks": Field(Verdict.REFUSED, ([],)),
    "fallback": Field(Verdict.REFUSED, ([],)),
    "fallback_credit_token": Field(Verdict.REFUSED),
    "compaction": Field(Verdict.REFUSED),
    "thread": Field(Verdict.REFUSED),
    "billing_policy": Field(Verdict.REFUSED),
    "chat_template_kwargs": Field(Verdict.REFUSED, (), "thinking is the switch"),
}
OUTPUT_CONFIG: dict[str, Field] = {
    "effort": IGNORED,
    "task_budget": IGNORED,
    "format": Field(Verdict.REFUSED, (), NOT_YET),
}


def sift(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(supported fields, names of ignored ones); raises ApiError for the first that is refused or unknown.

    An explicit null equals absence everywhere.
    """
    supported: dict[str, Any] = {}
    ignored: list[str] = []
    for name, value in body.items():
        if value is None and name in MESSAGES:
            continue
        if name == "output_config" and (value is None or isinstance(value, dict)):
            for key, inner in (value or {}).items():
                if inner is not None and _verdict(OUTPUT_CONFIG, key, inner, f"output_config.{key}"):
                    ignored.append(f"output_config.{key}")
        elif _verdict(MESSAGES, name, value, name):
            ignored.append(name)
        else:
            supported[name] = value
    return supported, ignored


def _verdict(table: dict[str, Field], name: str, value: Any, path: str) -> bool:
    """Whether the field is ignored; raises if it is refused."""
    field = table.get(name)
    if field is None:
        raise unsupported(_printable(path))
    if field.verdict is Verdict.REFUSED and value not in field.harmless:
        raise unsupported(path, f"{path}: {field.message}")
    return field.verdict is not Verdict.SUPPORTED


def _printable(path: str) -> str:
    """A stranger's field name, fit for a message and a header."""
    return path[:100].encode("ascii", "backslashreplace").decode().replace("\r", "").replace("\n", "")
