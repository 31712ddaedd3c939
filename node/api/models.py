"""GET .../models: one body that Anthropic's and OpenAI's SDKs both read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from node.api.served import Served
from node.http.message import Request, Response


class Models:
    def __init__(self, served: Served) -> None:
        self._served = served

    def list(self, request: Request) -> Response:
        self._served.authenticate(request)
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
        self._served.authenticate(request)
        self._served.require("/".join(request.params.values()))
        return Response(200, msgspec.json.encode(self._model()))

    def _model(self) -> dict[str, Any]:
        served = self._served
        return {
            "id": served.name,
            "object": "model",
            "type": "model",
            "display_name": served.name.rpartition("/")[2],
            "created": served.created,
            "created_at": datetime.fromtimestamp(served.created, UTC).isoformat().replace("+00:00", "Z"),
            "owned_by": "b3os",
            "lifecycle": "active",
            "max_input_tokens": served.context,
            "max_tokens": served.context,
            "capabilities": None,
            "b3os": {"kind": "chat", "context_length": served.context},
        }
