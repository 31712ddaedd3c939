"""Rows of CASES.md on what is read, refused and counted: each over the socket, with exact values."""

import http.client
import json
import re
from typing import Any

import anthropic
import pytest

from node.api.anthropic.messages_request import parse
from node.chat.chat import Chat
from node.chat.template import Template
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

CREATE = "/v1/infer/v1/messages"
COUNT = f"{CREATE}/count_tokens"
HI = {"role": "user", "content": "hi"}
ASK = {"model": MODEL, "max_tokens": 512, "messages": [HI]}
AUTHORIZED = {"authorization": f"Bearer {KEY}"}
NO_SYSTEM = (
    "messages.1.role: role 'system' is not supported inside messages; "
    "put instructions in the top-level system parameter"
)
WEATHER = {
    "name": "get_weather",
    "description": "Current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
BEND = "<tool_call>\n<function=get_weather>\n<parameter=city>\nBend\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture(scope="module")
def node():
    with running_node("ok") as node:
        yield node


def send(
    node: RunningNode, path: str, body: Any = None, headers: dict[str, str] = AUTHORIZED, method: str = "POST"
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def error(node: RunningNode, path: str, body: Any, **how: Any) -> tuple[int, str, str, str | None, str]:
    """(status, type, code, param, message) of a request that is refused, in Anthropic's shape."""
    status, answer = send(node, path, body, **how)
    assert list(answer) == ["b3os", "error", "request_id", "type"]
    assert (answer["type"], list(answer["error"])) == ("error", ["message", "type"])
    told = answer["error"]
    return status, told["type"], answer["b3os"]["code"], answer["b3os"].get("param"), told["message"]


def count(node: RunningNode, **fields: Any) -> int:
    status, answer = send(node, COUNT, {**ASK, **fields})
    assert (status, list(answer)) == (200, ["input_tokens"])
    return answer["input_tokens"]


def read_back(node: RunningNode, number: int = -1) -> str:
    """What the model was given."""
    return b"".join(map(node.chat.tokenizer.token_bytes, node.runner.prompts[number])).decode()


@pytest.mark.parametrize(
    "more", [{}, {"tools": [WEATHER]}, {"stream": True}], ids=["plain", "tools", "stream"]
)
@pytest.mark.parametrize("path", [CREATE, COUNT])
def test_b01_b02_b04_a_system_message_inside_messages_is_refused_in_the_words_clients_match(
    node: RunningNode, path: str, more: dict
) -> None:
    messages = [
        {"role": "user", "content": "List the files."},
        {"role": "system", "content": "Available agents: none."},
    ]
    ran = len(node.runner.prompts)
    refusal = error(node, path, {**ASK, **more, "messages": messages})
    assert refusal == (400, "invalid_request_error", "invalid_request", "messages.1.role", NO_SYSTEM)
    assert re.search(r"role .{0,2}system", refusal[-1], re.IGNORECASE)
    assert "not supported" in refusal[-1]
    assert len(node.runner.prompts) == ran  # never moved, never rendered


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("content", ["A", [{"type": "text", "text": "A"}], "", None, []])
def test_b03_a_system_message_never_reaches_the_template(
    node: RunningNode, place: int, content: object
) -> None:
    messages: list = [HI, {"role": "assistant", "content": "yes?"}]
    messages.insert(place, {"role": "system", "content": content})
    refusal = error(node, CREATE, {**ASK, "messages": [*messages, HI]})
    assert refusal[:4] == (400, "invalid_request_error", "invalid_request", f"messages.{place}.role")


def test_b07_prompts_that_differ_in_the_billing_line_alone_are_one_prompt_from_the_first_token_on() -> None:
    with running_node("ok") as node:
        for cch in ("aaaaa", "bbbbb"):
            line = f"x-anthropic-billing-header: cc_version=2.1.0; cch={cch};"
            system = [{"type": "text", "text": line}, {"type": "text", "text": "Long fixed text. " * 40}]
            assert send(node, CREATE, {**ASK, "system": system})[0] == 200
        assert node.runner.prompts[0] == node.runner.prompts[1]
        assert "billing" not in read_back(node)
        assert read_back(node).count("Long fixed text.") == 40


def test_b08_b09_the_three_counts_of_input_are_whole_numbers_that_partition_the_prompt() -> None:
    messages = [{"role": "user", "content": "word " * 300}]
    with running_node("ok") as node:
        counted = count(node, messages=messages)
        for _ in range(2):
            usage = send(node, CREATE, {**ASK, "messages": messages})[1]["usage"]
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            parts = [usage[name] for name in names]
            assert all(type(part) is int and part >= 0 for part in parts)
            assert sum(parts) == counted == len(node.runner.prompts[-1])


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"model": MODEL, "messages": "hi"}, "messages", "messages: must be a list"),
        ({"model": MODEL}, "messages", "messages: Field required"),
        ({"model": MODEL, "messages": []}, "messages", "messages: at least one message is required"),
        ({"messages": [HI]}, "model", "model: Field required"),
        ([], None, "the body must be a JSON object"),
    ],
)
def test_b15_what_cannot_be_counted_is_a_400(
    node: RunningNode, body: object, param: str | None, message: str
) -> None:
    refusal = error(node, COUNT, body)
    assert refusal == (400, "invalid_request_error", "invalid_request", param, message)


