"""Rows of CASES.md on answers as they stream: over the socket, against a model that is a script."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from node.api.anthropic import messages_reply
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

CREATE = "/v1/infer/v1/messages"
ASK = {"model": MODEL, "max_tokens": 512, "messages": [{"role": "user", "content": "hi"}]}
HEADERS = {"authorization": f"Bearer {KEY}"}
Frame = tuple[str, dict[str, Any]]


def frames(node: RunningNode, **fields: Any) -> Iterator[Frame]:
    """The events of a streamed answer as they arrive: (name, data)."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    connection.request("POST", CREATE, json.dumps({**ASK, "stream": True, **fields}), HEADERS)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    while name := response.readline():
        data = json.loads(response.readline().removeprefix(b"data: "))
        assert response.readline() == b"\n"
        assert name == f"event: {data['type']}\n".encode()
        yield data["type"], data
    connection.close()


def whole(node: RunningNode, path: str = CREATE, **fields: Any) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    connection.request("POST", path, json.dumps({**ASK, **fields}), HEADERS)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_b10_the_first_event_tells_the_true_input_tokens() -> None:
    messages = [{"role": "user", "content": "Say OK"}]
    with running_node("OK") as node:
        counted = whole(node, f"{CREATE}/count_tokens", messages=messages)["input_tokens"]
        name, start = next(frames(node, messages=messages))
        assert name == "message_start"
        assert start["message"]["usage"]["input_tokens"] == counted == len(node.runner.prompts[0]) > 0
        node.wait_until_idle()


def test_b11_usage_at_the_end_is_cumulative() -> None:
    text = "one two three four five"
    with running_node(text) as node:
        events = list(frames(node))
        first = events[0][1]["message"]["usage"]
        deltas = [data["usage"] for name, data in events if name == "message_delta"]
        assert len(deltas) == 1
        assert deltas[0]["output_tokens"] == len(node.chat.written(text)) + 1  # its end was sampled too
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert [deltas[0][name] for name in names] == [first[name] for name in names]
        assert first["output_tokens"] <= deltas[0]["output_tokens"]
        assert whole(node)["usage"] == deltas[0]


def test_b13_output_tokens_hold_the_thinking_and_tell_how_much_it_was() -> None:
    script = "17 times 23 is 391.\n</think>\n\nNo."
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with running_node(script) as node:
        ids = node.chat.written(script)
        usage = whole(node, max_tokens=2048, thinking=thinking)["usage"]
        assert usage["output_tokens"] == len(ids) + 1
        thought = ids.index(node.chat.tokenizer.control["</think>"])
        assert usage["output_tokens_details"] == {"thinking_tokens": thought}
        assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (0, 0)


def test_b33_thinking_is_one_part_and_signed_once_before_it_closes() -> None:
    with running_node("because " * 150 + "\n</think>\n\nYes.") as node:
        events = list(frames(node, max_tokens=1024, thinking={"type": "adaptive"}))
        parts = [data["content_block"] for name, data in events if name == "content_block_start"]
        assert parts == [
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "text", "text": "", "citations": None},
        ]
        inside = [
            data["delta"]["type"] if name == "content_block_delta" else name
            for name, data in events
            if data.get("index") == 0
        ]
        assert inside[0] == "content_block_start"
        assert inside[-2:] == ["signature_delta", "content_block_stop"]
        assert set(inside[1:-2]) == {"thinking_delta"}
        assert len(inside) > 4  # several deltas, one start


def test_b81_pings_come_by_the_clock_while_a_prompt_makes_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert messages_reply.PING_SECONDS <= 10
    monkeypatch.setattr("node.api.anthropic.messages_reply.PING_SECONDS", 0.05)
    with running_node("late", first_token_timeout=0.05) as node:
        node.runner.gate.clear()
        events = frames(node, messages=[{"role": "user", "content": "word " * 1500}])
        assert [next(events)[0] for _ in range(5)] == ["message_start", "ping", "ping", "ping", "ping"]
        assert node.runner.steps == 0
        node.runner.gate.set()
        names = [name for name, _ in events if name != "ping"]
        assert names[0] == "content_block_start"
        assert names[-1] == "message_stop"


