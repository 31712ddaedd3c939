"""What a request asks of the model's thinking."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from node.api.convert import convert, demand
from node.api.errors import ApiError, invalid
from node.api.fields import FieldFilter

LEAST_BUDGET = 1024  # thinking tokens


class ThinkingConfig(msgspec.Struct):
    type: Literal["enabled", "adaptive", "disabled"] = "disabled"
    budget_tokens: int | None = None
    display: str = "summarized"

    @property
    def on(self) -> bool:
        return self.type != "disabled"

    @property
    def shown(self) -> bool:
        return self.display != "omitted"


def read_thinking(field_filter: FieldFilter, thinking: Any) -> ThinkingConfig:
    """Raises ApiError naming the field at fault."""
    raw = field_filter.apply("thinking_config", demand(thinking, dict, "thinking", "an object"), "thinking")
    if "type" not in raw and raw:
        raise invalid("thinking.type", "Field required")
    read = convert(raw, ThinkingConfig, "thinking")
    if read.type == "enabled" and (read.budget_tokens is None or read.budget_tokens < LEAST_BUDGET):
        raise _wrong_budget(f"must be at least {LEAST_BUDGET}")
    if read.type != "enabled" and read.budget_tokens is not None:
        field_filter.ignore("thinking.budget_tokens")
        read.budget_tokens = None
    return read


def check_budget(thinking: ThinkingConfig, max_tokens: int) -> None:
    """Raises ApiError where thinking alone could use up the answer."""
    if thinking.budget_tokens is not None and thinking.budget_tokens >= max_tokens:
        raise _wrong_budget("must be less than max_tokens")


def _wrong_budget(message: str) -> ApiError:
    """Told without its path, as the documents print it."""
    return ApiError("invalid_request", message, param="thinking.budget_tokens")
