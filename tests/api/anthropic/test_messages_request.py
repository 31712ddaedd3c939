"""What a request asks for beside its messages: tools, switches, ranges; and what is ignored or refused."""

from pathlib import Path

import pytest

from node.api.anthropic.fields_page import page
from node.api.anthropic.messages_request import parse
from node.api.errors import ApiError
from tests.api.anthropic.asking import HI, WEATHER, assistant, read, refusal, result, text, use, user


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
    committed = Path(__file__).parents[3] / "docs" / "anthropic-compatibility.md"
    assert committed.read_text() == page()


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


def test_what_is_unknown_anywhere_comes_before_what_is_wrong_anywhere() -> None:
    fields = {"thinking": {"type": "adaptive", "wat": 1}}
    with pytest.raises(ApiError) as caught:
        parse({"model": "m", "max_tokens": 1, "messages": "x", **fields})
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "thinking.wat")


def test_false_is_not_the_zero_that_asks_for_nothing() -> None:
    assert refusal(speed=False)[:2] == ("unsupported_parameter", "speed")


@pytest.mark.parametrize(
    ("asked", "taken"), [(0, 0.0), (1e-45, 0.0), (9e-6, 0.0), (1e-5, 1e-5), (0.7, 0.7), (2, 2.0)]
)
def test_a_temperature_at_which_nothing_else_has_a_chance_is_greedy(asked: float, taken: float) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": [HI], "temperature": asked}
    assert parse(body).generation_request().sampling.temperature == taken


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("min_p", [0, 0.05, 1], [-0.1, 1.1, True, "0"]),
        ("presence_penalty", [-2, 0, 1.5], [2.1, "1"]),
        ("frequency_penalty", [-2, 0, 1.5], [-2.1, [1]]),
        ("repetition_penalty", [0.1, 0.5, 1, 2], [0, 1e-38, 0.09, 2.1, -1]),
    ],
)
def test_extensions_of_sampling_are_taken_within_their_ranges(field: str, good: list, bad: list) -> None:
    for value in good:
        body = {"model": "m", "max_tokens": 1, "messages": [HI], field: value}
        assert value in (
            *parse(body).generation_request().sampling.penalties,
            parse(body).generation_request().sampling.min_p,
        )
    for value in bad:
        assert refusal(**{field: value})[:2] == ("invalid_request", field)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    body = {
        "model": "m",
        "messages": [HI],
        "max_tokens": 2000.0,
        "top_k": 5.0,
        "seed": 7.0,
        "temperature": 1.0,
    }
    thinking = {"type": "enabled", "budget_tokens": 1024.0}
    asked = parse({**body, "thinking": thinking}).generation_request()
    numbers = (asked.max_tokens, asked.sampling.top_k, asked.sampling.seed, asked.constraints.budget)
    assert numbers == (2000, 5, 7, 1024)
    assert {type(number) for number in numbers} == {int}
    assert type(asked.sampling.temperature) is float


@pytest.mark.parametrize("number", [20.5, 1e300, -1e-9, "20.0", True])
def test_what_is_no_whole_number_is_none(number: object) -> None:
    code, param, message = refusal(max_tokens=number)
    assert (code, param) == ("invalid_request", "max_tokens")
    assert message.startswith("max_tokens: Expected `int | null`, got ")


def test_numbers_inside_a_tool_s_input_stay_as_they_were_written() -> None:
    turns = read(
        HI, assistant(use("a", count=2.0)), user(result("a")), tools=[{**WEATHER, "name": "get_weather"}]
    ).turns
    (call,) = turns[1].calls
    assert type(call.arguments["count"]) is float


def test_top_p_0_takes_the_likeliest_token_and_keeps_what_else_was_asked() -> None:
    for zero in (0, 0.0):
        body = {
            "model": "m",
            "max_tokens": 1,
            "messages": [HI],
            "top_p": zero,
            "temperature": 1.5,
            "top_k": 3,
        }
        sampling = parse({**body, "presence_penalty": 0.5}).generation_request().sampling
        assert (sampling.greedy, sampling.top_p, sampling.top_k, sampling.presence) == (True, 1.0, 3, 0.5)
    body = {"model": "m", "max_tokens": 1, "messages": [HI], "top_p": 1e-9}
    assert not parse(body).generation_request().sampling.greedy
