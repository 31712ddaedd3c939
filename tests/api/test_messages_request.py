"""What the model reads of a request: turns, tools, switches; and what is refused about them."""

from pathlib import Path
from typing import Any

import pytest

from node.api.errors import ApiError
from node.api.fields_page import page
from node.api.messages_request import parse
from node.chat.conversation import Call, Conversation, ToolSpec, Turn

HI = {"role": "user", "content": "hi"}
UNEXPECTED = (
    "unexpected `tool_use_id` found in `tool_result` blocks: zzz. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
WITHOUT = "`tool_use` ids were found without `tool_result` blocks"
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
    return parse(body).wish().conversation


def refusal(*messages: Any, **fields: Any) -> tuple[str, str | None, str]:
    with pytest.raises(ApiError) as caught:
        read(*(messages or (HI,)), **fields)
    return caught.value.code, caught.value.param, caught.value.message


def user(*parts: Any) -> dict:
    return {"role": "user", "content": list(parts)}


def assistant(*parts: Any) -> dict:
    return {"role": "assistant", "content": list(parts)}


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
        ([user(use("a"))], "messages.0.content.0.type", "tool_use can not come here"),
        ([HI, assistant(result("a"))], "messages.1.content.0.type", "tool_result can not come here"),
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


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"tools": "x"}, "invalid_request", "tools"),
        ({"tools": [{}]}, "invalid_request", "tools.0.name"),
        ({"tools": [{"name": "f"}]}, "invalid_request", "tools.0.input_schema"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "invalid_request", "tools.0.name"),
        ({"tools": [WEATHER, WEATHER]}, "invalid_request", "tools.1.name"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "unsupported_parameter",
            "tools.0.type",
        ),
        ({"tools": [{**WEATHER, "wat": 1}]}, "unsupported_parameter", "tools.0.wat"),
        (
            {"tools": [{**WEATHER, "allowed_callers": ["code"]}]},
            "unsupported_parameter",
            "tools.0.allowed_callers",
        ),
        ({"tool_choice": {"type": "any"}}, "invalid_request", "tool_choice"),
        ({"tool_choice": {"type": "wat"}}, "invalid_request", "tool_choice.type"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}},
            "invalid_request",
            "tool_choice.name",
        ),
        ({"thinking": {"type": "enabled"}}, "invalid_request", "thinking.budget_tokens"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1023}},
            "invalid_request",
            "thinking.budget_tokens",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 4096}},
            "invalid_request",
            "thinking.budget_tokens",
        ),
        ({"thinking": {"type": "between_tools"}}, "invalid_request", "thinking.type"),
        ({"thinking": {"budget_tokens": 2000}}, "invalid_request", "thinking.type"),
        (
            {"output_config": {"format": {"type": "json_object"}}},
            "invalid_request",
            "output_config.format.type",
        ),
        (
            {"output_config": {"format": {"type": "json_schema"}}},
            "invalid_request",
            "output_config.format.schema",
        ),
        (
            {
                "output_config": {"format": {"type": "json_schema", "schema": {}}},
                "output_format": {"type": "json_schema", "schema": {}},
            },
            "invalid_request",
            "output_format",
        ),
    ],
)
def test_wrong_tools_choices_thinking_and_formats_are_named(fields: dict, code: str, param: str) -> None:
    assert refusal(**fields)[:2] == (code, param)


def test_b30_the_budget_printed_in_the_documents_is_refused_as_printed() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert refusal(max_tokens=1024, thinking=thinking) == (
        "invalid_request",
        "thinking.budget_tokens",
        "must be less than max_tokens",
    )
    body = {"model": "m", "messages": [HI], "thinking": thinking}
    assert (
        parse(body, counting=True).thinking.budget_tokens == 1024
    )  # counting has no max_tokens to hold it against


def test_b29_thinking_is_off_unless_asked_for() -> None:
    assert not read(HI).thinking
    assert not read(HI, thinking={"type": "disabled"}).thinking
    assert read(HI, thinking={"type": "adaptive"}).thinking
    assert read(HI, thinking={"type": "enabled", "budget_tokens": 2048}).thinking


