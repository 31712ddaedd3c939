"""Which token ids end an answer, and how many ids of the table are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def stop_ids(folder: Path) -> frozenset[int]:
    """The union of every end-of-text id that a checkpoint names.

    Small Qwen3.5 checkpoints name `<|endoftext|>` in config.json and have no generation_config.json; the
    `<|im_end|>` that closes a turn stands only in tokenizer_config.json, as text.
    """
    config = _read(folder / "config.json")
    generation = _read(folder / "generation_config.json")
    found: set[int] = set()
    for part in (config, config.get("text_config") or {}, generation):
        value = part.get("eos_token_id")
        found.update([value] if isinstance(value, int) else value or [])
    eos = _read(folder / "tokenizer_config.json").get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    found.update(number for number, content in _added(folder).items() if content == text)
    return frozenset(found)


def real_vocabulary(folder: Path) -> int | None:
    """One more than the highest id that a token has; None where the folder holds no tokenizer.

    The embedding table is padded beyond it (248,320 rows for 248,077 tokens in Qwen3.5).
    """
    tokenizer = _read(folder / "tokenizer.json")
    if not tokenizer:
        return None
    highest = max(tokenizer["model"]["vocab"].values(), default=-1)
    return max(highest, max(_added(folder), default=-1)) + 1


def _added(folder: Path) -> dict[int, str]:
    """Added tokens by id: tokenizer.json leaves out some that tokenizer_config.json has."""
    listed = _read(folder / "tokenizer.json").get("added_tokens") or []
    decoder = _read(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    return {int(number): token["content"] for number, token in decoder.items()} | {
        token["id"]: token["content"] for token in listed
    }


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
