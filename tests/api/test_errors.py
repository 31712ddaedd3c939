"""Errors on the wire: status, bytes, headers. Those that the documents print come back as printed."""

import http.client
import json
import re
import socket
from typing import Any

import pytest

from tests.node_under_test import KEY, MODEL, RunningNode, running_node

HI = [{"role": "user", "content": "hi"}]
ASK = {"model": MODEL, "max_tokens": 8, "messages": HI}
AUTHORIZED = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def node():
    with running_node("ok") as node:
        yield node


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


def test_the_error_printed_in_the_documents_for_an_unknown_model(node: RunningNode) -> None:
    ask = {**ASK, "model": "claude-sonnet-4-5", "max_tokens": 256}
    status, headers, answer = send(node, "POST", "/v1/infer/v1/messages", ask)
    assert status == 404
    message = "claude-sonnet-4-5 is not served on this node; GET /v1/infer/models lists the models that are"
    assert answer == {
        "b3os": {"code": "model_not_available", "param": "model"},
        "error": {"message": message, "type": "not_found_error"},
        "request_id": headers["x-request-id"],
        "type": "error",
    }
    assert list(answer) == ["b3os", "error", "request_id", "type"]
    assert re.fullmatch(r"req_[0-9a-hjkmnp-tv-z]{26}", answer["request_id"])
    assert re.fullmatch(r"total;dur=\d+\.\d{3}", headers["server-timing"])


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


def without(name: str) -> dict:
    return {key: value for key, value in ASK.items() if key != name}


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (without("model"), "model", "model: Field required"),
        (without("messages"), "messages", "messages: Field required"),
        (without("max_tokens"), "max_tokens", "max_tokens: Field required"),
        ({**ASK, "model": 7}, "model", "model: Expected `str`, got `int`"),
        ({**ASK, "messages": "hi"}, "messages", "messages: must be a list"),
        ({**ASK, "messages": []}, "messages", "messages: at least one message is required"),
        ({**ASK, "messages": [7]}, "messages.0", "messages.0: must be an object"),
        ({**ASK, "max_tokens": "8"}, "max_tokens", "max_tokens: Expected `int | null`, got `str`"),
        ({**ASK, "max_tokens": -1}, "max_tokens", "max_tokens: must not be negative"),
        ({**ASK, "max_tokens": 1.5}, "max_tokens", "max_tokens: Expected `int | null`, got `float`"),
        ({**ASK, "max_tokens": True}, "max_tokens", "max_tokens: Expected `int | null`, got `bool`"),
        ({**ASK, "temperature": 2.1}, "temperature", "temperature: must be between 0 and 2"),
        ({**ASK, "top_p": 0}, "top_p", "top_p: must be above 0 and at most 1"),
        ({**ASK, "top_k": -1}, "top_k", "top_k: must be between 0 and 2147483647"),
        ({**ASK, "seed": 2**64}, "seed", None),
        ({**ASK, "stream": "yes"}, "stream", "stream: Expected `bool`, got `str`"),
        ({**ASK, "stop_sequences": ["a"] * 17}, "stop_sequences", "stop_sequences: at most 16"),
        (
            {**ASK, "stop_sequences": ["a" * 257]},
            "stop_sequences.0",
            "stop_sequences.0: at most 256 characters",
        ),
        (
            {**ASK, "stop_sequences": ["x", " \n"]},
            "stop_sequences.1",
            "stop_sequences.1: each stop sequence must contain non-whitespace",
        ),
        (
            {**ASK, "stop_sequences": ["a", 3]},
            "stop_sequences.1",
            "stop_sequences.1: Expected `str`, got `int`",
        ),
        (
            {**ASK, "messages": [{"role": "assistant", "content": "x"}, *HI]},
            "messages.0.role",
            "messages.0.role: the first message must be the user's",
        ),
        (
            {**ASK, "messages": [{"role": "tool", "content": "x"}]},
            "messages.0.role",
            "messages.0.role: must be 'user' or 'assistant'",
        ),
        (
            {**ASK, "messages": [{"role": "user", "content": ""}]},
            "messages.0.content",
            "messages.0.content: text content blocks must be non-empty",
        ),
        (
            {**ASK, "messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages.0.content.0.text",
            "messages.0.content.0.text: Field required",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_path(node: RunningNode, body: dict, param: str, message: str) -> None:
    status, code, told_param, told = refusal(node, body)
    assert (status, code, told_param) == (400, "invalid_request", param)
    assert message is None or told == message


def test_a_system_message_inside_messages_is_refused_in_the_words_that_clients_look_for(
    node: RunningNode,
) -> None:
    body = {**ASK, "messages": [*HI, {"role": "system", "content": "Be brief."}]}
    status, code, param, message = refusal(node, body)
    assert (status, code, param) == (400, "invalid_request", "messages.1.role")
    assert message == (
        "messages.1.role: role 'system' is not supported inside messages; "
        "put instructions in the top-level system parameter"
    )
    assert re.search(r"role .{0,2}system", message, re.IGNORECASE)
    assert "not supported" in message


@pytest.mark.parametrize(
    ("extra", "param", "message"),
    [
        ({"wat": 1}, "wat", "wat: Extra inputs are not permitted"),
        ({"wat": None}, "wat", "wat: Extra inputs are not permitted"),
        ({"fallbacks": [1]}, "fallbacks", "fallbacks: Extra inputs are not permitted"),
        ({"speed": "fast"}, "speed", "speed: this node has one speed, standard"),
        (
            {"output_config": {"wat": 1}},
            "output_config.wat",
            "output_config.wat: Extra inputs are not permitted",
        ),
        ({"ev\r\nil\u2028": 1}, "evil\\u2028", "evil\\u2028: Extra inputs are not permitted"),
    ],
)
def test_an_unknown_or_refused_field_is_named(
    node: RunningNode, extra: dict, param: str, message: str
) -> None:
    assert refusal(node, ASK | extra) == (400, "unsupported_parameter", param, message)


def test_unknown_fields_come_before_wrong_values_and_those_before_the_model(node: RunningNode) -> None:
    assert refusal(node, {**ASK, "model": "nope", "max_tokens": -1, "wat": 1})[1] == "unsupported_parameter"
    assert refusal(node, {**ASK, "model": "nope", "max_tokens": -1})[2] == "max_tokens"
    assert refusal(node, {**ASK, "model": "nope"})[1] == "model_not_available"


def test_ignored_fields_are_named_in_a_header(node: RunningNode) -> None:
    body = {
        **ASK,
        "metadata": {"user_id": "x"},
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        "output_config": {"effort": "high"},
        "service_tier": None,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
            }
        ],
    }
    for path in ("/v1/infer/v1/messages", "/v1/infer/v1/messages/count_tokens"):
        status, headers, _ = send(node, "POST", path, body)
        assert status == 200
        assert set(headers["b3os-ignored"].split(", ")) == {
            "metadata",
            "output_config.effort",
            "messages.content.cache_control",
            "system.cache_control",
        }
    assert "b3os-ignored" not in send(node, "POST", "/v1/infer/v1/messages", ASK)[1]


