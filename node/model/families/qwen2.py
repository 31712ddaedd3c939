"""Qwen2 and Qwen2.5: queries, keys and values have a bias, and heads are as wide as the hidden size allows."""

from __future__ import annotations

from node.model.families.family import Family
from node.model.families.qwen import CHAT_TOKENS, Traits, build

TRAITS = Traits(family="qwen2", qkv_bias=True)
QWEN2 = Family(read=TRAITS.read, build=build, call_format="json", special_tokens=CHAT_TOKENS)
