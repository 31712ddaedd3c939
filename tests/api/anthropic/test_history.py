"""What the model reads of the messages: turns in order; and what is refused about them."""

from typing import Any

import pytest

from node.chat.conversation import Call, ToolSpec, Turn
from tests.api.anthropic.asking import HI, WEATHER, assistant, read, refusal, result, text, use, user

UNEXPECTED = (
    "unexpected `tool_use_id` found in `tool_result` blocks: zzz. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
WITHOUT = "`tool_use` ids were found without `tool_result` blocks"


def test_parts_are_joined_by_a_newline_and_neighbours_of_one_role_into_one_turn() -> None:
    assert read(
        user(text("a"), text("b")), {"role": "user", "content": "c"}, assistant(text("d")), assistant(), HI
    ).turns == (Turn("user", "a\nb\nc"), Turn("assistant", "d"), Turn("user", "hi"))


def test_system_comes_first_and_its_parts_are_told_apart() -> None:
    assert read(HI, system="Be brief.").turns[0] == Turn("system", "Be brief.")
    assert read(HI, system=[text("Answer in one word."), text("Use French.")]).turns[0] == Turn(
        "system", "Answer in one word.\nUse French."
    )
    assert (
        read(HI, system="").turns
        == read(HI, system=[]).turns
        == read(HI, system=None).turns
        == (Turn("user", "hi"),)
    )


def test_b05_system_parts_are_never_glued() -> None:
    turns = read(
        {"role": "user", "content": "cat"}, system=[text("Answer in one word."), text("Use French.")]
    ).turns
    assert "word.Use" not in turns[0].text


def test_a_tool_turn_becomes_calls_and_results_in_the_order_of_the_calls() -> None:
    conversation = read(
        HI,
        assistant(
            {"type": "thinking", "thinking": "why", "signature": "any"},
            text("Sure."),
            use("a", city="Bend"),
            use("b", "get_time"),
        ),
        user(text("and?"), result("b", "noon"), result("a", [text("50F"), text("wind")], is_error=False)),
        tools=[WEATHER],
    )
    assert conversation.turns == (
        Turn("user", "hi"),
        Turn(
            "assistant",
            "Sure.",
            "why",
            (Call("a", "get_weather", {"city": "Bend"}), Call("b", "get_time", {})),
        ),
        Turn("tool", "50F\nwind", call_id="a"),
        Turn("tool", "noon", call_id="b"),
        Turn("user", "and?"),
    )
    assert conversation.tools == (
        ToolSpec("get_weather", "Current weather for a city.", WEATHER["input_schema"]),
    )


def test_b06_a_last_turn_of_results_alone_has_no_user_turn() -> None:
    turns = read(HI, assistant(use("a", city="Bend")), user(result("a"))).turns
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]


def test_errors_of_tools_are_told_in_the_text() -> None:
    turns = read(HI, assistant(use("a")), user(result("a", "no such city", is_error=True))).turns
    assert turns[-1].text == "Error: no such city"
    absent = {"type": "tool_result", "tool_use_id": "a"}
    assert read(HI, assistant(use("a")), user(absent)).turns[-1].text == ""


def test_b36_thinking_may_stand_anywhere_and_b35_goes_back_as_reasoning() -> None:
    thought = {"type": "thinking", "thinking": "I choose 42.", "signature": ""}
    turns = read(HI, assistant(text("Done."), thought, {"type": "redacted_thinking", "data": "x"}), HI).turns
    assert turns[1] == Turn("assistant", "Done.", "I choose 42.")
    unsigned = {"type": "thinking", "thinking": "t"}
    assert read(HI, assistant(unsigned), HI).turns[1] == Turn("assistant", "", "t")


def test_documents_and_search_results_are_read_as_text() -> None:
    document = {
        "type": "document",
        "title": "T",
        "context": "C",
        "source": {"type": "text", "media_type": "text/plain", "data": "D"},
        "citations": {"enabled": True},
    }
    nested = {"type": "document", "source": {"type": "content", "content": [text("x"), text("y")]}}
    found = {"type": "search_result", "title": "T", "source": "S", "content": [text("F")]}
    assert read(user(document, nested, found)).turns == (Turn("user", "T\nC\nD\nx\ny\nT\nS\nF"),)
    reference = {"type": "tool_reference", "tool_name": "grep"}
    turns = read(HI, assistant(use("a")), user(result("a", [reference, document]))).turns
    assert turns[-1].text == "Tool loaded: grep\nT\nC\nD"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}, "image"),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}},
            "document",
        ),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, "document"),
    ],
)
def test_b72_b88_what_is_not_text_is_refused_by_its_tagged_path(part: dict, param: str) -> None:
    code, told, message = refusal(HI, assistant(text("x")), user(text("a"), part))
    assert (code, told) == ("unsupported_parameter", f"messages.2.content.1.{param}")
    assert message == f"{told}: this node takes text only"
    code, told, message = refusal(HI, assistant(use("a")), user(text("x"), result("a", [part])))
    assert (code, told) == ("unsupported_parameter", f"messages.2.content.1.tool_result.content.0.{param}")
    assert message.startswith(f"{told}: ")


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "container_upload", "compaction", "wat"])
def test_other_kinds_of_parts_are_refused_by_name(kind: str) -> None:
    code, param, message = refusal(HI, assistant({"type": kind}), HI)
    assert (code, param) == ("unsupported_parameter", "messages.1.content.0.type")
    assert kind in message


