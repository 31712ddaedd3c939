from __future__ import annotations

from node.chat.conversation import Call, Conversation, ToolSpec, Turn


def test_messages_have_the_form_that_templates_expect() -> None:
    conversation = Conversation(
        (
            Turn("system", "Be brief."),
            Turn("user", "Weather?"),
            Turn("assistant", "", reasoning="look", calls=(Call("c1", "weather", {"city": "Oslo"}),)),
            Turn("tool", "rain", call_id="c1"),
        )
    )
    function = {"name": "weather", "arguments": {"city": "Oslo"}}
    assert conversation.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "look",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
    ]


def test_empty_reasoning_is_told_from_none() -> None:
    assert Turn("assistant", "x").message == {"role": "assistant", "content": "x"}
    assert Turn("assistant", "x", reasoning="").message["reasoning_content"] == ""


def test_tools_keep_the_order_of_keys_that_models_were_trained_on() -> None:
    tools = (ToolSpec("f", "Does f.", {"type": "object"}), ToolSpec("g", "", {}))
    definitions = Conversation((), tools).definitions
    assert definitions == [
        {
            "type": "function",
            "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object"}},
        },
        {"type": "function", "function": {"name": "g", "parameters": {}}},
    ]
    assert list(definitions[0]["function"]) == ["name", "description", "parameters"]


def test_no_tools_are_none_rather_than_an_empty_list() -> None:
    assert Conversation(()).definitions is None
