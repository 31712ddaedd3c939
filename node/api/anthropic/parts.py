"""The parts that a message's content is made of, typed, and what the model reads of each."""

from __future__ import annotations

from typing import Any

import msgspec

from node.api.convert import convert, demand
from node.api.errors import invalid, unsupported
from node.api.fields import FieldFilter

LONGEST_ID = 256  # characters; histories come from other providers, with ids of their own forms
TEXT_ONLY = "this node takes text only"
KINDS = {
    "user": ("text", "tool_result", "document", "search_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
    "tool_result": ("text", "document", "search_result", "tool_reference"),
    "system": ("text",),
    "document": ("text",),
}
KNOWN = {kind for kinds in KINDS.values() for kind in kinds}


class TextPart(msgspec.Struct):
    text: str


class ThinkingPart(msgspec.Struct):
    thinking: str
    signature: str = ""


class RedactedThinkingPart(msgspec.Struct):
    pass


class ToolUsePart(msgspec.Struct):
    id: str
    name: str
    input: dict[str, Any]


class ToolResultPart(msgspec.Struct):
    tool_use_id: str
    text: str


Part = TextPart | ThinkingPart | RedactedThinkingPart | ToolUsePart | ToolResultPart


def read_content(
    field_filter: FieldFilter, content: Any, path: str, owner: str, label: str, tag: str = ""
) -> list[Part]:
    """The parts of `content`, which is text or a list. `owner` is a key of KINDS and says which may come.

    label  `path` without numbers, under which ignored fields are named
    tag    what the tagged path of a refused image holds before its last `.content`, as in `tool_result`
    """
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    parts = demand(content, list, path, "text or a list of parts")
    read = []
    for number, part in enumerate(parts):
        where = f"{path}.{number}"
        read.append(
            _read_part(field_filter, demand(part, dict, where, "an object"), where, owner, label, tag)
        )
    return read


def _read_part(
    field_filter: FieldFilter, part: dict[str, Any], path: str, owner: str, label: str, tag: str
) -> Part:
    kind = _kind(part, path, owner, tag)
    fields = field_filter.apply(kind, part, path, label)
    match kind:
        case "text":
            return convert(fields, TextPart, path)
        case "thinking":
            return convert(fields, ThinkingPart, path)
        case "redacted_thinking":
            field_filter.ignore(f"{label}.redacted_thinking")
            return RedactedThinkingPart()
        case "tool_use":
            return _tool_use(fields, path)
        case "tool_result":
            return _tool_result(field_filter, fields, path, label)
        case "document":
            return TextPart(_document(field_filter, fields, path, label))
        case "search_result":
            return TextPart(_search_result(field_filter, fields, path, label))
        case _:
            name = demand(fields.get("tool_name"), str, f"{path}.tool_name", "text")
            return TextPart(f"Tool loaded: {name}")


def _kind(part: dict[str, Any], path: str, owner: str, tag: str) -> str:
    """What the part says it is; raises ApiError unless it may come here."""
    where, kind = f"{path}.type", part.get("type")
    if not isinstance(kind, str) or not kind:
        raise invalid(where, "must name a kind of part")
    if kind == "image" or (kind == "document" and not _is_text_document(part)):
        # Clients take it out of their history and go on if the path that they are told is tagged so.
        tagged = f"{_tagged(path, tag)}.{kind}"
        raise unsupported(tagged, TEXT_ONLY)
    if kind in KINDS[owner]:
        return kind
    if kind in KNOWN:
        raise invalid(where, f"{kind} cannot come here")
    raise unsupported(where, f"{kind[:50]} is not supported; {TEXT_ONLY}")


def _tagged(path: str, tag: str) -> str:
    """`messages.2.content.1.content.0` with the tag after the part that holds it."""
    if not tag:
        return path
    head, _, number = path.rpartition(".content.")
    return f"{head}.{tag}.content.{number}"


def _is_text_document(part: dict[str, Any]) -> bool:
    source = part.get("source")
    return not isinstance(source, dict) or source.get("type") in ("text", "content", None)


def _tool_use(fields: dict[str, Any], path: str) -> ToolUsePart:
    if fields.get("input") in ("", None):  # a call without arguments, as several clients keep it
        fields["input"] = {}
    use = convert(fields, ToolUsePart, path)
    if not 0 < len(use.id) <= LONGEST_ID:
        raise invalid(f"{path}.id", f"must have 1 to {LONGEST_ID} characters")
    return use


def _tool_result(field_filter: FieldFilter, fields: dict[str, Any], path: str, label: str) -> ToolResultPart:
    content = fields.get("content", "")
    parts = read_content(
        field_filter, content, f"{path}.content", "tool_result", f"{label}.content", "tool_result"
    )
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    is_error = fields.get("is_error", False)
    if demand(is_error, bool, f"{path}.is_error", "true or false"):
        text = f"Error: {text}"  # Qwen has no channel for errors but the text itself
    identity = demand(fields.get("tool_use_id"), str, f"{path}.tool_use_id", "text")
    return ToolResultPart(identity, text)


def _document(field_filter: FieldFilter, fields: dict[str, Any], path: str, label: str) -> str:
    where, label = f"{path}.source", f"{label}.source"
    source = field_filter.apply(
        "source", demand(fields.get("source"), dict, where, "an object"), where, label
    )
    if source.get("type") == "text":
        text = demand(source.get("data"), str, f"{where}.data", "text")
    elif source.get("type") == "content":
        content = source.get("content", "")
        text = join_texts(
            read_content(field_filter, content, f"{where}.content", "document", f"{label}.content")
        )
    else:
        raise invalid(f"{where}.type", "must be 'text' or 'content'")
    heads = [demand(fields.get(name, ""), str, f"{path}.{name}", "text") for name in ("title", "context")]
    return "\n".join([*filter(None, heads), text])


def _search_result(field_filter: FieldFilter, fields: dict[str, Any], path: str, label: str) -> str:
    heads = [demand(fields.get(name, ""), str, f"{path}.{name}", "text") for name in ("title", "source")]
    content = fields.get("content", [])
    text = join_texts(read_content(field_filter, content, f"{path}.content", "document", f"{label}.content"))
    return "\n".join([*filter(None, heads), text])


def join_texts(parts: list[Part]) -> str:
    """The texts of `parts`, a newline between them: plain concatenation would glue words."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart) and part.text)
