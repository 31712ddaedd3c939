"""Reading the small files of a checkpoint's folder, and the one error when they are not as they must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class CheckpointError(Exception):
    """The folder of the model cannot be served: the operator's to mend, never the client's."""


def read_text(path: Path) -> str | None:
    """The text of a file, None where there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None where there is no such file."""
    text = read_text(path)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value
