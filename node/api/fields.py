"""Tables of a request's fields, whatever the dialect: what happens to each, and what was ignored."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from node.api.errors import ERRORS, unsupported

NO_EXTRA = ERRORS["unsupported_parameter"].message


class Verdict(StrEnum):
    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


class Field(NamedTuple):
    """verdict   what happens to the field
    harmless  values of a refused field that ask for nothing, and are ignored instead
    message   of the refusal, after the field's path
    note      for the page of fields
    """

    verdict: Verdict
    harmless: tuple[Any, ...] = ()
    message: str = NO_EXTRA
    note: str = ""

    def is_harmless(self, value: Any) -> bool:
        return not isinstance(value, bool) and value in self.harmless  # to Python, False is 0


def yes(note: str = "") -> Field:
    return Field(Verdict.SUPPORTED, note=note)


def ignored(note: str = "") -> Field:
    return Field(Verdict.IGNORED, note=note)


def refused(message: str = NO_EXTRA, *harmless: Any) -> Field:
    return Field(Verdict.REFUSED, harmless, message)


FieldTables = Mapping[str, Mapping[str, Field]]  # by the kind of object, then by the name of the field


class FieldFilter:
    """Passes a request's objects through a dialect's tables and keeps the names of what was ignored."""

    def __init__(self, tables: FieldTables) -> None:
        self._tables = tables
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
        fields = self._tables[table]
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
                raise unsupported(where, field.message)
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
