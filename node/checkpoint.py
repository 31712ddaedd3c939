"""A checkpoint's folder: its small files, and the one error for whatever is wrong in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"


class CheckpointError(Exception):
    """The folder of the model cannot be served: the operator's to mend, never the client's.

    path  the file, or the folder where no file of it is to blame; None while nobody has said where it was read
    key   the one in the file, or None
    """

    def __init__(self, message: str, *, key: str | None = None, path: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.path = path

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.path, self.key, self.message) if part is not None)


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """The files that stand beside the weights. Every method raises CheckpointError with the path to blame."""

    path: Path

    def read_text(self, name: str) -> str | None:
        """The text of a file, None where there is no such file."""
        path = self.path / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(error.strerror or str(error), path=path) from error
        except UnicodeDecodeError as error:
            raise CheckpointError(str(error), path=path) from error

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The JSON object in a file, None where there is no such file."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"not JSON: {error}", path=self.path / name) from error
        if not isinstance(value, dict):
            raise CheckpointError("not a JSON object", path=self.path / name)
        return value

    def demand_json(self, name: str) -> dict[str, Any]:
        """The same of a file that there must be."""
        value = self.read_json(name)
        if value is None:
            raise CheckpointError(f"no {name}", path=self.path)
        return value

    @contextmanager
    def reading(self, name: str, kind: str) -> Iterator[None]:
        """While the contents of a file are looked into: what is wrong with them is told of that file.

        They are a stranger's, and any key may be absent or of another type: then it is no file of this `kind`.
        """
        path = self.path / name
        try:
            yield
        except CheckpointError as error:
            raise CheckpointError(error.message, key=error.key, path=error.path or path) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"not {kind}: {error!r}", path=path) from error
