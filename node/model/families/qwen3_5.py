"""Qwen3.5 and later: three delta layers to each gated full-attention one, and a quarter of each head turns."""

from __future__ import annotations

from node.model.families.family import Family
from node.model.families.qwen import CHAT_TOKENS, THINKING_TOKENS, Traits, build

TRAITS = Traits(
    family="qwen3_5",
    head_dim=256,
    rotary_share=0.25,
    qk_norm=True,
    zero_centred=True,
    output_gate=True,
    full_interval=4,
    only={"attention_bias": False, "output_gate_type": "swish", "mamba_ssm_dtype": "float32"},
)
QWEN3_5 = Family(
    read=TRAITS.read, build=build, call_format="xml", special_tokens=CHAT_TOKENS | THINKING_TOKENS
)
