"""What the loader accepts, and what it says of checkpoints that do not fit."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from node.checkpoint import CheckpointError
from node.model.families import read_config
from node.model.weight_files import NAMED, read_weights
from node.model.weights import AttentionWeights, Weights
from tests.model import tiny

CPU = torch.device("cpu")


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Weights:
    return read_weights(folder, read_config(folder), dtype, CPU)


def test_one_error_names_everything_missing_unexpected_and_misshapen(tmp_path: Path) -> None:
    weights = tiny.tensors(tiny.CONFIGS["qwen3"])
    del weights["model.layers.0.mlp.up_proj.weight"], weights["model.norm.weight"]
    weights["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(96)
    weights["model.layers.1.self_attn.k_norm.weight"] = torch.zeros(17)
    with pytest.raises(CheckpointError) as caught:
        load(tiny.write(tmp_path, tiny.CONFIGS["qwen3"], weights))
    assert str(caught.value).splitlines()[1:] == [
        "missing tensors (2): layers.0.mlp.up_proj.weight, norm.weight",
        "unexpected tensors (1): model.layers.0.self_attn.q_proj.bias",
        "misshapen tensors (1): model.layers.1.self_attn.k_norm.weight is [17], not [16]",
    ]


def test_long_lists_are_cut_and_counted(tmp_path: Path) -> None:
    weights = tiny.tensors(tiny.CONFIGS["qwen3"])
    more = {f"model.extra.{n:02}": torch.zeros(1) for n in range(NAMED + 5)}
    with pytest.raises(CheckpointError, match=rf"unexpected tensors \({NAMED + 5}\): .*extra\.19, …$"):
        load(tiny.write(tmp_path, tiny.CONFIGS["qwen3"], weights | more))


def test_a_tensor_under_two_prefixes_is_refused(tmp_path: Path) -> None:
    weights = tiny.tensors(tiny.CONFIGS["qwen3"])
    weights["model.language_model.norm.weight"] = torch.zeros(tiny.HIDDEN)
    with pytest.raises(
        CheckpointError, match=r"unexpected tensors \(1\): model\.(language_model\.)?norm\.weight"
    ):
        load(tiny.write(tmp_path, tiny.CONFIGS["qwen3"], weights))


@pytest.mark.parametrize("prefix", ["model.", "language_model.model.", "language_model."])
def test_every_known_prefix_of_the_text_model_loads(tmp_path: Path, prefix: str) -> None:
    config = tiny.CONFIGS["qwen3_5"]
    published = tiny.tensors(config)
    renamed = {name.replace("model.language_model.", prefix): value for name, value in published.items()}
    ours = load(tiny.write(tmp_path, config, renamed))
    assert torch.equal(ours.norm, published["model.language_model.norm.weight"].float())


def test_vision_draft_head_and_rotary_buffers_are_skipped(tmp_path: Path) -> None:
    weights = tiny.tensors(tiny.CONFIGS["qwen3_5"])
    weights["visual.merger.weight"] = torch.zeros(2)
    weights["model.language_model.layers.1.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    load(tiny.write(tmp_path, tiny.CONFIGS["qwen3_5"], weights))


def test_decay_and_delta_norm_stay_float32(tmp_path: Path) -> None:
    config = tiny.CONFIGS["qwen3_5"]
    mixer = load(tiny.write(tmp_path, config), torch.bfloat16).layers[0].mixer
    published = tiny.tensors(config)
    at = "model.language_model.layers.0.linear_attn."
    assert not isinstance(mixer, AttentionWeights)
    assert torch.equal(mixer.a_log, published[at + "A_log"])
    assert torch.equal(mixer.norm, published[at + "norm.weight"])


def split(folder: Path, config: dict, names: tuple[str, str]) -> Path:
    """Two shards with an index, named as Qwen3.5's are: not model-0000K-of-…"""
    weights = tiny.tensors(config)
    tiny.write(folder, config, {"unused": torch.zeros(1)})
    (folder / "model.safetensors").unlink()
    chosen = {name: names[n % 2] for n, name in enumerate(weights)}
    for shard in names:
        save_file({name: weights[name] for name, at in chosen.items() if at == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": chosen}))
    return folder


SHARDS = ("model.safetensors-00001-of-00002.safetensors", "model.safetensors-00002-of-00002.safetensors")


def test_shards_are_those_of_the_index(tmp_path: Path) -> None:
    config = tiny.CONFIGS["qwen2"]
    sharded, single = load(split(tmp_path / "a", config, SHARDS)), load(tiny.write(tmp_path / "b", config))
    assert torch.equal(sharded.head, single.head)
    assert torch.equal(sharded.layers[1].mlp.gate_up, single.layers[1].mlp.gate_up)


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    folder = split(tmp_path, tiny.CONFIGS["qwen2"], SHARDS)
    shard = folder / SHARDS[1]
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=SHARDS[1]):
        load(folder)
    shard.unlink()
    with pytest.raises(CheckpointError, match=f"{SHARDS[1]}: not in the folder"):
        load(folder)
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not in the folder"):
        load(folder)


def test_an_unsaid_head_is_tied_exactly_when_the_files_hold_none(tmp_path: Path) -> None:
    config = copy.deepcopy(tiny.CONFIGS["qwen3"])
    weights = tiny.tensors(config)
    del config["tie_word_embeddings"]
    tied = load(tiny.write(tmp_path / "tied", config, weights))
    assert tied.head is tied.embedding
    weights["lm_head.weight"] = torch.ones(tiny.VOCAB, tiny.HIDDEN)
    untied = load(tiny.write(tmp_path / "untied", config, weights))
    assert torch.equal(untied.head, weights["lm_head.weight"])


def test_a_head_said_to_be_untied_must_exist(tmp_path: Path) -> None:
    weights = tiny.tensors(tiny.CONFIGS["qwen2"])
    del weights["lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"missing tensors \(1\): lm_head\.weight"):
        load(tiny.write(tmp_path, tiny.CONFIGS["qwen2"], weights))
