"""The table of families: what its rows say is so, and a family is a file and a row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from node.chat.output_parser import CLOSE_THINKING, OPEN_THINKING
from node.chat.prompt import THINK, TURN
from node.chat.template import Template
from node.chat.tokenizer import Tokenizer
from node.chat.tool_call_format import ToolCallFormat
from node.chat.tool_call_parser import CLOSE_CALL, OPEN_CALL
from node.checkpoint import CheckpointError
from node.model.batch import Batch
from node.model.cache import Cache
from node.model.config import ModelConfig
from node.model.families import FAMILIES, parse_config, read_config
from node.model.families.family import Family
from node.model.fields import size
from node.model.rope_config import RopeConfig
from node.run.load import load_model
from tests.model import tiny
from tests.model.drive import Drive

ROOT = Path(__file__).parents[2]
TEMPLATES = {
    "qwen2": ["qwen2.5"],
    "qwen3": ["qwen3-original-2025-04", "qwen3", "qwen3-instruct-2507"],
    "qwen3_5": ["qwen3.5-think", "qwen3.5-nothink", "qwen3.6", "qwen3.8"],
}
TOKENIZERS = {"qwen2": "qwen2.5", "qwen3": "qwen3", "qwen3_5": "qwen3.5"}


@pytest.mark.parametrize("name", sorted(tiny.CONFIGS))
def test_a_configuration_names_its_row(name: str) -> None:
    assert FAMILIES[parse_config(tiny.CONFIGS[name]).family] is FAMILIES[name]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_published_templates_teach_the_calls_of_their_row(shared: Path, name: str) -> None:
    for template in TEMPLATES[name]:
        source = (shared / "qwen" / "templates" / f"{template}.jinja").read_text()
        assert ToolCallFormat.of(source) is ToolCallFormat(FAMILIES[name].call_format), template


def test_the_demo_models_template_teaches_the_calls_of_its_row() -> None:
    folder = ROOT / "weights" / "demo"
    row = FAMILIES[read_config(folder).family]
    assert ToolCallFormat.of(Template.read(folder).source) is ToolCallFormat(row.call_format)
    assert row.special_tokens <= Tokenizer.read(folder).control.keys()


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_published_tokenizers_have_the_tokens_of_their_row(shared: Path, name: str) -> None:
    control = Tokenizer.read(shared / "qwen" / "tokenizers" / TOKENIZERS[name]).control
    thinking = {OPEN_THINKING, CLOSE_THINKING, THINK}
    row = FAMILIES[name].special_tokens
    assert row <= control.keys()
    assert row & thinking == control.keys() & thinking
    assert {TURN, OPEN_CALL, CLOSE_CALL} <= row


def test_the_table_loads_no_torch() -> None:
    read = "from pathlib import Path; from node.model.families import read_config; import sys\n"
    read += "read_config(Path('weights/demo')); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", read], cwd=ROOT).returncode == 0


class Ladder:
    """A network of no layers: after each id comes the one so many steps on."""

    def __init__(self, config: ModelConfig, steps: Tensor) -> None:
        self.config = config
        self.vocabulary = config.vocab_size
        self.dtype, self.device = steps.dtype, steps.device
        self._steps = steps

    def allocate_cache(self, pages: int, state_slots: int, deferred: bool = False) -> Cache:
        return Cache.allocate(self.config, pages, state_slots, self.dtype, self.device)

    def forward(self, batch: Batch, cache: Cache) -> Tensor:
        return F.one_hot(batch.token_ids + int(self._steps), self.vocabulary).to(self.dtype)

    def logits(self, hidden: Tensor, out: Tensor | None = None) -> Tensor:
        return hidden.float() if out is None else out.copy_(hidden)


def read_ladder(config: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig(
        family="ladder", vocab_size=size(config, "rungs"), hidden_size=size(config, "rungs"), intermediate_size=1,
        heads=1, kv_heads=1, head_dim=2, norm_eps=0.0, context=99, rope=RopeConfig(1.0, 2), layer_types=(),
        tied=True, output_gate=False, qk_norm=False, qkv_bias=False, zero_centred=False, delta=None,
    )  # fmt: skip


def build_ladder(folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Ladder:
    return Ladder(config, load_file(folder / "model.safetensors")["steps"].to(device, dtype))


LADDER = Family(read=read_ladder, build=build_ladder, call_format="json", special_tokens=frozenset())


def test_a_family_is_a_file_and_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of another kind, from its folder to sampled ids by the road of all others."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "ladder", "rungs": 50}))
    save_file({"steps": torch.tensor(3.0)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="model_type: 'ladder' is not supported"):
        load_model(tmp_path, torch.float32, "cpu")
    monkeypatch.setitem(FAMILIES, "ladder", LADDER)
    sequences = Drive(load_model(tmp_path, torch.float32, "cpu")).generate([[7, 1], [20]], 1, 4)
    assert [sequence.generated for sequence in sequences] == [[4, 7, 10, 13], [23, 26, 29, 32]]


def test_a_readers_refusal_names_folder_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "ladder"}))
    monkeypatch.setitem(FAMILIES, "ladder", LADDER)
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    assert str(caught.value) == f"{tmp_path}/config.json: rungs: missing"


@pytest.mark.parametrize(
    "change",
    [
        {"text_config": [1]},
        {"model_type": ["qwen2"]},
        {"rope_parameters": [1]},
        {"layer_types": 2},
        {"rms_norm_eps": "small"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_keys_of_another_type_are_told_of_the_file(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**tiny.CONFIGS["qwen2"], **change}))
    with pytest.raises(CheckpointError, match=r"config\.json: not a configuration: ") as caught:
        read_config(tmp_path)
    assert "\n" not in str(caught.value)
