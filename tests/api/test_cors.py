"""A page of another origin against the whole node: the way of a browser, from the preflight on."""

import http.client
import json

import pytest

from node.api.routes import EXPOSED_HEADERS
from node.http import Cors
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

PAGE = "https://chat.example.com"
ASK = {
    "model": MODEL,
    "max_tokens": 8,
    "messages": [{"role": "user", "content": "hi"}],
    "service_tier": "auto",
}
# What Anthropic's SDK sends in a browser beside the three that every client sends.
SDK_FIELDS = (
    "anthropic-dangerous-direct-browser-access,anthropic-version,authorization,content-type,x-stainless-os"
)


@pytest.fixture(scope="module")
def node():
    with running_node("ok", cors=Cors((PAGE,), EXPOSED_HEADERS)) as node:
        yield node


def send(node: RunningNode, method: str, body: dict | None = None, **fields: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    headers = {"origin": PAGE} | {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, "/v1/messages", json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_c15_preflight_takes_no_key_and_allows_what_the_sdk_sends(node: RunningNode) -> None:
    answer = send(
        node, "OPTIONS", access_control_request_method="POST", access_control_request_headers=SDK_FIELDS
    )
    assert (answer.status, answer.getheader("access-control-allow-origin")) == (204, PAGE)
    assert answer.getheader("access-control-allow-headers") == SDK_FIELDS
    assert "POST" in answer.getheader("access-control-allow-methods", "").split(", ")


@pytest.mark.parametrize(
    ("body", "key", "status"),
    [
        (ASK, KEY, 200),
        ({**ASK, "stream": True}, KEY, 200),
        (ASK, "wrong", 401),
        ({**ASK, "wat": 1}, KEY, 400),
    ],
)
def test_c15_answers_streams_and_refusals_expose_what_clients_read(
    node: RunningNode, body: dict, key: str, status: int
) -> None:
    answer = send(node, "POST", body, authorization=f"Bearer {key}")
    assert (answer.status, answer.getheader("access-control-allow-origin")) == (status, PAGE)
    assert answer.getheader("access-control-allow-credentials") is None
    exposed = set(answer.getheader("access-control-expose-headers", "").split(", "))
    read = {"request-id", "x-request-id", "server-timing"} | ({"b3os-ignored"} if status == 200 else set())
    assert read <= exposed & {name.lower() for name, _ in answer.getheaders()}
    assert {
        "retry-after",
        "anthropic-ratelimit-input-tokens-remaining",
        "x-ratelimit-limit-tokens",
    } <= exposed


def test_the_names_exposed_are_those_of_both_apis() -> None:
    assert len(EXPOSED_HEADERS) == len(set(EXPOSED_HEADERS)) == 5 + 12 + 6
