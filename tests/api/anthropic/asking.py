"""Bodies of Messages requests, and what they are read as."""

from typing import Any

import pytest

from node.api.anthropic.messages_request import parse
from node.api.errors import ApiError
from node.chat.conversation import Conversation

HI = {"role": "user", "content": "hi"}
WEATHER = {
    "name": "get_weather",
    "description": "Current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def use(identity: str, name: str = "get_weather", **arguments: Any) -> dict:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def result(identity: str, content: Any = "50F", **more: Any) -> dict:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


def text(words: str, **more: Any) -> dict:
    return {"type": "text", "text": words, **more}


def read(*messages: Any, **fields: Any) -> Conversation:
    body = {"model": "m", "max_tokens": 4096, "messages": list(messages), **fields}
    return parse(body).generation_request().conversation


def refusal(*messages: Any, **fields: Any) -> tuple[str, str | None, str]:
    with pytest.raises(ApiError) as caught:
        read(*(messages or (HI,)), **fields)
    return caught.value.code, caught.value.param, caught.value.message


def user(*parts: Any) -> dict:
    return {"role": "user", "content": list(parts)}


def assistant(*parts: Any) -> dict:
    return {"role": "assistant", "content": list(parts)}