@pytest.mark.parametrize(
    ("messages", "param", "words"),
    [
        ([user(result("zzz"))], "messages.0.content.0", UNEXPECTED),
        ([HI, assistant(use("a")), user(result("a"), result("a"))], "messages.2.content.1", "unexpected `tool_use_id`"),
        ([HI, assistant(use("a")), HI], "messages.2", f"{WITHOUT} immediately after: a"),
        ([HI, assistant(use("a"), use("b")), user(result("b"))], "messages.2", "immediately after: a."),
        ([HI, assistant(use("a"), use("a")), user(result("a"))], "messages.1", "`tool_use` ids must be unique"),
        ([HI, assistant(use("a"))], "messages.1", WITHOUT),
        ([HI, assistant(use("a"), text("x"))], "messages.1", WITHOUT),
        ([HI, assistant({**use("a"), "input": [1]}), HI], "messages.1.content.0.input", "Expected `object`"),
        ([HI, assistant(use("x" * 257))], "messages.1.content.0.id", "1 to 256"),
        ([user(use("a"))], "messages.0.content.0.type", "tool_use cannot come here"),
        ([HI, assistant(result("a"))], "messages.1.content.0.type", "tool_result cannot come here"),
        ([user(text(""))], "messages.0.content", "text content blocks must be non-empty"),
        ([{"role": "user"}], "messages.0.content", "Field required"),
        ([user({"text": "x"})], "messages.0.content.0.type", "must name a kind"),
        ([user("x")], "messages.0.content.0", "must be an object"),
        ([user(text(7))], "messages.0.content.0.text", "Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_b73_wrong_histories_are_refused_in_the_words_that_clients_look_for(
    messages: list, param: str, words: str
) -> None:
    code, told, message = refusal(*messages)
    assert (code, told) == ("invalid_request", param)
    assert words in message


def test_a_call_without_input_is_a_call_without_arguments() -> None:
    for empty in ("", None):
        part = {"type": "tool_use", "id": "a", "name": "f", "input": empty}
        assert read(HI, assistant(part), user(result("a"))).turns[1].calls == (Call("a", "f", {}),)


def test_the_last_assistant_message_is_gone_on_with() -> None:
    conversation = read(HI, {"role": "assistant", "content": "The answer is"})
    assert (conversation.prefill, conversation.turns) == ("The answer is", (Turn("user", "hi"),))
    assert refusal(HI, {"role": "assistant", "content": "x \n"})[2].endswith(
        "cannot end with trailing whitespace"
    )
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert refusal(HI, {"role": "assistant", "content": "x"}, thinking=thinking)[1] == "messages"


@pytest.mark.parametrize("kind", [[], {}, 7, True, None, "", ["text"]])
def test_b18_a_kind_that_is_no_text_is_the_clients_mistake(kind: Any) -> None:
    for messages in ([user({"type": kind})], [HI, assistant(use("a")), user(result("a", [{"type": kind}]))]):
        code, param, _ = refusal(*messages)
        assert code == "invalid_request"
        assert param is not None
        assert param.endswith(".0.type")


@pytest.mark.parametrize(
    "content",
    [
        "",
        [],
        [{"type": "thinking", "thinking": "t"}],
        [text("x"), {"type": "redacted_thinking", "data": "d"}],
    ],
)
def test_only_text_can_be_gone_on_with(content: Any) -> None:
    assert refusal(HI, {"role": "assistant", "content": content})[:2] == ("invalid_request", "messages")


def test_an_answer_in_a_format_cannot_begin_with_a_prefill() -> None:
    output = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    last = {"role": "assistant", "content": '{"name":'}
    assert refusal(HI, last, output_config=output)[:2] == ("invalid_request", "messages")


def test_white_space_alone_is_no_message_and_no_instruction() -> None:
    assert refusal(user(text(" \n")))[1] == "messages.0.content"
    assert read(HI, system=" ").turns == (Turn("user", "hi"),)
