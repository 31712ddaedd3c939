"""Configurations: what published ones come to, and what is refused by name."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

from node.checkpoint import CheckpointError
from node.model.families import parse_config, read_config
from tests.model import tiny

SIZES = {  # full layers, KV bytes a token in bfloat16, delta state bytes, parameters
    "Qwen3.5-0.8B": (6, 12 * 1024, 18_874_368, 752_393_024),
    "Qwen3.5-2B": (6, 12 * 1024, 18_874_368, 1_881_825_088),
    "Qwen3.5-4B": (8, 32 * 1024, 50_331_648, 4_205_751_296),
    "Qwen3.5-9B": (8, 32 * 1024, 50_331_648, 8_953_803_264),
    "Qwen3.5-27B": (16, 64 * 1024, 150_994_944, 26_895_998_464),
}


@pytest.mark.parametrize("name", sorted(SIZES))
def test_published_configs_give_the_published_sizes(shared: Path, name: str) -> None:
    config = parse_config(json.loads((shared / f"qwen/configs/{name}.config.json").read_text()))
    full, kv, state, parameters = SIZES[name]
    assert (len(config.full_layers), config.kv_bytes_per_token(2), config.parameters) == (
        full,
        kv,
        parameters,
    )
    conv = config.slot_bytes(2) - state
    assert config.slot_bytes(4) - state == 2 * conv
    assert config.delta is not None
    assert conv == len(config.delta_layers) * 3 * config.delta.conv_width * 2
    assert (config.rope.width, config.rope.theta, config.vocab_size) == (64, 1e7, 248320)
    assert config.tied is (name not in ("Qwen3.5-9B", "Qwen3.5-27B"))


def test_nine_billion_takes_50_mb_of_state_and_1_mb_of_conv_state(shared: Path) -> None:
    config = parse_config(json.loads((shared / "qwen/configs/Qwen3.5-9B.config.json").read_text()))
    assert config.slot_bytes(2) == 50_331_648 + 1_179_648
    assert config.full_layers == (3, 7, 11, 15, 19, 23, 27, 31)


def test_parameters_are_those_of_the_tensors() -> None:
    for config in tiny.CONFIGS.values():
        held = [
            shape for name, shape in tiny.shapes(config).items() if not name.startswith(("mtp", "model.vis"))
        ]
        count = sum(math.prod(shape) for shape in held)
        assert parse_config(config).parameters == count


def changed(kind: str, **changes: Any) -> dict[str, Any]:
    config = copy.deepcopy(tiny.CONFIGS[kind])
    target = config.get("text_config", config)
    for key, value in changes.items():
        if value is None:
            target.pop(key)
        else:
            target[key] = value
    return config


REFUSED = {
    "num_experts": changed("qwen3_5", num_experts=8),
    "model_type": {**tiny.CONFIGS["qwen3"], "model_type": "llama"},
    "use_sliding_window": changed("qwen2", use_sliding_window=True),
    "hidden_act": changed("qwen2", hidden_act="gelu"),
    "attention_bias": changed("qwen3", attention_bias=True),
    "hidden_size": changed("qwen3", hidden_size=None),
    "intermediate_size": changed("qwen3", intermediate_size="80"),
    "num_key_value_heads": changed("qwen3", num_key_value_heads=4),
    "layer_types": changed("qwen3_5", layer_types=["full_attention"]),
    "rope_type": changed("qwen3", rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
    "rope_theta": changed("qwen3", rope_theta=None),
    "factor": changed("qwen3", rope_scaling={"rope_type": "yarn"}),
    "linear_num_value_heads": changed("qwen3_5", linear_num_value_heads=3),
    "output_gate_type": changed("qwen3_5", output_gate_type="sigmoid"),
    "partial_rotary_factor": changed("qwen3", partial_rotary_factor=0.1),
}


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_the_refusal_names_the_key(key: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^{key}: "):
        parse_config(REFUSED[key])


def test_experts_are_refused_as_such(shared: Path) -> None:
    config = json.loads((shared / "qwen/configs/Qwen3.5-35B-A3B.config.json").read_text())
    with pytest.raises(CheckpointError, match="mixture-of-experts"):
        parse_config(config)


def test_sliding_attention_layers_are_refused() -> None:
    with pytest.raises(CheckpointError, match="sliding_attention"):
        parse_config(changed("qwen2", layer_types=["full_attention", "sliding_attention"]))


def test_a_flat_text_config_is_the_nested_one() -> None:
    nested = tiny.CONFIGS["qwen3_5"]
    flat = {**nested["text_config"], "tie_word_embeddings": False}
    assert parse_config(flat) == parse_config(nested)


def test_layer_types_follow_from_the_interval() -> None:
    config = changed("qwen3_5", layer_types=None, full_attention_interval=2)
    assert parse_config(config) == parse_config(tiny.CONFIGS["qwen3_5"])


def test_qwen2_without_head_dim_divides_the_hidden_size() -> None:
    config = parse_config(tiny.CONFIGS["qwen2"])
    assert (config.head_dim, config.qkv_bias, config.qk_norm, config.zero_centred) == (8, True, False, False)


@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [(True, None, True), (None, True, True), (False, True, True), (False, None, False), (None, None, None)],
)
def test_either_place_ties_the_head(outer: bool | None, inner: bool | None, tied: bool | None) -> None:
    config = copy.deepcopy(tiny.CONFIGS["qwen3_5"])
    del config["tie_word_embeddings"]
    for part, said in ((config, outer), (config["text_config"], inner)):
        if said is not None:
            part["tie_word_embeddings"] = said
    assert parse_config(config).tied is tied


def test_a_broken_file_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        read_config(tmp_path)
