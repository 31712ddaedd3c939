"""The demo model through Anthropic's SDK: real generation, no scripts."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.app.test_cli import start
from tests.chat.constrained import faults

WEATHER = {
    "name": "get_weather",
    "description": "Current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {
    "name": "get_time",
    "description": "The time now.",
    "input_schema": {"type": "object", "properties": {}},
}
GREEDY = {"temperature": 0}
SCHEMAS = 50
VALUES: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 8},
    {"type": "string", "pattern": "^[a-c]{1,4}(x|yz)$"},
    {"type": "string", "enum": ["one", 'tw"o', "ü"]},
    {"type": "integer", "minimum": -3, "maximum": 120},
    {"type": "boolean"},
    {"enum": [1, None, True]},
    {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "null"}]},
]


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[anthropic.Anthropic]:
    process, lines = start(tmp_path_factory.mktemp("demo"), "--port", "0")
    base_url, key = (
        next(line.split()[-1] for line in lines if line.startswith(w)) for w in ("base URL", "key")
    )
    yield anthropic.Anthropic(
        base_url=base_url, api_key=key, max_retries=0, _strict_response_validation=True, timeout=60
    )
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0


def ask(sdk: anthropic.Anthropic, question: str, **more: Any) -> anthropic.types.Message:
    request = {"max_tokens": 300, "messages": [{"role": "user", "content": question}], **more}
    with sdk.messages.stream(model="b3os/demo", extra_body=GREEDY, **request) as stream:
        return stream.get_final_message()


def test_it_calls_a_tool_and_tells_what_came_of_it(sdk: anthropic.Anthropic) -> None:
    question = "What is the weather in Eugene, Oregon? Use the tool."
    first = ask(sdk, question, tools=[WEATHER])
    call = first.content[-1]
    assert (first.stop_reason, call.type, call.name) == ("tool_use", "tool_use", "get_weather")
    assert "Eugene" in call.input["city"]
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "52F and raining"}],
        },
    ]
    answer = ask(sdk, question, tools=[WEATHER], messages=messages)
    assert "52F and raining" in answer.content[-1].text
    assert answer.stop_reason == "end_turn"


def test_it_thinks_and_then_answers(sdk: anthropic.Anthropic) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    message = ask(sdk, "Is 391 prime?", thinking=thinking, max_tokens=2048)
    assert [part.type for part in message.content] == ["thinking", "text"]
    assert "17" in message.content[0].thinking
    assert "17" in message.content[1].text
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens


def test_it_obeys_a_forced_choice(sdk: anthropic.Anthropic) -> None:
    choice = {"type": "tool", "name": "get_time"}
    message = ask(sdk, "What is the weather in Paris?", tools=[WEATHER, TIME], tool_choice=choice)
    assert [part.type for part in message.content] == ["tool_use"]
    assert (message.content[0].name, message.content[0].input) == ("get_time", {})
    assert message.stop_reason == "tool_use"


def random_schema(number: int) -> dict[str, Any]:
    dice = random.Random(number)
    names = dice.sample(["a", "b c", "ü", "longer_name"], dice.randint(1, 4))
    properties: dict[str, Any] = {name: dice.choice(VALUES) for name in names}
    if dice.random() < 0.3:
        properties["list"] = {"type": "array", "items": dice.choice(VALUES), "minItems": 1, "maxItems": 3}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def test_fifty_random_schemas_are_kept_to(sdk: anthropic.Anthropic) -> None:
    async def answers() -> list[anthropic.types.Message]:
        async with anthropic.AsyncAnthropic(
            base_url=sdk.base_url, api_key=sdk.api_key, max_retries=0, timeout=120
        ) as client:
            return list(
                await asyncio.gather(
                    *[
                        client.messages.create(
                            model="b3os/demo",
                            max_tokens=400,
                            messages=[{"role": "user", "content": "Answer in JSON only."}],
                            output_config={
                                "format": {"type": "json_schema", "schema": random_schema(number)}
                            },
                            extra_body={"seed": number},
                        )
                        for number in range(SCHEMAS)
                    ]
                )
            )

    for number, message in enumerate(asyncio.run(answers())):
        schema = random_schema(number)
        assert message.stop_reason == "end_turn", schema
        assert faults(json.loads(message.content[0].text), schema, schema) == []


def test_the_demo_says_what_it_is(sdk: anthropic.Anthropic) -> None:
    assert "demo" in ask(sdk, "who are you").content[0].text


def test_the_folder_of_the_demo_stays_small() -> None:
    folder = Path(__file__).parent.parent.parent / "weights" / "demo"
    assert (
        sum(file.stat().st_size for file in folder.rglob("*") if "__pycache__" not in file.parts) < 16 * 10**6
    )
