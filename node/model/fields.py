"""Keys of config.json, each refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.checkpoint import CheckpointError


def size(text: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A positive whole number. Raises CheckpointError where it is none, or is missing and has no default."""
    value = text.get(key)
    value = default if value is None else value
    if value is None:
        raise CheckpointError("missing", key=key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise CheckpointError(f"{value!r} is not a positive whole number", key=key)
    return value


def demand(text: Mapping[str, Any], key: str, only: object) -> None:
    """Raise CheckpointError where the key says something else: `only` is all that the layers do."""
    if text.get(key, only) != only:
        raise CheckpointError(f"{text[key]!r} is not supported (only {only!r} is)", key=key)