def test_b17_error_types_are_anthropics_words(node: RunningNode) -> None:
    body = {"model": "nope", "max_tokens": 8, "messages": [{"role": "user", "content": "x"}]}
    message = "nope is not served on this node; GET /v1/infer/models lists the models that are"
    unknown = (404, "not_found_error", "model_not_available", "model", message)
    assert error(node, CREATE, body) == error(node, COUNT, body) == unknown
    assert error(node, "/v1/infer/v1/nowhere", body)[:3] == (404, "not_found_error", "not_found")
    assert error(node, CREATE, {**body, "model": 3})[:2] == (400, "invalid_request_error")
    assert error(node, CREATE, body, headers={})[:2] == (401, "authentication_error")


def test_b18_a_clients_mistake_is_sent_once(node: RunningNode) -> None:
    before = node.server.statistics().requests
    client = anthropic.Anthropic(base_url=node.base_url, api_key=KEY, max_retries=2)
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**ASK, stop_sequences=list("abcdefghijklmnopq"))
    assert caught.value.body["error"]["message"] == "stop_sequences: at most 16"
    assert node.server.statistics().requests == before + 1


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", CREATE, (401, "authentication_error", "authentication_required")),
        ("POST", COUNT, (401, "authentication_error", "authentication_required")),
        ("GET", "/v1/infer/models", (401, "authentication_error", "authentication_required")),
        ("GET", CREATE, (405, "invalid_request_error", "method_not_allowed")),
        ("POST", "/v1/infer/v1/batches", (404, "not_found_error", "not_found")),
    ],
)
def test_b19_errors_from_before_the_model_have_the_same_shape(
    node: RunningNode, method: str, path: str, expected: tuple
) -> None:
    assert error(node, path, ASK, headers={}, method=method)[:3] == expected


def test_b23_a_prompt_too_long_is_refused_in_the_words_that_start_a_compaction() -> None:
    messages = [{"role": "user", "content": "word " * 700}]
    with running_node(context=512) as node:
        tokens = count(node, messages=messages)
        refusal = error(node, CREATE, {**ASK, "messages": messages})
        message = f"prompt is too long: {tokens} tokens > 512 maximum"
        assert refusal == (400, "invalid_request_error", "context_length_exceeded", "messages", message)
        assert error(node, CREATE, {**ASK, "messages": messages, "stream": True}) == refusal
        assert node.runner.prompts == []


@pytest.mark.parametrize("stream", [False, True])
def test_b24_b25_an_agents_huge_max_tokens_is_clamped_to_the_remaining_context(stream: bool) -> None:
    with running_node("Hello.", "word " * 600, context=512) as node:
        client = anthropic.Anthropic(base_url=node.base_url, api_key=KEY, max_retries=0)

        def ask() -> anthropic.types.Message:
            request = {
                "model": MODEL,
                "max_tokens": 32_000,
                "messages": [{"role": "user", "content": "hello"}],
            }
            if not stream:
                return client.messages.create(**request, timeout=20)
            with client.messages.stream(**request) as events:
                return events.get_final_message()

        assert (ask().stop_reason, len(node.runner.prompts)) == ("end_turn", 1)
        full = ask()
        assert full.stop_reason == "model_context_window_exceeded"
        assert full.usage.input_tokens + full.usage.output_tokens == 512