def test_b82_pings_come_in_a_silence_inside_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.api.anthropic.messages_reply.PING_SECONDS", 0.05)
    text = "one two three four five six seven eight"
    with running_node(text, seconds=0.01) as node:
        names, words = [], []
        for name, data in frames(node):
            names.append(name)
            if name == "content_block_delta":
                words.append(data["delta"]["text"])
            if len(words) == 1 and "ping" not in names:
                node.runner.gate.clear()
            if names.count("ping") == 3:
                node.runner.gate.set()
        assert names.index("content_block_delta") < names.index("ping") < names.index("content_block_stop")
        assert names.count("ping") >= 3
        assert "".join(words) == text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["queued", "reading its prompt", "writing"])
def test_b83_a_client_that_leaves_ends_its_work_in_every_phase(phase: str, stream: bool) -> None:
    with running_node("word " * 900, seconds=0.1) as node:
        if phase == "queued":
            node.runner.gate.clear()  # the step that runs does not end, so that what comes waits
            running = leaver(node, ASK)
            wait_until(lambda: node.engine.live == 1)
            client = leaver(node, {**ASK, "stream": stream})
            wait_until(lambda: node.engine.live == 2)
            client.close()
            wait_until(lambda: node.engine.live == 1)
            running.close()
            node.runner.gate.set()
            node.wait_until_idle()
            assert len(node.runner.prompts) <= 1  # what left while it waited was never run
            return
        content = "word " * 1900 if phase == "reading its prompt" else "hi"
        client = leaver(node, {**ASK, "messages": [{"role": "user", "content": content}], "stream": stream})
        wait_until(lambda: node.runner.steps >= (1 if phase == "reading its prompt" else 3))
        steps = node.runner.steps
        client.close()
        node.wait_until_idle()
        assert node.runner.steps <= steps + 2  # the step in flight, and one that was planned behind it


def leaver(node: RunningNode, body: Any) -> socket.socket:
    """A client that has asked and can close its socket whenever it wants to."""
    client = socket.create_connection(("127.0.0.1", node.port), timeout=10)
    payload = json.dumps(body).encode()
    head = f"POST {CREATE} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: {len(payload)}\r\n\r\n"
    client.sendall(head.encode() + payload)
    return client


def test_b85_a_stream_that_breaks_ends_in_an_error_event_and_the_retry_without_stream_is_equal() -> None:
    text = " ".join(map(str, range(60)))
    with running_node(text, seconds=0.01) as node:
        events = []
        for name, data in frames(node):
            events.append((name, data))
            if name == "content_block_delta" and len(events) == 12:
                node.runner.failures = 1
        name, data = events[-1]
        assert name == "error"
        assert set(data) == {"type", "error", "b3os", "request_id"}
        assert (data["error"]["type"], data["b3os"]) == ("api_error", {"code": "engine_error"})
        assert "secret" not in json.dumps(data)
        assert not {"message_delta", "message_stop"} & {name for name, _ in events}
        sent = "".join(data["delta"]["text"] for name, data in events if name == "content_block_delta")
        node.runner.seconds = 0.0
        again = whole(node)["content"][0]["text"]
        assert again == text
        assert text.startswith(sent)
        node.wait_until_idle()


def test_b86_an_agents_turn_with_words_before_its_call_goes_on_to_the_call() -> None:
    def tool(name: str, *parameters: str) -> dict:
        properties = {parameter: {"type": "string", "description": "x"} for parameter in parameters}
        schema = {"type": "object", "properties": properties, "required": [parameters[0]]}
        return {"name": name, "description": f"{name} something.", "input_schema": schema}

    mark = {"type": "ephemeral"}
    agent = {
        "max_tokens": 32_000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197; cch=00000;"},
            {"type": "text", "text": "You write code.", "cache_control": mark},
            {"type": "text", "text": "Use the tools.", "cache_control": mark},
        ],
        "tools": [tool("Bash", "command"), tool("Read", "path"), tool("Edit", "path", "old", "new")],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "List the files.", "cache_control": mark}],
            }
        ],
    }
    script = (
        "I should look.\n</think>\n\nI'll list them.\n\n"
        "<tool_call>\n<function=Bash>\n<parameter=command>\nls -la | head\n</parameter>\n</function>\n</tool_call>"
    )
    with running_node(script) as node:
        answer = whole(node, **agent)
        assert answer["stop_reason"] == "tool_use"
        thinking, words, call = answer["content"]
        assert (thinking["thinking"], words["text"]) == ("I should look.", "I'll list them.")
        assert (call["name"], call["input"]) == ("Bash", {"command": "ls -la | head"})
        events = list(frames(node, **agent))
        kinds = [data["content_block"]["type"] for name, data in events if name == "content_block_start"]
        assert kinds == ["thinking", "text", "tool_use"]
        assert events[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
