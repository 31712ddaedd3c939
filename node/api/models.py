"""GET .../models: one body that the SDKs of every dialect read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from node.api.model_service import ModelService
from node.http.message import Request, Response

# Of the fields on the wire, whichever dialect reads them.
ORDER = (
    "id", "object", "type", "display_name", "created", "created_at", "owned_by", "lifecycle",
    "max_input_tokens", "max_tokens", "capabilities", "b3os",
    "data", "first_id", "last_id", "has_more",
)  # fmt: skip


class ModelShape(Protocol):
    """What the SDKs of one dialect read beside the id; a module will do."""

    def model_fields(self, service: ModelService) -> dict[str, Any]:
        """Of a model."""

    def page_fields(self, name: str) -> dict[str, Any]:
        """Of the page that lists the model of this name and no other."""


class Models:
    """The one model, in the shapes of all dialects at once: their fields do not contradict each other."""

    def __init__(self, service: ModelService, shapes: Sequence[ModelShape]) -> None:
        self._service = service
        self._shapes = shapes

    def list(self, request: Request) -> Response:
        self._service.authenticate(request)
        page = [shape.page_fields(self._service.name) for shape in self._shapes]
        return _response({"data": [self._model()]}, *page)

    def retrieve(self, request: Request) -> Response:
        self._service.authenticate(request)
        self._service.require("/".join(request.params.values()))
        return _response(self._model())

    def _model(self) -> dict[str, Any]:
        service = self._service
        own = {"id": service.name, "b3os": {"kind": "chat", "context_length": service.context}}
        return _joined(own, *(shape.model_fields(service) for shape in self._shapes))


def _response(*parts: dict[str, Any]) -> Response:
    return Response(200, msgspec.json.encode(_joined(*parts)))


def _joined(*parts: dict[str, Any]) -> dict[str, Any]:
    """One object of all fields, in their order."""
    fields = {name: value for part in parts for name, value in part.items()}
    return {name: fields[name] for name in sorted(fields, key=ORDER.index)}
