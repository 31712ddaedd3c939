"""Qwen3: queries and keys are normed head by head, and nothing has a bias."""

from __future__ import annotations

from node.model.families.family import Family
from node.model.families.qwen import CHAT_TOKENS, THINKING_TOKENS, Traits, build

TRAITS = Traits(family="qwen3", head_dim=128, qk_norm=True, only={"attention_bias": False})
QWEN3 = Family(
    read=TRAITS.read, build=build, call_format="json", special_tokens=CHAT_TOKENS | THINKING_TOKENS
)
