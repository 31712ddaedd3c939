"""Paths and bodies as strangers write them: slashes too many, base URLs asked bare, codings."""

import gzip
import json
import zlib
from typing import Any

import pytest

from node.http.coding import zstd
from tests.api.sending import ASK, AUTHORIZED, send
from tests.node_under_test import MODEL, RunningNode, running_node


@pytest.fixture(scope="module")
def node():
    with running_node("ok") as node:
        yield node


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/v1/infer/v1/message",
            "nothing answers at /v1/infer/v1/message; the nearest route is /v1/infer/v1/messages",
        ),
        ("/heath?a=b", "nothing answers at /heath; the nearest route is /health"),
        ("//v2//completions/", "nothing answers at /v2/completions"),
        ("/" + "x" * 60_000, "nothing answers at /" + "x" * 199),
        (
            "/v1/infer/v1/v1/messages",
            "nothing answers at /v1/infer/v1/v1/messages, which holds /v1 twice: "
            "end the base URL before it, clients add it",
        ),
    ],
)
def test_c12_a_404_names_its_path_and_the_nearest_route(node: RunningNode, path: str, message: str) -> None:
    status, _, answer = send(node, "POST", path, ASK)
    assert (status, answer["b3os"]["code"], answer["error"]["message"]) == (404, "not_found", message)


@pytest.mark.parametrize(
    "path", ["//v1/messages", "/v1/infer/v1/messages/", "/v1//infer//v1/messages?beta=true"]
)
def test_c12_slashes_too_many_are_answered_as_the_plain_form(node: RunningNode, path: str) -> None:
    assert send(node, "POST", path, ASK)[0] == 200
    status, headers, answer = send(node, "GET", path)
    assert (status, headers["allow"], answer["b3os"]["code"]) == (405, "POST", "method_not_allowed")


@pytest.mark.parametrize("base", ["/", "/v1/infer", "/v1/infer/", "/v1/infer/v1", "/v1", "//"])
def test_c12_every_base_url_answers_head_and_get_without_a_key(node: RunningNode, base: str) -> None:
    assert send(node, "HEAD", base, headers={})[::2] == (200, None)
    assert send(node, "GET", base, headers={})[::2] == (200, {"model": MODEL})


def test_c13_an_encoded_body_is_answered_as_its_plain_form_is(node: RunningNode) -> None:
    def ask(coding: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        return send(node, "POST", "/v1/infer/v1/messages", body, AUTHORIZED | {"content-encoding": coding})

    plain = json.dumps(ASK).encode()
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)):
        assert ask(coding, pack(plain))[0] == 200
        status, _, answer = ask(coding, plain)
        assert (status, answer["b3os"]["code"], answer["error"]["type"]) == (
            400,
            "invalid_request",
            "invalid_request_error",
        )
        assert answer["error"]["message"] == f"The body is not what its Content-Encoding says, {coding}."
    status, headers, answer = ask("br", plain)
    assert (status, answer["b3os"]["code"], headers["accept-encoding"]) == (
        415,
        "unsupported_media_type",
        "gzip, deflate, zstd",
    )
    assert "'br'" in answer["error"]["message"]
    status, _, answer = ask("gzip", gzip.compress(b" " * (4 * 2**20) + plain))
    assert (status, answer["b3os"]["code"]) == (413, "body_too_large")
