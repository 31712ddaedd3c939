"""Which token ids end an answer, and how many ids of the table are real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.checkpoint import (
    CONFIG,
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    CheckpointError,
    CheckpointFolder,
)


def stop_ids(folder: Path) -> frozenset[int]:
    """The union of every end-of-text id that a checkpoint names. Raises CheckpointError.

    Small Qwen3.5 checkpoints name `<|endoftext|>` in config.json and have no generation_config.json; the
    `<|im_end|>` that closes a turn stands only in tokenizer_config.json, as text.
    """
    files = CheckpointFolder(folder)
    found: set[int] = set()
    for name in (CONFIG, GENERATION_CONFIG):
        config = files.read_json(name) or {}
        with files.reading(name, "a configuration"):
            found.update(_end_ids(config), _end_ids(config.get("text_config") or {}))
    eos = (files.read_json(TOKENIZER_CONFIG) or {}).get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    found.update(number for number, content in _added(files).items() if content == text)
    return frozenset(found)


def real_vocabulary(folder: Path) -> int | None:
    """One more than the highest id that a token has; None where the folder holds no tokenizer.

    The embedding table is padded beyond it (248,320 rows for 248,077 tokens in Qwen3.5). Raises CheckpointError.
    """
    files = CheckpointFolder(folder)
    tokenizer = files.read_json(TOKENIZER)
    if not tokenizer:
        return None
    with files.reading(TOKENIZER, "a tokenizer"):
        highest = max(tokenizer["model"]["vocab"].values(), default=-1)
    return max(highest, max(_added(files), default=-1)) + 1


def _end_ids(config: Mapping[str, Any]) -> list[int]:
    value = config.get("eos_token_id")
    ids = [value] if isinstance(value, int) else value or []
    if not isinstance(ids, list) or not all(isinstance(number, int) for number in ids):
        raise CheckpointError(f"{value!r} is neither an id nor a list of ids", key="eos_token_id")
    return ids


def _added(files: CheckpointFolder) -> dict[int, str]:
    """Added tokens by id: tokenizer.json leaves out some that tokenizer_config.json has."""
    listed = (files.read_json(TOKENIZER) or {}).get("added_tokens") or []
    decoder = (files.read_json(TOKENIZER_CONFIG) or {}).get("added_tokens_decoder") or {}
    with files.reading(TOKENIZER_CONFIG, "a tokenizer's configuration"):
        tokens = {int(number): token["content"] for number, token in decoder.items()}
    with files.reading(TOKENIZER, "a tokenizer"):
        return tokens | {token["id"]: token["content"] for token in listed}
