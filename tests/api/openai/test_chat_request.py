"""The conversation of a chat completions request: what the model reads, and what is refused by its path."""

from typing import Any

import pytest

from node.api.errors import ApiError
from node.api.openai.chat_request import read_conversation
from node.chat.conversation import Call, ToolSpec, Turn

USER = {"role": "user", "content": "hi"}


def test_leading_instructions_are_one_turn_and_calls_keep_their_ids() -> None:
    schema = {"type": "object"}
    conversation = read_conversation(
        {
            "messages": [
                {"role": "system", "content": "S"},
                {"role": "developer", "content": [{"type": "text", "text": "D"}]},
                USER,
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "why",
                    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
        }
    )
    assert conversation.turns == (
        Turn("system", "S\nD"),
        Turn("user", "hi"),
        Turn("assistant", "", "why", (Call("c1", "f", {"a": 1}),)),
        Turn("tool", "x", call_id="c1"),
    )
    assert conversation.tools == (ToolSpec("f", "", schema),)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (7, "messages.1: must be an object"),
        ({"role": "wat"}, "messages.1.role: must be system, developer, user, assistant or tool"),
        ({"role": "system", "content": "late"}, "messages.1.role: instructions must come before the conversation"),
        ({"role": "user", "content": 7}, "messages.1.content: must be text or a list of parts"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages.1.content.0.text: must be text"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages.1.content.0: this node takes text only"),
        ({"role": "assistant", "reasoning_content": 7}, "messages.1.reasoning_content: must be text"),
        ({"role": "assistant", "tool_calls": [7]}, "messages.1.tool_calls.0.function: must be an object with a name"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_by_its_path(message: Any, told: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_conversation({"messages": [USER, message]})
    assert (caught.value.message, caught.value.param) == (told, told.partition(":")[0])
