"""A model as OpenAI's SDKs read it."""

from __future__ import annotations

from typing import Any

from node.api.model_service import ModelService


def model_fields(service: ModelService) -> dict[str, Any]:
    return {"object": "model", "created": service.created, "owned_by": "b3os"}


def page_fields(name: str) -> dict[str, Any]:
    return {"object": "list"}