def test_b28_ignored_fields_are_not_looked_into() -> None:
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [user(text("hi", cache_control=7))],
        "context_management": edits,
        "metadata": [None],
        "tools": [{**WEATHER, "defer_loading": True, "input_examples": 3}],
        "mcp_servers": [],
        "speed": "standard",
        "diagnostics": None,
    }
    assert parse(body).ignored == [
        "context_management",
        "metadata",
        "mcp_servers",
        "speed",
        "messages.content.cache_control",
        "tools.defer_loading",
        "tools.input_examples",
    ]


def test_the_page_of_fields_is_current() -> None:
    committed = Path(__file__).parent.parent.parent / "docs" / "anthropic-compatibility.md"
    assert committed.read_text() == page()


@pytest.mark.parametrize("kind", [[], {}, 7, True, None, "", ["text"]])
def test_b18_a_kind_that_is_no_text_is_the_clients_mistake(kind: Any) -> None:
    for messages in ([user({"type": kind})], [HI, assistant(use("a")), user(result("a", [{"type": kind}]))]):
        code, param, _ = refusal(*messages)
        assert code == "invalid_request"
        assert param is not None
        assert param.endswith(".0.type")


def test_ignored_fields_are_named_once_and_without_numbers() -> None:
    mark = {"type": "ephemeral"}
    source = {"type": "text", "media_type": "text/plain", "data": "D"}
    nested = {"type": "content", "content": [text("x", cache_control=mark)]}
    documents = [{"type": "document", "source": source}, {"type": "document", "source": nested}] * 200
    found = {"type": "search_result", "title": "T", "source": "S", "content": [text("F", citations=[])]}
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [user(*documents, found)],
        "thinking": {"type": "adaptive", "budget_tokens": 2000},
        "tools": [WEATHER],
        "tool_choice": {"type": "auto", "name": "get_weather"},
    }
    assert parse(body).ignored == [
        "messages.content.source.media_type",
        "messages.content.source.content.cache_control",
        "messages.content.content.citations",
        "tool_choice.name",
        "thinking.budget_tokens",
    ]


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


def test_an_answer_in_a_format_can_not_begin_with_a_prefill() -> None:
    output = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    last = {"role": "assistant", "content": '{"name":'}
    assert refusal(HI, last, output_config=output)[:2] == ("invalid_request", "messages")


def test_what_is_unknown_anywhere_comes_before_what_is_wrong_anywhere() -> None:
    fields = {"thinking": {"type": "adaptive", "wat": 1}}
    with pytest.raises(ApiError) as caught:
        parse({"model": "m", "max_tokens": 1, "messages": "x", **fields})
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "thinking.wat")


def test_white_space_alone_is_no_message_and_no_instruction() -> None:
    assert refusal(user(text(" \n")))[1] == "messages.0.content"
    assert read(HI, system=" ").turns == (Turn("user", "hi"),)


def test_false_is_not_the_zero_that_asks_for_nothing() -> None:
    assert refusal(speed=False)[:2] == ("unsupported_parameter", "speed")


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("min_p", [0, 0.05, 1], [-0.1, 1.1, True, "0"]),
        ("presence_penalty", [-2, 0, 1.5], [2.1, "1"]),
        ("frequency_penalty", [-2, 0, 1.5], [-2.1, [1]]),
        ("repetition_penalty", [0.5, 1, 2], [0, 2.1]),
    ],
)
def test_extensions_of_sampling_are_taken_within_their_ranges(field: str, good: list, bad: list) -> None:
    for value in good:
        body = {"model": "m", "max_tokens": 1, "messages": [HI], field: value}
        assert value in (*parse(body).wish().sampling.penalties, parse(body).wish().sampling.min_p)
    for value in bad:
        assert refusal(**{field: value})[:2] == ("invalid_request", field)
