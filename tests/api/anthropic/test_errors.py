"""Errors of Messages requests on the wire. Those that the documents print come back as printed."""

import re

import pytest

from tests.api.sending import ASK, HI, refusal, send
from tests.node_under_test import RunningNode, running_node


@pytest.fixture(scope="module")
def node():
    with running_node("ok") as node:
        yield node


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
        ({**ASK, "top_p": -0.1}, "top_p", "top_p: must be between 0 and 1"),
        ({**ASK, "top_p": 1.1}, "top_p", "top_p: must be between 0 and 1"),
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


def test_the_billing_line_of_an_agent_never_reaches_the_model(node: RunningNode) -> None:
    def count(system: list[str]) -> int:
        parts = [{"type": "text", "text": text} for text in system]
        path = "/v1/infer/v1/messages/count_tokens"
        return send(node, "POST", path, {**ASK, "system": parts})[2]["input_tokens"]

    line = "x-anthropic-billing-header: cc_version=2.1.0; cch=aaaaa;"
    assert count([line, "Be brief."]) == count(["Be brief."])
    assert count([line + "\nmore", "Be brief."]) > count(["Be brief."])
    assert count(["Be brief.", line]) > count(["Be brief."])
