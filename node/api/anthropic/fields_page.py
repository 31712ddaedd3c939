"""docs/anthropic-compatibility.md, made from the table of fields: `python -m node.api.anthropic.fields_page > FILE`."""

from __future__ import annotations

from collections.abc import Mapping

from node.api.anthropic.envelope import ERROR_TYPES
from node.api.anthropic.fields import TABLES
from node.api.errors import ERRORS
from node.api.fields import Field, Verdict

TITLES = {
    "request": "Top level",
    "message": "`messages[]`",
    "text": "`text` parts",
    "thinking": "`thinking` parts (assistant)",
    "redacted_thinking": "`redacted_thinking` parts (assistant)",
    "tool_use": "`tool_use` parts (assistant)",
    "tool_result": "`tool_result` parts (user)",
    "tool_reference": "`tool_reference` parts (in tool results)",
    "document": "`document` parts (user, and in tool results)",
    "source": "`source` of a document",
    "search_result": "`search_result` parts (user, and in tool results)",
    "tool": "`tools[]`",
    "tool_choice": "`tool_choice`",
    "thinking_config": "`thinking`",
    "output_config": "`output_config`",
    "output_format": "`output_config.format`",
}
HEAD = """\
# Anthropic compatibility

`POST /v1/infer/v1/messages` is Anthropic's Messages API on the node's model; `.../count_tokens` takes the same
fields and refuses alike. Anthropic's SDKs work with two changes: the base URL, and a key of the node's.

Supported fields do what Anthropic's do. Ignored ones are accepted, change nothing, and are named in the response
header `b3os-ignored`. Refused and unknown ones are answered with 400 `unsupported_parameter` and the path of the
field in `b3os.param`. An explicit `null` equals absence. A `system` message inside `messages` is refused (400
`invalid_request`): instructions go in the top-level `system`. Images, PDFs and server-side tools are refused.

A leading system part that is nothing but an `x-anthropic-billing-header:` line is left out of the prompt: it is
metering data that changes with every request and would keep prefixes from being reused.

This page is made from the table that validates requests, `node/api/anthropic/fields.py`.
"""


def page() -> str:
    tables = [f"## {TITLES[name]}\n\n{_rows(fields)}" for name, fields in TABLES.items()]
    errors = ["## Errors", "", "| code | status | type |", "|---|---|---|"]
    errors += [f"| `{code}` | {row.status} | `{ERROR_TYPES[row.status]}` |" for code, row in ERRORS.items()]
    return "\n\n".join([HEAD.rstrip(), *tables, "\n".join(errors)]) + "\n"


def _rows(fields: Mapping[str, Field]) -> str:
    rows = [f"| `{name}` | {field.verdict} | {_note(field)} |" for name, field in fields.items()]
    return "\n".join(["| field | | |", "|---|---|---|", *rows])


def _note(field: Field) -> str:
    if field.verdict is not Verdict.REFUSED:
        return field.note
    harmless = [f"`{value!r}`" for value in field.harmless] + ["null"]
    return f"{field.message}; {' and '.join(harmless)} ignored"


if __name__ == "__main__":
    print(page(), end="")
