"""The sizes of one network, checked when they were read, and every other size derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels.constants import RING
from node.checkpoint import CheckpointError
from node.model.fields import size
from node.model.rope_config import RopeConfig

FULL, DELTA = "full_attention", "linear_attention"


@dataclass(frozen=True, slots=True)
class DeltaConfig:
    """Sizes of a gated delta layer: heads and widths of keys and values, length of the convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

    @classmethod
    def parse(cls, text: Mapping[str, Any]) -> DeltaConfig:
        """Read `linear_num_key_heads` and its like. Raises CheckpointError."""
        delta = cls(
            key_heads=size(text, "linear_num_key_heads"),
            value_heads=size(text, "linear_num_value_heads"),
            key_dim=size(text, "linear_key_head_dim", 128),
            value_dim=size(text, "linear_value_head_dim", 128),
            conv_kernel=size(text, "linear_conv_kernel_dim", 4),
        )
        if delta.value_heads % delta.key_heads:
            message = f"{delta.value_heads} is no multiple of {delta.key_heads} key heads"
            raise CheckpointError(message, key="linear_num_value_heads")
        return delta

    @property
    def key_width(self) -> int:
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def conv_width(self) -> int:
        """Columns that pass the convolution: all queries, all keys, all values."""
        return 2 * self.key_width + self.value_width

    @property
    def projection_width(self) -> int:
        """Columns of the merged input projection: the convolution's, z, b, a."""
        return self.conv_width + self.value_width + 2 * self.value_heads


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One network of full-attention and delta layers, without experts.

    family: its row of node.model.families. tied is None where the configuration does not say; the loader then looks
    for `lm_head.weight`. context is in tokens. zero_centred: norms store their scale less one (all but the delta
    layers' own).
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    context: int
    rope: RopeConfig
    layer_types: tuple[str, ...]
    tied: bool | None
    output_gate: bool
    qk_norm: bool
    qkv_bias: bool
    zero_centred: bool
    delta: DeltaConfig | None

    @property
    def layers(self) -> int:
        return len(self.layer_types)

    @property
    def full_layers(self) -> tuple[int, ...]:
        return tuple(n for n, kind in enumerate(self.layer_types) if kind == FULL)

    @property
    def delta_layers(self) -> tuple[int, ...]:
        return tuple(n for n, kind in enumerate(self.layer_types) if kind == DELTA)

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def projection_width(self) -> int:
        """Columns of a full layer's merged projection: queries, keys, values, gate where there is one."""
        return self.query_width * (2 if self.output_gate else 1) + 2 * self.kv_width

    @property
    def parameters(self) -> int:
        """Text parameters, the head counted once where it is tied or may be."""
        h = self.hidden_size
        full = self.projection_width * h + self.query_width * h
        full += self.projection_width * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        total = len(self.full_layers) * full
        if self.delta is not None:
            d = self.delta
            delta = (d.projection_width + d.value_width) * h + d.conv_width * d.conv_kernel
            total += len(self.delta_layers) * (delta + 2 * d.value_heads + d.value_dim)
        total += self.layers * (3 * self.intermediate_size * h + 2 * h) + h
        return total + self.vocab_size * h * (2 if self.tied is False else 1)

    def kv_bytes_per_token(self, dtype_bytes: int) -> int:
        return 2 * len(self.full_layers) * self.kv_width * dtype_bytes

    def slot_bytes(self, dtype_bytes: int) -> int:
        """Bytes of one sequence's recurrent state: float32 delta states, conv_state in the model's type."""
        if self.delta is None:
            return 0
        d = self.delta
        state = d.value_heads * d.key_dim * d.value_dim * 4
        conv_state = (d.conv_kernel - 1) * d.conv_width * dtype_bytes
        return len(self.delta_layers) * (state + conv_state)

    @property
    def ring_bytes(self) -> int:
        """Bytes of one sequence's ring, where state writes are deferred: k, e and g of 8 tokens, float32."""
        if self.delta is None:
            return 0
        d = self.delta
        entry = d.key_heads * d.key_dim + d.value_heads * (d.value_dim + 1)
        return len(self.delta_layers) * RING * entry * 4
