"""A model with random weights, made on the device, in pools as a node would plan them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.constants import BUCKETS, PAGE
from node.model.config import ModelConfig
from node.model.families import parse_config
from node.model.qwen import Qwen
from node.model.weights import assemble, published_shapes
from node.run.compiles import Compiles
from node.run.graph_runner import GraphRunner
from node.run.measure import measured_workspace
from node.run.memory import MemoryPlan, MemoryShares, plan_memory
from node.run.model_runner import ModelRunner
from node.settings import Settings

DEMO = Path(__file__).parents[2] / "weights" / "demo"
QWEN3_5_9B: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "vocab_size": 248_320,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 32,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "attn_output_gate": True,
    "attention_bias": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262_144,
    "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is checked: all of it on a device, or a little to see that the check itself runs.

    answer   tokens of an answer over HTTP
    tokens   of each sequence whose tokens are compared
    repeats  of a decode step that is timed
    """

    dtype: str
    context: int
    sequences: int
    step_tokens: int
    buckets: tuple[int, ...]
    decode_rows: tuple[int, ...]
    decode_context: int
    prompts: tuple[int, ...]
    clients: int
    answer: int
    tokens: int
    repeats: int


WHOLE = Size(
    dtype="bfloat16",
    context=33_280,  # a prompt of 32k and what is left of its page
    sequences=256,
    step_tokens=8192,
    buckets=BUCKETS,
    decode_rows=(1, 8, 32, 64, 128, 256),
    decode_context=2048,
    prompts=(1024, 2048, 8192, 32_768),
    clients=64,
    answer=128,
    tokens=24,
    repeats=20,
)
TINY = Size("float32", 512, 8, 128, (1, 2, 4, 8), (1, 8), 100, (100, 300), 4, 8, 6, 2)


class RandomSource:
    """Weights under which activations neither vanish nor agree, as a checkpoint's tensors."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._config = config
        self._shapes = published_shapes(config, tied=bool(config.tied))
        self._draw = torch.Generator(device).manual_seed(1)

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        shape = self._shapes[name]
        value = torch.randn(shape, generator=self._draw, dtype=dtype, device=self._draw.device)
        if name.endswith("A_log"):
            return value.abs_().add_(0.05).log_()
        if "norm" in name:
            plain = not self._config.zero_centred or "linear_attn" in name
            return value.mul_(0.2).add_(1.0 if plain else 0.0)
        return value.mul_(shape[1] ** -0.5) if len(shape) == 2 else value


class Bed:
    """The parts of a node that are on the device."""

    def __init__(self, config: ModelConfig, size: Size, device: torch.device, vocabulary: int) -> None:
        self.config = config
        self.size = size
        self.device = device
        self.compiles = Compiles()
        dtype = getattr(torch, size.dtype)
        weights = assemble(config, RandomSource(config, device), bool(config.tied), dtype)
        self.model = Qwen(config, weights, vocabulary)
        self.reckoned = self._plan(None)
        self.plan = plan = self.reckoned if device.type == "cpu" else self._plan(self._workspace())
        self.runner = ModelRunner(self.model, plan.pages + 1, plan.state_slots + 1, device)
        self.static = GraphRunner(self.runner, size.context, size.buckets)

    def _workspace(self) -> int:
        size = self.size
        largest = size.step_tokens, size.sequences
        return measured_workspace(self.model, size.context, *largest, buckets=size.buckets)

    def _plan(self, workspace: int | None) -> MemoryPlan:
        size = self.size
        memory = 2**31
        if self.device.type == "cuda":
            memory = torch.cuda.get_device_properties(self.device).total_memory
        return plan_memory(
            self.config,
            memory=memory,
            dtype=size.dtype,
            context=size.context,
            sequences=size.sequences,
            step_tokens=size.step_tokens,
            shares=Settings().part(MemoryShares),
            workspace=workspace,
        )

    @property
    def promised(self) -> bool:
        """Whether the targets are meant for what is measured here."""
        return self.device.type == "cuda" and self.size is WHOLE

    def decode_context(self, rows: int) -> int:
        """Tokens of each of so many sequences, as far as there are pages."""
        return min(self.size.decode_context, self.plan.tokens // rows // PAGE * PAGE)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def config_of(tiny: bool) -> ModelConfig:
    """The 9B, or the demo model's shape."""
    return parse_config(json.loads((DEMO / "config.json").read_text()) if tiny else QWEN3_5_9B)
