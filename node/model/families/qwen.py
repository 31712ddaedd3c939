"""What the Qwen families share: one reader, one network, the names of their control tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.checkpoint import CheckpointError
from node.model.config import DELTA, FULL, DeltaConfig, ModelConfig
from node.model.fields import demand, size
from node.model.rope_config import RopeConfig

if TYPE_CHECKING:
    import torch

    from node.model.model import Model

CHAT_TOKENS = frozenset({"<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"})
THINKING_TOKENS = frozenset({"<think>", "</think>"})


@dataclass(frozen=True, slots=True)
class Traits:
    """In what the families differ. Defaults are those of the published classes: configs leave out what equals them.

    head_dim       where the configuration has none; None divides the hidden size by the heads
    rotary_share   of a head that turns, where the configuration does not say
    zero_centred   norms store their scale less one
    output_gate    queries come with a gate, unless attn_output_gate says otherwise
    full_interval  every so many layers one is of full attention where neither layer_types nor
                   full_attention_interval says, the others being delta layers; None for families without those
    only           keys of which no other value is served
    """

    family: str
    head_dim: int | None = None
    rotary_share: float = 1.0
    qk_norm: bool = False
    qkv_bias: bool = False
    zero_centred: bool = False
    output_gate: bool = False
    full_interval: int | None = None
    only: Mapping[str, object] = field(default_factory=dict)

    def read(self, config: Mapping[str, Any]) -> ModelConfig:
        """config: the whole of config.json, with the text part nested in `text_config` or flat."""
        text: Mapping[str, Any] = config.get("text_config") or config
        for key, value in {"hidden_act": "silu", **self.only}.items():
            demand(text, key, value)
        if text.get("use_sliding_window"):
            raise CheckpointError("sliding windows are not supported", key="use_sliding_window")
        heads, hidden = size(text, "num_attention_heads"), size(text, "hidden_size")
        kv_heads = size(text, "num_key_value_heads", heads)
        if heads % kv_heads:
            message = f"{heads} query heads are no multiple of {kv_heads}"
            raise CheckpointError(message, key="num_key_value_heads")
        head_dim = size(text, "head_dim", self.head_dim or hidden // heads)
        types = self._layer_types(text)
        return ModelConfig(
            family=self.family,
            vocab_size=size(text, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=size(text, "intermediate_size"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            norm_eps=float(text.get("rms_norm_eps", 1e-6)),
            context=size(text, "max_position_embeddings"),
            rope=RopeConfig.parse(text, head_dim, self.rotary_share),
            layer_types=types,
            tied=_tied(config, text),
            output_gate=self.output_gate and bool(text.get("attn_output_gate", True)),
            qk_norm=self.qk_norm,
            qkv_bias=self.qkv_bias,
            zero_centred=self.zero_centred,
            delta=DeltaConfig.parse(text) if DELTA in types else None,
        )

    def _layer_types(self, text: Mapping[str, Any]) -> tuple[str, ...]:
        count = size(text, "num_hidden_layers")
        types = text.get("layer_types")
        if types is None:
            every = (
                1 if self.full_interval is None else size(text, "full_attention_interval", self.full_interval)
            )
            types = [FULL if (n + 1) % every == 0 else DELTA for n in range(count)]
        allowed = {FULL} if self.full_interval is None else {FULL, DELTA}
        if strange := sorted(set(types) - allowed):
            raise CheckpointError(f"{strange} are not supported", key="layer_types")
        if len(types) != count:
            raise CheckpointError(f"{len(types)} entries for {count} layers", key="layer_types")
        return tuple(types)


def build(folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Model:
    """See Family.build."""
    from node.model.qwen import Qwen

    return Qwen.load(folder, config, dtype, device)


def _tied(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool | None:
    said = [part["tie_word_embeddings"] for part in (config, text) if "tie_word_embeddings" in part]
    return any(said) if said else None