def test_lone_surrogates_become_the_replacement_character(node: RunningNode) -> None:
    body = json.dumps(ASK).replace('"hi"', '"a \\ud83d b"').encode()
    clean = json.dumps(ASK).replace('"hi"', '"a \ufffd b"').encode()
    path = "/v1/infer/v1/messages/count_tokens"
    counts = [send(node, "POST", path, payload)[2]["input_tokens"] for payload in (body, clean)]
    assert counts[0] == counts[1]


def test_the_billing_line_of_an_agent_never_reaches_the_model(node: RunningNode) -> None:
    def count(system: list[str]) -> int:
        parts = [{"type": "text", "text": text} for text in system]
        path = "/v1/infer/v1/messages/count_tokens"
        return send(node, "POST", path, {**ASK, "system": parts})[2]["input_tokens"]

    line = "x-anthropic-billing-header: cc_version=2.1.0; cch=aaaaa;"
    assert count([line, "Be brief."]) == count(["Be brief."])
    assert count([line + "\nmore", "Be brief."]) > count(["Be brief."])
    assert count(["Be brief.", line]) > count(["Be brief."])


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
        ("GET", "/", 404, "not_found", "nothing answers"),
        ("POST", "/v1/infer/v1/complete", 404, "not_found", "nothing answers"),
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
    packed = AUTHORIZED | {"content-encoding": "gzip"}
    assert send(node, "POST", "/v1/infer/v1/messages", ASK, packed)[2]["b3os"]["code"] == "invalid_request"


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