def test_b26_the_window_is_published(node: RunningNode) -> None:
    status, models = send(node, "/v1/infer/models", method="GET")
    model = models["data"][0]
    assert (status, model["id"], model["max_input_tokens"]) == (200, MODEL, 2048)
    assert model["b3os"]["context_length"] == 2048


def test_b27_a_prompt_one_token_above_the_window_is_told_both_numbers_and_one_below_runs() -> None:
    with running_node("ok ok ok", context=128) as node:

        def sized(tokens: int) -> list[dict]:
            """A message whose prompt has so many tokens."""
            messages = [{"role": "user", "content": "a" + " a" * (tokens - shortest)}]
            assert count(node, messages=messages) == tokens
            return messages

        shortest = count(node, messages=[{"role": "user", "content": "a"}])
        assert error(node, CREATE, {**ASK, "messages": sized(129)})[4] == (
            "prompt is too long: 129 tokens > 128 maximum"
        )
        assert error(node, CREATE, {**ASK, "messages": sized(128)})[4] == (
            "prompt is too long: 128 tokens > 128 maximum"
        )
        status, answer = send(node, CREATE, {**ASK, "messages": sized(127)})
        assert (status, answer["stop_reason"]) == (200, "model_context_window_exceeded")
        assert answer["usage"]["output_tokens"] == 1


def test_b35_thinking_goes_back_as_the_reasoning_of_its_turn_and_never_as_words() -> None:
    thought = {"type": "thinking", "thinking": "I choose 42.", "signature": ""}
    use = {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {"city": "Bend"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_a", "content": "50F"}

    def conversation(content: list, answer: object) -> list[dict]:
        return [HI, {"role": "assistant", "content": content}, {"role": "user", "content": answer}]

    with running_node("ok") as node:
        done = {"type": "text", "text": "Done."}
        assert send(node, CREATE, {**ASK, "messages": conversation([thought, done], "Go on.")})[0] == 200
        assert "<|im_start|>assistant\nDone.<|im_end|>" in read_back(node)  # the template drops it by now
        assert "42" not in read_back(node)
        assert send(node, CREATE, {**ASK, "messages": conversation([thought, use], [result])})[0] == 200
        assert "assistant\n<think>\nI choose 42.\n</think>\n\n<tool_call>" in read_back(node)


def test_b65_a_schema_with_references_is_rendered_as_given_and_types_the_arguments() -> None:
    schema = {
        "type": "object",
        "$defs": {"P": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "properties": {"p": {"$ref": "#/$defs/P"}},
        "required": ["p"],
    }
    body = {**ASK, "tools": [{"name": "f", "input_schema": schema}]}
    call = '<tool_call>\n<function=f>\n<parameter=p>\n{"n": 1}\n</parameter>\n</function>\n</tool_call>'
    with running_node(call) as node:
        status, answer = send(node, CREATE, body)
        assert (status, answer["content"][0]["input"]) == (200, {"p": {"n": 1}})
        assert count(node, tools=body["tools"]) == answer["usage"]["input_tokens"]
        template = Chat(Template("{{ tools | tojson }}"), node.chat.tokenizer)
        written = json.loads(template.prompt(parse(body).generation_request().conversation).text)
        assert written[0]["function"]["parameters"] == schema


def test_b87_calls_of_the_history_are_written_as_the_model_writes_them() -> None:
    messages = [
        {"role": "user", "content": "Weather in Bend?"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {"city": "Bend"}}
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_a", "content": "50F"}]},
        {"role": "assistant", "content": "50F in Bend."},
        {"role": "user", "content": "And in Reno?"},
    ]
    with running_node(BEND.replace("Bend", "Reno")) as node:
        status, answer = send(node, CREATE, {**ASK, "messages": messages, "tools": [WEATHER]})
        assert (status, answer["stop_reason"]) == (200, "tool_use")
        assert answer["content"][0]["input"] == {"city": "Reno"}
        assert BEND in read_back(node)
        assert node.chat.tokenizer.control["<tool_call>"] in node.runner.prompts[0]
        assert "Tool call" not in read_back(node)
        assert "toolu_a" not in read_back(node)


def test_b88_an_image_is_refused_loudly_whatever_stands_beside_it(node: RunningNode) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]
    path = "messages.0.content.0.image"
    refusal = (
        400,
        "invalid_request_error",
        "unsupported_parameter",
        path,
        f"{path}: this node takes text only",
    )
    for route in (CREATE, COUNT):
        assert error(node, route, {**ASK, "messages": messages}) == refusal
