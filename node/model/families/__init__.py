"""The table of families, by the model_type of config.json: a new family is a file beside this one and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.checkpoint import CONFIG, CheckpointError, CheckpointFolder
from node.model.config import ModelConfig
from node.model.families.family import Family
from node.model.families.qwen2 import QWEN2
from node.model.families.qwen3 import QWEN3
from node.model.families.qwen3_5 import QWEN3_5

FAMILIES: dict[str, Family] = {
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "qwen3_5": QWEN3_5,
    "qwen3_5_text": QWEN3_5,
}
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")


def family_of(config: Mapping[str, Any]) -> Family:
    """Of the whole of config.json; its text part has the first word. Raises CheckpointError."""
    text: Mapping[str, Any] = config.get("text_config") or config
    name = text.get("model_type", config.get("model_type"))
    _refuse_experts(str(name), text)
    if name not in FAMILIES:
        raise CheckpointError(f"{name!r} is not supported ({', '.join(FAMILIES)} are)", key="model_type")
    return FAMILIES[name]


def parse_config(config: Mapping[str, Any]) -> ModelConfig:
    """config: the whole of config.json. Raises CheckpointError, which names the key."""
    return family_of(config).read(config)


def read_config(folder: Path) -> ModelConfig:
    """Of a checkpoint folder. Raises CheckpointError."""
    files = CheckpointFolder(folder)
    config = files.demand_json(CONFIG)
    with files.reading(CONFIG, "a configuration"):
        return parse_config(config)


def _refuse_experts(name: str, text: Mapping[str, Any]) -> None:
    present = [key for key in EXPERT_KEYS if text.get(key)]
    if "moe" in name or present:
        where = present[0] if present else "model_type"
        raise CheckpointError(f"mixture-of-experts models are not supported (model_type {name!r})", key=where)
