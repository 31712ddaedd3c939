"""Thinking and tools through Anthropic's Python SDK, response validation on."""

import asyncio
import http.client
import json
import re
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from node.api.anthropic.replay import replay, steps
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

WEATHER = {
    "name": "get_weather",
    "description": "Current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
WAIT = {
    "name": "wait",
    "input_schema": {
        "type": "object",
        "properties": {
            "seconds": {"type": "number"},
            "force": {"type": "boolean"},
            "label": {"type": "string"},
        },
    },
}
NOW = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
ASK = {"model": MODEL, "max_tokens": 512, "messages": [{"role": "user", "content": "Weather in Bend?"}]}
ADAPTIVE = {"type": "adaptive"}


def call(name: str, **arguments: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def client(node: RunningNode) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=node.base_url, api_key=KEY, max_retries=0, _strict_response_validation=True
    )


def tokens(message: anthropic.types.Message) -> tuple[int, int]:
    """In and out; what of the input was reused depends on what ran before."""
    usage = message.usage
    return usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens


def both(node: RunningNode, **request: Any) -> tuple[anthropic.types.Message, list[Any]]:
    """The whole message, asked for twice and the same both times; and the events of the streamed one."""
    whole = client(node).messages.create(**request)
    events = []
    with client(node).messages.stream(**request) as stream:
        events = [event for event in stream if event.type.startswith(("message_", "content_block_"))]
        streamed = stream.get_final_message()
    shape = [(part.type, getattr(part, "text", None), getattr(part, "input", None)) for part in whole.content]
    again = [
        (part.type, getattr(part, "text", None), getattr(part, "input", None)) for part in streamed.content
    ]
    assert (shape, whole.stop_reason, tokens(whole)) == (again, streamed.stop_reason, tokens(streamed))
    node.wait_until_idle()
    return whole, events


def test_a_call_with_text_before_it() -> None:
    with running_node("Sure.\n\n" + call("get_weather", city="Bend")) as node:
        message, events = both(node, **ASK, tools=[WEATHER])
        assert message.stop_reason == "tool_use"
        text, use = message.content
        assert (text.type, text.text) == ("text", "Sure.")
        assert (use.type, use.name, use.input) == ("tool_use", "get_weather", {"city": "Bend"})
        assert use.id.startswith("toolu_")
        kinds = [event.type for event in events]
        assert kinds[0] == "message_start"
        assert kinds[-2:] == ["message_delta", "message_stop"]
        opened = 0
        for kind in kinds:
            opened += (kind == "content_block_start") - (kind == "content_block_stop")
            assert opened in (0, 1)


def test_b46_b55_b58_arguments_stream_as_json_of_the_schemas_types() -> None:
    script = "\n".join(
        [call("wait", seconds="30", force="true", label="7"), call("now"), call("get_weather", city='a"\nb')]
    )
    with running_node(script) as node:
        message, events = both(node, **ASK, tools=[WAIT, NOW, WEATHER])
        inputs = [part.input for part in message.content]
        assert inputs == [{"seconds": 30, "force": True, "label": "7"}, {}, {"city": 'a"\nb'}]
        assert len({part.id for part in message.content}) == 3
        fragments: dict[int, str] = {}
        for event in events:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                fragments[event.index] = fragments.get(event.index, "") + event.delta.partial_json
        assert [json.loads(text) for text in fragments.values()] == inputs
        assert list(fragments) == [0, 1, 2]


def test_thinking_comes_before_the_answer_with_a_signature() -> None:
    with running_node("17 * 23 = 391.\n</think>\n\nNo.") as node:
        message, events = both(node, **ASK, thinking=ADAPTIVE)
        thinking, text = message.content
        assert (thinking.type, thinking.thinking) == ("thinking", "17 * 23 = 391.")
        assert thinking.signature
        assert (text.text, message.stop_reason) == ("No.", "end_turn")
        span = len(node.chat.written("17 * 23 = 391.\n"))
        assert message.usage.output_tokens_details.thinking_tokens in (span, span + 1)
        deltas = [
            event.delta.type for event in events if event.type == "content_block_delta" and event.index == 0
        ]
        assert deltas[-1] == "signature_delta"
        assert set(deltas[:-1]) == {"thinking_delta"}


def test_display_omitted_keeps_thinking_back() -> None:
    with running_node("secret\n</think>\n\nNo.") as node:
        message, events = both(node, **ASK, thinking={"type": "adaptive", "display": "omitted"})
        assert (message.content[0].thinking, message.content[1].text) == ("", "No.")
        assert message.content[0].signature
        assert not any("secret" in event.model_dump_json() for event in events)


def test_b32_cut_inside_thinking_is_all_thinking() -> None:
    with running_node("because " * 100) as node:
        message, _ = both(node, **{**ASK, "max_tokens": 20}, thinking=ADAPTIVE)
        assert [part.type for part in message.content] == ["thinking"]
        assert message.stop_reason == "max_tokens"
        assert message.usage.output_tokens == 20


def test_b31_a_spent_budget_ends_thinking_and_shows_no_forcing() -> None:
    budget = 1024
    thinking = "because " * 3000
    with running_node(thinking, context=8192) as node:
        request = {**ASK, "max_tokens": 1100, "thinking": {"type": "enabled", "budget_tokens": budget}}
        message = client(node).messages.create(**request)
        assert message.content[0].type == "thinking"
        assert thinking.startswith(message.content[0].thinking)
        assert message.usage.output_tokens_details.thinking_tokens <= budget + 3
        assert message.content[1].type == "text"  # the script goes on as the answer
        assert not message.content[1].text.startswith("\n")


def test_b45_cut_inside_a_call_is_no_call() -> None:
    with running_node(call("get_weather", city="a very long name " * 30)) as node:
        request = {**ASK, "max_tokens": 40, "tools": [WEATHER]}
        assert client(node).messages.create(**request).content == []
        with client(node).messages.stream(**request) as stream:
            message = stream.get_final_message()
        assert message.stop_reason == "max_tokens"
        assert [part.type for part in message.content] == [
            "tool_use"
        ]  # opened, and closed with what was sent


def test_disable_parallel_tool_use_ends_after_the_first_call() -> None:
    with running_node(call("now") + "\n" + call("now")) as node:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        message, _ = both(node, **ASK, tools=[NOW], tool_choice=choice)
        assert [part.name for part in message.content] == ["now"]
        assert message.stop_reason == "tool_use"


def test_stop_sequences_are_matched_in_text_alone() -> None:
    with running_node("STOP\n</think>\n\na" + call("get_weather", city="STOP")) as node:
        message, _ = both(node, **ASK, tools=[WEATHER], thinking=ADAPTIVE, stop_sequences=["STOP"])
        assert [part.type for part in message.content] == ["thinking", "text", "tool_use"]
        assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_b66_b69_a_forced_choice_masks_all_else(choice: dict) -> None:
    with running_node(call("get_weather", city="Bend"), "No thanks.") as node:
        message = client(node).messages.create(**ASK, tools=[WEATHER, NOW], tool_choice=choice)
        assert [part.name for part in message.content] == ["get_weather"]
        with pytest.raises(anthropic.InternalServerError):  # the script says what the mask forbids
            client(node).messages.create(**ASK, tools=[WEATHER, NOW], tool_choice=choice)


def test_forced_with_thinking_thinks_first() -> None:
    with running_node("Hm.\n</think>\n\n" + call("get_weather", city="Bend")) as node:
        message, _ = both(node, **ASK, tools=[WEATHER], tool_choice={"type": "any"}, thinking=ADAPTIVE)
        assert [part.type for part in message.content] == ["thinking", "tool_use"]


def test_the_choice_none_forbids_calls_and_keeps_the_tools_in_the_prompt() -> None:
    with running_node(call("now"), "Plain.") as node:
        with pytest.raises(anthropic.InternalServerError):
            client(node).messages.create(**ASK, tools=[NOW], tool_choice={"type": "none"})
        message = client(node).messages.create(**ASK, tools=[NOW], tool_choice={"type": "none"})
        assert message.content[0].text == "Plain."
        tools = client(node).messages.count_tokens(
            model=MODEL, messages=ASK["messages"], tools=[NOW], tool_choice={"type": "none"}
        )
        assert (
            tools.input_tokens == message.usage.input_tokens > len(ASK["messages"][0]["content"].split()) + 20
        )


class Person(BaseModel):
    name: str
    age: int


def test_parse_gets_an_object_of_its_schema() -> None:
    with running_node('{"name": "Ada", "age": 36}', "I would rather not.") as node:
        message = client(node).messages.parse(**ASK, output_format=Person)
        assert message.parsed_output == Person(name="Ada", age=36)
        with pytest.raises(anthropic.InternalServerError):
            client(node).messages.parse(**ASK, output_format=Person)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {
                "output_config": {
                    "format": {"type": "json_schema", "schema": {"type": "string", "pattern": "(?!x)"}}
                }
            },
            "output_config.format.schema",
        ),
        (
            {
                "tools": [
                    {
                        "name": "f",
                        "strict": True,
                        "input_schema": {
                            "type": "object",
                            "properties": {"p": {"type": "string", "pattern": "^(?!x).*$"}},
                        },
                    }
                ]
            },
            "tools.0.input_schema",
        ),
    ],
)
def test_b21_a_schema_that_cannot_be_enforced_is_refused_by_its_path(fields: dict, param: str) -> None:
    with running_node("x") as node:
        for stream in (False, True):
            with pytest.raises(anthropic.BadRequestError) as caught:
                client(node).messages.create(**ASK, extra_body=fields, stream=stream)
            assert caught.value.body["b3os"]["code"] == "invalid_request"
            assert caught.value.body["b3os"]["param"].startswith(param)
            assert "pattern" in str(caught.value)
        node.wait_until_idle()


