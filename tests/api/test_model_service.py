"""What a request becomes on its way into the engine."""

import anthropic
import pytest

from node.access.keys import hash_key
from node.chat.chat import Chat
from node.engine.generation import Generation
from node.engine.sequence import Sequence
from tests.node_under_test import KEY, MODEL, RunningNode, running_node

WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
CALL = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}
LOOP = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "50F"}]},
]


def ask(node: RunningNode, **more: object) -> anthropic._response.APIResponse[anthropic.types.Message]:
    sdk = anthropic.Anthropic(base_url=node.base_url, api_key=KEY, max_retries=0)
    return sdk.messages.with_raw_response.create(model=MODEL, max_tokens=3, messages=LOOP, **more)


def test_a_sequence_carries_its_organization_and_the_ends_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node("ok") as node:
        submitted: list[Sequence] = []
        plain = node.engine.submit

        def submit(sequence: Sequence) -> Generation:
            submitted.append(sequence)
            return plain(sequence)

        monkeypatch.setattr(node.engine, "submit", submit)
        ask(node, tools=[WEATHER])
        turn = node.chat.tokenizer.control["<|im_start|>"]
        starts = [index for index, number in enumerate(submitted[0].prompt.tolist()) if number == turn]
        assert submitted[0].boundaries == (starts[-3], starts[-1])  # the call and its result lie between
        assert submitted[0].organization == hash_key(KEY)


def test_thinking_is_named_as_ignored_where_the_model_cannot_think(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node("ok") as node:
        thinking = {"type": "adaptive"}
        assert "b3os-ignored" not in ask(node, thinking=thinking, tools=[WEATHER]).headers
        monkeypatch.setattr(Chat, "thinks", property(lambda chat: False))
        assert ask(node, thinking=thinking, tools=[WEATHER]).headers["b3os-ignored"] == "thinking"


def test_tools_are_refused_where_the_template_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node("ok") as node:
        monkeypatch.setattr(Chat, "calls_tools", property(lambda chat: False))
        with pytest.raises(anthropic.BadRequestError) as caught:
            ask(node, tools=[WEATHER])
        assert caught.value.body["b3os"] == {"code": "unsupported_parameter", "param": "tools"}
