"""GET .../models: one body that Anthropic's and OpenAI's SDKs both read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from node.api.model_service import ModelService
from node.http.message import Request, Response


class Models:
    def __init__(self, service: ModelService) -> None:
        self._service = service

    def list(self, request: Request) -> Response:
        self._service.authenticate(request)
        model = self._model()
        page = {
            "object": "list",
            "data": [model],
            "first_id": model["id"],
            "last_id": model["id"],
            "has_more": False,
        }
        return Response(200, msgspec.json.encode(page))

    def retrieve(self, request: Request) -> Response:
        self._service.authenticate(request)
        self._service.require("/".join(request.params.values()))
        return Response(200, msgspec.json.encode(self._model()))

    def _model(self) -> dict[str, Any]:
        service = self._service
        return {
            "id": service.name,
            "object": "model",
            "type": "model",
            "display_name": service.name.rpartition("/")[2],
            "created": service.created,
            "created_at": datetime.fromtimestamp(service.created, UTC).isoformat().replace("+00:00", "Z"),
            "owned_by": "b3os",
            "lifecycle": "active",
            "max_input_tokens": service.context,
            "max_tokens": service.context,
            "capabilities": None,
            "b3os": {"kind": "chat", "context_length": service.context},
        }
