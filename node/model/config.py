"""What a checkpoint's config.json says of the network, checked and with every size derived from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.constants import RING
from node.model.rope_config import ConfigError, RopeConfig

__all__ = ["ConfigError", "DeltaConfig", "ModelConfig"]

KINDS = {"qwen2": "qwen2", "qwen3": "qwen3", "qwen3_5": "qwen3_5", "qwen3_5_text": "qwen3_5"}
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
FULL, DELTA = "full_attention", "linear_attention"


@dataclass(frozen=True, slots=True)
class DeltaConfig:
    """Sizes of a gated delta layer: heads and widths of keys and values, length of the convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

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
    """One dense Qwen network (model_type qwen2, qwen3, qwen3_5).

    tied is None where the configuration does not say; the loader then looks for `lm_head.weight`.
    context is in tokens. zero_centred: norms store their scale less one (all but the delta layers' own).
    """

    kind: str
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

    @classmethod
    def read(cls, folder: Path) -> ModelConfig:
        """Raises ConfigError, and FileNotFoundError where the folder holds no config.json."""
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ConfigError(f"config.json is not JSON: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError("config.json is not an object")
        return cls.parse(config)

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> ModelConfig:
        """config: the whole of config.json, with the text part nested in `text_config` or flat."""
        text: Mapping[str, Any] = config.get("text_config") or config
        name = text.get("model_type", config.get("model_type"))
        _refuse_experts(str(name), text)
        if name not in KINDS:
            raise ConfigError(f"model_type: {name!r} is not supported ({', '.join(KINDS)} are)")
        kind = KINDS[name]
        hybrid = kind == "qwen3_5"
        _refuse(text, "hidden_act", "silu")
        if kind != "qwen2":
            _refuse(text, "attention_bias", False)
        if hybrid:
            _refuse(text, "output_gate_type", "swish")
            _refuse(text, "mamba_ssm_dtype", "float32")
        if text.get("use_sliding_window"):
            raise ConfigError("use_sliding_window: sliding windows are not supported")
        heads, hidden = _size(text, "num_attention_heads"), _size(text, "hidden_size")
        kv_heads = _size(text, "num_key_value_heads", heads)
        if heads % kv_heads:
            raise ConfigError(f"num_key_value_heads: {heads} query heads are no multiple of {kv_heads}")
        # The defaults are those of the published classes: configs leave out what equals them.
        head_dim = _size(text, "head_dim", {"qwen3_5": 256, "qwen3": 128, "qwen2": hidden // heads}[kind])
        types = _layer_types(text, hybrid)
        return cls(
            kind=kind,
            vocab_size=_size(text, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_size(text, "intermediate_size"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            norm_eps=float(text.get("rms_norm_eps", 1e-6)),
            context=_size(text, "max_position_embeddings"),
            rope=RopeConfig.parse(text, head_dim, 0.25 if hybrid else 1.0),
            layer_types=types,
            tied=_tied(config, text),
            output_gate=hybrid and bool(text.get("attn_output_gate", True)),
            qk_norm=kind != "qwen2",
            qkv_bias=kind == "qwen2",
            zero_centred=hybrid,
            delta=_delta(text) if DELTA in types else None,
        )

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


def _size(text: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = text.get(key)
    value = default if value is None else value
    if value is None:
        raise ConfigError(f"{key}: missing")
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ConfigError(f"{key}: {value!r} is not a positive whole number")
    return value


def _refuse(text: Mapping[str, Any], key: str, only: object) -> None:
    if text.get(key, only) != only:
        raise ConfigError(f"{key}: {text[key]!r} is not supported (only {only!r} is)")


def _refuse_experts(name: str, text: Mapping[str, Any]) -> None:
    present = [key for key in EXPERT_KEYS if text.get(key)]
    if "moe" in name or present:
        where = present[0] if present else "model_type"
        raise ConfigError(f"{where}: mixture-of-experts models are not supported (model_type {name!r})")


def _layer_types(text: Mapping[str, Any], hybrid: bool) -> tuple[str, ...]:
    count = _size(text, "num_hidden_layers")
    types = text.get("layer_types")
    if types is None:
        every = _size(text, "full_attention_interval", 4) if hybrid else 1
        types = [FULL if (n + 1) % every == 0 else DELTA for n in range(count)]
    allowed = {FULL, DELTA} if hybrid else {FULL}
    strange = sorted(set(types) - allowed)
    if strange:
        raise ConfigError(f"layer_types: {strange} are not supported")
    if len(types) != count:
        raise ConfigError(f"layer_types: {len(types)} entries for {count} layers")
    return tuple(types)


def _tied(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool | None:
    said = [part["tie_word_embeddings"] for part in (config, text) if "tie_word_embeddings" in part]
    return any(said) if said else None


def _delta(text: Mapping[str, Any]) -> DeltaConfig:
    delta = DeltaConfig(
        key_heads=_size(text, "linear_num_key_heads"),
        value_heads=_size(text, "linear_num_value_heads"),
        key_dim=_size(text, "linear_key_head_dim", 128),
        value_dim=_size(text, "linear_value_head_dim", 128),
        conv_kernel=_size(text, "linear_conv_kernel_dim", 4),
    )
    if delta.value_heads % delta.key_heads:
        raise ConfigError(
            f"linear_num_value_heads: {delta.value_heads} is no multiple of {delta.key_heads} key heads"
        )
    return delta
