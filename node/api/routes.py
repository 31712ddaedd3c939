"""Where everything answers, and in whose shape errors are told there."""

from __future__ import annotations

import time

import msgspec

from node.api.anthropic import models as anthropic_models
from node.api.anthropic.envelope import error_body
from node.api.anthropic.messages import Messages
from node.api.envelope import error_response
from node.api.errors import ApiError
from node.api.model_service import ModelService
from node.api.models import Models
from node.api.openai import models as openai_models
from node.http.message import Request, Response
from node.http.router import Router
from node.telemetry.metrics import CONTENT_TYPE, Metrics

MOUNTS = ("/v1/infer", "/v1/infer/v1", "/v1")  # every client's idea of a base URL
BASES = ("/", *MOUNTS)  # Claude Code asks HEAD of its base URL before anything else, without a key

PER = ("requests", "tokens", "input-tokens", "output-tokens")
LEFT = ("limit", "remaining", "reset")
# What clients read of an answer's head, and a page in a browser may read only if it is named.
EXPOSED_HEADERS = (
    *("request-id", "x-request-id", "retry-after", "server-timing", "b3os-ignored"),
    *(f"anthropic-ratelimit-{what}-{left}" for what in PER for left in LEFT),
    *(f"x-ratelimit-{left}-{what}" for left in LEFT for what in ("requests", "tokens")),
)


def build_routes(service: ModelService, metrics: Metrics) -> Router:
    router = Router()
    messages, probes = Messages(service), Probes(service, metrics)
    models = Models(service, (openai_models, anthropic_models))
    for mount in MOUNTS:
        router.add("POST", f"{mount}/messages", messages.create)
        router.add("POST", f"{mount}/messages/count_tokens", messages.count_tokens)
        router.add("GET", f"{mount}/models", models.list)
        router.add("GET", f"{mount}/models/{{id}}", models.retrieve)
        router.add(
            "GET", f"{mount}/models/{{owner}}/{{name}}", models.retrieve
        )  # clients that do not encode the slash
    for base in BASES:
        router.add("GET", base, probes.hello)
    router.add("GET", "/health", probes.health)
    router.add("GET", "/ready", probes.ready)
    router.add("GET", "/metrics", probes.metrics)
    return router


def loading_routes() -> Router:
    """What answers while the weights load: health, and a refusal that clients retry.

    Metrics are refused too: a router would take the zeros of an engine that is not there for an idle node.
    """
    router = Router()
    for mount in MOUNTS:
        for path in ("messages", "messages/count_tokens"):
            router.add("POST", f"{mount}/{path}", _loading)
        for path in ("models", "models/{id}", "models/{owner}/{name}"):
            router.add("GET", f"{mount}/{path}", _loading)
    for base in BASES:
        router.add("GET", base, lambda request: Response(200, b"{}"))
    router.add("GET", "/health", lambda request: Response(200, b'{"healthy":true}'))
    router.add("GET", "/ready", lambda request: Response(503, b'{"ready":false}'))
    router.add("GET", "/metrics", _loading)
    return router


def _loading(request: Request) -> Response:
    raise ApiError("model_loading")


def render_error(error: BaseException, request: Request | None, request_id: str) -> Response:
    """What HTTP is handed to answer with when a handler, or the reading of a request, raised.

    In Anthropic's shape on every path: no other dialect has routes yet.
    """
    return error_response(error, request, request_id, error_body)


class Probes:
    """Asked by routers, scrapers and start-up checks of clients, without a key."""

    def __init__(self, service: ModelService, metrics: Metrics) -> None:
        self._service = service
        self._metrics = metrics

    def hello(self, request: Request) -> Response:
        return Response(200, msgspec.json.encode({"model": self._service.name}))

    def health(self, request: Request) -> Response:
        """200 while steps complete or nothing waits for one."""
        healthy = self._service.engine.health.healthy(time.monotonic())
        return Response(200 if healthy else 503, msgspec.json.encode({"healthy": healthy}))

    def ready(self, request: Request) -> Response:
        """200 after warm-up, 503 while draining."""
        ready = self._service.engine.accepting
        return Response(200 if ready else 503, msgspec.json.encode({"ready": ready}))

    def metrics(self, request: Request) -> Response:
        """Totals over everyone, in one format whatever the Accept field says.

        Without a key, for the routers that balance by these numbers send none: who reaches the port sees how
        much is asked, and nothing of who asks or what.
        """
        return Response(200, self._metrics.text(), content_type=CONTENT_TYPE)
