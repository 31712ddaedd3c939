"""Checked conversion of JSON to the types of requests."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from node.api.errors import ApiError, invalid

T = TypeVar("T")
EXACT = 2**53  # above it a float no longer says which whole number was written
INDEX = re.compile(r"\[(\d+|\.\.\.)\]")


def convert(value: Any, to: type[T], path: str = "") -> T:
    """`value` as `to`; raises ApiError that names the field at fault by its path below `path`.

    20.0 is a whole number to JSON, and to clients in languages that have one kind of number.
    """
    if isinstance(value, dict):
        value = {name: _whole(item) for name, item in value.items()}
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        raise _at_path(error, path) from None


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT else value


def demand(value: Any, kind: type[T], path: str, word: str) -> T:
    """`value`, which must be a `kind`; raises ApiError with `word`, as in "must be an object"."""
    if not isinstance(value, kind):
        raise invalid(path, f"must be {word}")
    return value


def _at_path(error: msgspec.ValidationError, path: str) -> ApiError:
    """msgspec's "Expected ... - at `$.a[0].b`" as an error of the field `a.0.b`."""
    message, _, where = str(error).partition(" - at `$")
    below = INDEX.sub(r".\1", where.rstrip("`")).strip(".")
    full = ".".join(part for part in (path, below) if part)
    if missing := re.search(r"missing required field `(.*)`", message):
        full = f"{full}.{missing[1]}" if full else missing[1]
        return invalid(full, "Field required")
    return invalid(full, message)
