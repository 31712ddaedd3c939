"""Requests to a running node over plain HTTP, and what came back."""

import http.client
import json
from typing import Any

from tests.node_under_test import KEY, MODEL, RunningNode

HI = [{"role": "user", "content": "hi"}]
ASK = {"model": MODEL, "max_tokens": 8, "messages": HI}
AUTHORIZED = {"authorization": f"Bearer {KEY}"}


def send(
    node: RunningNode, method: str, path: str, body: Any = None, headers: dict[str, str] = AUTHORIZED
) -> tuple[int, dict[str, str], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    payload = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
    connection.request(method, path, payload, headers)
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(raw) if raw else None


def refusal(
    node: RunningNode, body: Any, path: str = "/v1/infer/v1/messages"
) -> tuple[int, str, str | None, str]:
    """(status, code, param, message) of a request that is refused."""
    status, headers, answer = send(node, "POST", path, body)
    assert answer["type"] == "error"
    assert answer["request_id"] == headers["request-id"] == headers["x-request-id"]
    return status, answer["b3os"]["code"], answer["b3os"].get("param"), answer["error"]["message"]
