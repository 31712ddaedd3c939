"""Errors on the wire that come before any field is looked at: keys, paths, sizes, JSON."""

import http.client
import json
import socket

import pytest

from tests.api.sending import ASK, AUTHORIZED, refusal, send
from tests.node_under_test import KEY, MODEL, RunningNode, running_node


@pytest.fixture(scope="module")
def node():
    with running_node("ok") as node:
        yield node


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "authentication_required"),
        ({"authorization": "Bearer "}, "authentication_required"),
        ({"authorization": "Basic dXNlcjpwYXNz"}, "authentication_required"),
        ({"authorization": "Bearer wrong"}, "invalid_api_key"),
        ({"x-api-key": "wrong"}, "invalid_api_key"),
        ({"authorization": "Bearer wrong", "x-api-key": KEY}, "invalid_api_key"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/infer/v1/messages", "/v1/infer/v1/messages/count_tokens"])
def test_no_key_or_a_wrong_one_is_401(node: RunningNode, headers: dict, code: str, path: str) -> None:
    status, answered, answer = send(node, "POST", path, ASK, headers)
    assert (status, answer["b3os"], answer["error"]["type"]) == (401, {"code": code}, "authentication_error")
    assert answered["www-authenticate"] == "Bearer"
    assert "wrong" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"authorization": "Bearer wrong"}, "the key in Authorization does not open this node"),
        ({"x-api-key": "wrong"}, "the key in x-api-key does not open this node"),
        ({"authorization": "Bearer ", "x-api-key": "wrong"}, "the key in x-api-key does not open this node"),
        (
            {"authorization": "Bearer wrong", "x-api-key": KEY},
            "the key in Authorization does not open this node; "
            "x-api-key was not read, because Authorization holds a key",
        ),
    ],
)
def test_c11_a_401_names_the_header_that_was_read(node: RunningNode, headers: dict, message: str) -> None:
    status, _, answer = send(node, "POST", "/v1/messages", ASK, headers)
    assert (status, answer["b3os"]["code"], answer["error"]["message"]) == (401, "invalid_api_key", message)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"x-api-key": KEY},
        {"authorization": f"Bearer {KEY}", "x-api-key": "other"},
    ],
)
def test_either_header_opens_the_node(node: RunningNode, headers: dict) -> None:
    assert send(node, "POST", "/v1/infer/v1/messages", ASK, headers)[0] == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not valid JSON"),
        (b"{", "the body is not valid JSON"),
        (b"[]", "the body must be a JSON object"),
        (b'{"a": NaN}', "the body is not valid JSON: NaN is not a JSON value"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "the body is not valid JSON"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"a": "\xff"}', "the body is not valid JSON"),
    ],
)
def test_what_is_not_a_json_object_is_400(node: RunningNode, body: bytes, message: str) -> None:
    status, code, param, told = refusal(node, body)
    assert (status, code, param) == (400, "invalid_request", None)
    assert told.startswith(message)


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16-LE", "UTF-16-BE", "UTF-32", "UTF-32-LE", "UTF-32-BE"])
def test_a_body_in_another_unicode_encoding_is_told_which(node: RunningNode, encoding: str) -> None:
    told = f"the body must be JSON in UTF-8, not in {encoding[:6]}"
    assert refusal(node, json.dumps(ASK).encode(encoding)) == (400, "invalid_request", None, told)


def test_utf_8_may_begin_with_its_mark(node: RunningNode) -> None:
    assert send(node, "POST", "/v1/messages", json.dumps(ASK).encode("utf-8-sig"))[0] == 200


def test_lone_surrogates_become_the_replacement_character(node: RunningNode) -> None:
    body = json.dumps(ASK).replace('"hi"', '"a \\ud83d b"').encode()
    clean = json.dumps(ASK).replace('"hi"', '"a \ufffd b"').encode()
    path = "/v1/infer/v1/messages/count_tokens"
    counts = [send(node, "POST", path, payload)[2]["input_tokens"] for payload in (body, clean)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("mount", ["/v1/infer", "/v1/infer/v1", "/v1"])
def test_every_mount_answers_alike(node: RunningNode, mount: str) -> None:
    assert send(node, "POST", f"{mount}/messages?beta=true", ASK)[0] == 200
    assert send(node, "POST", f"{mount}/messages/count_tokens?beta=true", ASK)[0] == 200
    status, _, models = send(node, "GET", f"{mount}/models?limit=1000")
    assert (status, [m["id"] for m in models["data"] if m["b3os"]["kind"] == "chat"]) == (200, [MODEL])
    assert models == send(node, "GET", "/v1/infer/models")[2]
    for name in (MODEL.replace("/", "%2F"), MODEL):
        assert send(node, "GET", f"{mount}/models/{name}")[2] == models["data"][0]
    assert send(node, "GET", f"{mount}/models/nope")[2]["b3os"]["code"] == "model_not_available"


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "word"),
    [
        ("GET", "/favicon.ico", 404, "not_found", "nothing answers at /favicon.ico"),
        ("POST", "/v1/infer/v1/complete", 404, "not_found", "nothing answers at /v1/infer/v1/complete"),
        ("POST", "/v1/infer/v1/v1/messages", 404, "not_found", "/v1 twice"),
        ("GET", "/v1/infer/v1/messages", 405, "method_not_allowed", ""),
        ("DELETE", "/v1/infer/models", 405, "method_not_allowed", ""),
    ],
)
def test_wrong_paths_and_methods_are_answered_in_the_envelope(
    node: RunningNode, method: str, path: str, status: int, code: str, word: str
) -> None:
    answered, headers, answer = send(node, method, path, headers={})
    assert (answered, answer["b3os"]["code"]) == (status, code)
    assert word in answer["error"]["message"]
    assert answer["request_id"] == headers["request-id"]
    assert ("allow" in headers) == (status == 405)


def test_an_oversized_body_and_a_wrong_type_are_answered_in_the_envelope(node: RunningNode) -> None:
    big = {**ASK, "messages": [{"role": "user", "content": "x" * (4 * 2**20)}]}
    assert refusal(node, big)[:2] == (413, "body_too_large")
    typed = AUTHORIZED | {"content-type": "text/plain"}
    assert (
        send(node, "POST", "/v1/infer/v1/messages", ASK, typed)[2]["b3os"]["code"] == "unsupported_media_type"
    )


def test_probes_need_no_key(node: RunningNode) -> None:
    for path in ("/health", "/ready", "/v1/infer"):
        assert send(node, "GET", path, headers={})[0] == 200
        assert send(node, "HEAD", path, headers={})[::2] == (200, None)


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"GARBAGE\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"a" * 70_000 + b"\r\n\r\n", 431)],
)
def test_what_is_refused_before_its_head_is_read_has_its_id_in_the_body_too(
    node: RunningNode, sent: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
        connection.sendall(sent)
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = json.loads(response.read())
    assert response.status == status
    assert answer["request_id"] == response.getheader("request-id")