def test_b21_the_same_schema_that_is_not_strict_is_decoded_freely() -> None:
    tool = {
        "name": "f",
        "input_schema": {"type": "object", "properties": {"p": {"type": "string", "pattern": "^(?!x).*$"}}},
    }
    with running_node(call("f", p="abc")) as node:
        message, _ = both(node, **ASK, tools=[tool])
        assert message.content[0].input == {"p": "abc"}


def test_the_tool_runner_loops_until_the_answer() -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather for a city.

        Args:
            city: Its name.
        """
        return f"{city}: 52F and raining"

    with running_node(call("get_weather", city="Eugene"), "It rains in Eugene.") as node:
        runner = client(node).beta.messages.tool_runner(**ASK, tools=[get_weather])
        message = runner.until_done()
        assert message.content[0].text == "It rains in Eugene."
        second = node.chat.tokenizer
        read = b"".join(map(second.token_bytes, node.runner.prompts[1])).decode()
        assert "<tool_response>\nEugene: 52F and raining\n</tool_response>" in read


def test_a_prefilled_answer_is_gone_on_with() -> None:
    with running_node(" is Paris.") as node:
        messages = [*ASK["messages"], {"role": "assistant", "content": "The capital"}]
        message = client(node).messages.create(**{**ASK, "messages": messages})
        assert message.content[0].text == " is Paris."
        read = b"".join(map(node.chat.tokenizer.token_bytes, node.runner.prompts[0])).decode()
        assert read.endswith("</think>\n\nThe capital")


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [WEATHER]},
        {"tools": [WEATHER, WAIT], "thinking": ADAPTIVE},
        {"tools": [WEATHER], "tool_choice": {"type": "any"}, "system": "Be brief."},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ],
)
def test_b14_count_tokens_equals_usage_with_tools_and_thinking(request_: dict) -> None:
    with running_node("Hm.\n</think>\n\n" + call("get_weather", city="Bend")) as node:
        counted = client(node).messages.count_tokens(model=MODEL, messages=ASK["messages"], **request_)
        node.runner.scripts = [node.chat.written(call("get_weather", city="x"))] * 2
        if "thinking" in request_:
            node.runner.scripts = [node.chat.written("x\n</think>\n\n" + call("get_weather", city="x"))] * 2
        message = client(node).messages.create(**{**ASK, "max_tokens": 2000}, **request_)
        assert counted.input_tokens == message.usage.input_tokens == len(node.runner.prompts[0])


def test_b71_ids_of_calls_never_repeat() -> None:
    with running_node("\n".join([call("now")] * 40)) as node:
        ids = [
            part.id
            for _ in range(25)
            for part in client(node).messages.create(**{**ASK, "max_tokens": 2000}, tools=[NOW]).content
        ]
        assert len(set(ids)) == len(ids) == 1000


def test_b82_tokens_that_show_nothing_do_not_hold_pings_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.api.anthropic.messages_reply.PING_SECONDS", 0.1)
    with running_node("because " * 100 + "\n</think>\n\nNo.", seconds=0.004) as node:
        thinking = {"type": "adaptive", "display": "omitted"}
        with client(node).messages.with_streaming_response.create(
            **ASK, thinking=thinking, stream=True
        ) as response:
            lines = [line for line in response.iter_lines() if line.startswith("event: ")]
        assert lines[:3] == ["event: message_start", "event: content_block_start", "event: ping"]
        assert lines[-1] == "event: message_stop"


def test_replay_sends_the_bytes_that_the_node_sends() -> None:
    written = "Hm — so.\n</think>\n\nSure.\n\n" + call("wait", seconds="30", label="7")
    ask = {**ASK, "tools": [WAIT], "thinking": ADAPTIVE}
    with running_node(written, seconds=0.005) as node:  # so that no two steps arrive as one
        for stream in (False, True):
            request = {**ask, "stream": stream}
            connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
            connection.request("POST", "/v1/messages", json.dumps(request), {"x-api-key": KEY})
            sent = connection.getresponse().read()
            stops = frozenset({node.chat.tokenizer.control["<|im_end|>"]})
            kept = asyncio.run(replay(node.chat, stops, request, written, steps("1"), None, cut=False))
            assert masked(kept) == masked(sent)
            node.wait_until_idle()


def masked(body: bytes) -> bytes:
    """Without ids, which are random, and without what was reused of the prompt."""
    body = re.sub(rb"(msg|toolu)_\w+", b"ID", body)
    return re.sub(
        rb'"input_tokens":\d+,"cache_creation_input_tokens":0,"cache_read_input_tokens":\d+', b"IN", body
    )
