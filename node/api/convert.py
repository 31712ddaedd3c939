"""Checked conversion of JSON to the types of requests."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from node.api.errors import ApiError, invalid

T = TypeVar("T")
INDEX = re.compile(r"\[(\d+|\.\.\.)\]")


def convert(value: Any, to: type[T], path: str = "") -> T:
    """`value` as `to`; raises ApiError that names the field at fault by its path below `path`."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        raise _at_path(error, path) from None


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
