"""A model as Anthropic's SDKs read it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from node.api.model_service import ModelService


def model_fields(service: ModelService) -> dict[str, Any]:
    return {
        "type": "model",
        "display_name": service.name.rpartition("/")[2],
        "created_at": datetime.fromtimestamp(service.created, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": service.context,
        "max_tokens": service.context,
        "capabilities": None,
    }


def page_fields(name: str) -> dict[str, Any]:
    return {"first_id": name, "last_id": name, "has_more": False}
