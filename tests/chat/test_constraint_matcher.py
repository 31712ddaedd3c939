"""Whatever a model samples, the answer keeps to what was promised."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from node.chat.chat import Chat
from node.chat.output_constraints import CallableTool, Calls, OutputConstraints, ThinkingMode
from tests.chat.constrained import (
    CALL,
    RandomModel,
    allowed,
    faults,
    random_schema,
    stop_ids,
    written,
    xml_call,
)

DEMO = Path(__file__).parents[2] / "weights" / "demo"
WIDTH = 2048 + 40  # wider than the vocabulary, and no multiple of 32
TINY_WIDTH = 480
TEXT = {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}
NONE = {"type": "object", "properties": {}}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "name": {"type": "string", "maxLength": 9}},
    "required": ["x", "name"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def demo() -> Chat:
    return Chat.read(DEMO)


def forced(*tools: CallableTool, **more: Any) -> OutputConstraints:
    return OutputConstraints(Calls.FORCED, tools, **more)


def test_random_strict_calls_are_valid_in_xml(demo: Chat) -> None:
    for seed in range(60):
        schema = random_schema(random.Random(seed))
        text = RandomModel(demo, seed).answer(
            forced(CallableTool("f", schema, strict=True), parallel=False), WIDTH
        )
        name, arguments = xml_call(CALL.fullmatch(text)[1], {"f": schema})  # type: ignore[index]
        assert name == "f"
        assert faults(arguments, schema, schema) == [], (seed, text)


def test_random_strict_calls_are_valid_in_json(tiny: Chat) -> None:
    for seed in range(60):
        schema = random_schema(random.Random(seed))
        text = RandomModel(tiny, seed).answer(
            forced(CallableTool("f", schema, strict=True), parallel=False), TINY_WIDTH
        )
        call = json.loads(CALL.fullmatch(text)[1])  # type: ignore[index]
        assert list(call) == ["name", "arguments"]
        assert faults(call["arguments"], schema, schema) == [], (seed, text)


def test_random_outputs_are_valid(demo: Chat) -> None:
    for seed in range(60):
        schema = random_schema(random.Random(seed))
        text = RandomModel(demo, seed).answer(OutputConstraints(output=schema), WIDTH)
        assert faults(json.loads(text), schema, schema) == [], (seed, text)


@pytest.mark.parametrize("thinking", list(ThinkingMode))
def test_b66_b69_forced_choice_calls_that_tool(demo: Chat, thinking: ThinkingMode) -> None:
    for seed in range(8):
        constraints = forced(CallableTool("get_time", NONE), thinking=thinking, budget=20)
        text = RandomModel(demo, seed).answer(constraints, WIDTH)
        answer = text.rpartition("</think>\n\n")[2]
        assert answer.startswith("<tool_call>\n<function=get_time>\n</function>\n</tool_call>")


def test_b68_forced_calls_end_though_the_model_likes_white_space(tiny: Chat, demo: Chat) -> None:
    nested = {"type": "object", "properties": {"at": POINT}, "required": ["at"]}
    for chat, width in ((tiny, TINY_WIDTH), (demo, WIDTH)):
        for seed in range(5):
            model = RandomModel(chat, seed, eagerness=1, likes=[" ", "\n", "  ", "\t", "0", "<|im_end|>"])
            model.answer(forced(CallableTool("f", nested), parallel=False), width, limit=200)


def test_one_call_where_calls_are_not_parallel(demo: Chat) -> None:
    tool = CallableTool("now", NONE)
    several = [RandomModel(demo, s, 0).answer(forced(tool), WIDTH).count("<tool_call>") for s in range(5)]
    single = [
        RandomModel(demo, s, 0).answer(forced(tool, parallel=False), WIDTH).count("<tool_call>")
        for s in range(5)
    ]
    assert max(several) > 1
    assert set(single) == {1}


def test_free_calls_that_are_not_parallel_end_with_the_first(demo: Chat) -> None:
    constraint = demo.constraint(
        OutputConstraints(tools=(CallableTool("f", TEXT),), parallel=False), stop_ids(demo), WIDTH
    )
    assert constraint is not None
    assert constraint.mask(tuple(demo.tokenizer.encode("Sure."))) is None
    mask = constraint.mask((demo.tokenizer.control["<tool_call>"], demo.tokenizer.control["</tool_call>"]))
    assert mask is not None
    assert set(allowed(mask)) == stop_ids(demo)


def test_forbidden_calls_are_never_sampled(demo: Chat) -> None:
    call = demo.tokenizer.control["<tool_call>"]
    constraints = OutputConstraints(Calls.FORBIDDEN, (CallableTool("f", TEXT),), thinking=ThinkingMode.OPEN)
    constraint = demo.constraint(constraints, stop_ids(demo), WIDTH)
    assert constraint is not None
    for ids in ((), (demo.tokenizer.control["</think>"],), (5, 6)):
        mask = constraint.mask(ids)
        assert mask is not None
        assert set(range(demo.tokenizer.vocabulary_size)) - set(allowed(mask)) == {call}


@pytest.mark.parametrize("last", ["a", "\n"])
def test_b31_budget_counts_thinking_exactly_and_then_closes(demo: Chat, last: str) -> None:
    constraint = demo.constraint(
        OutputConstraints(thinking=ThinkingMode.OPEN, budget=5), stop_ids(demo), WIDTH
    )
    assert constraint is not None
    word, final = demo.tokenizer.encode("b")[0], demo.tokenizer.encode(last)[0]
    assert constraint.mask(()) is None
    assert constraint.mask((word,) * 4) is None
    forced_ids, mask = [], constraint.mask((final,))
    while mask is not None:
        (number,) = allowed(mask)
        forced_ids.append(number)
        mask = constraint.mask((number,))
    assert written(demo, forced_ids) == ("" if last == "\n" else "\n") + "</think>\n\n"


def test_budget_that_is_not_spent_forces_nothing(demo: Chat) -> None:
    constraint = demo.constraint(
        OutputConstraints(thinking=ThinkingMode.OPEN, budget=5), stop_ids(demo), WIDTH
    )
    assert constraint is not None
    assert constraint.mask((7, 7, demo.tokenizer.control["</think>"])) is None
    assert constraint.mask((7,) * 20) is None


def test_thinking_may_not_end_the_turn_before_the_output_constraints(demo: Chat) -> None:
    constraint = demo.constraint(
        forced(CallableTool("f", TEXT), thinking=ThinkingMode.OPEN), stop_ids(demo), WIDTH
    )
    assert constraint is not None
    mask = constraint.mask(())
    assert mask is not None
    refused = set(range(demo.tokenizer.vocabulary_size)) - set(allowed(mask))
    assert refused == {*stop_ids(demo), demo.tokenizer.control["<tool_call>"]}


def test_strict_tools_are_free_until_they_call(demo: Chat) -> None:
    tools = (
        CallableTool("point", POINT, strict=True),
        CallableTool("free", TEXT, path="tools.1.input_schema"),
    )
    for seed in range(20):
        constraint = demo.constraint(OutputConstraints(tools=tools), stop_ids(demo), WIDTH)
        assert constraint is not None
        assert constraint.mask(tuple(demo.tokenizer.encode("Sure.\n\n"))) is None
        constraint.mask((demo.tokenizer.control["<tool_call>"],))
        text = written(demo, RandomModel(demo, seed).ids(constraint, WIDTH, 120))
        if "</tool_call>" in text:
            name, arguments = xml_call(
                text.partition("\n</tool_call>")[0].removeprefix("\n"), {"point": POINT, "free": TEXT}
            )
            assert name in ("point", "free")
            assert name == "free" or faults(arguments, POINT, POINT) == []


def test_output_schema_with_free_tools_gives_a_call_or_the_output(demo: Chat) -> None:
    seen = set()
    for seed in range(30):
        constraints = OutputConstraints(
            tools=(CallableTool("now", NONE),), output=POINT, thinking=ThinkingMode.OPEN, budget=3
        )
        text = RandomModel(demo, seed, 0.5).answer(constraints, WIDTH)
        answer = text.partition("</think>\n\n")[2]
        seen.add(answer[:1])
        if answer.startswith("{"):
            assert faults(json.loads(answer), POINT, POINT) == []
        else:
            assert answer.startswith("<tool_call>\n<function=now>")
    assert "{" in seen


def test_control_tokens_never_stand_for_text(demo: Chat) -> None:
    """<tool_call> is no special token of the published files, and reads like text."""
    constraint = demo.constraint(forced(CallableTool("f", TEXT)), stop_ids(demo), WIDTH)
    assert constraint is not None
    constraint.mask((demo.tokenizer.control["<tool_call>"],))
    mask = constraint.mask(tuple(demo.tokenizer.encode("\n<function=f>\n<parameter=t>\nvalue")))
    assert mask is not None
    assert not set(demo.tokenizer.control.values()) & set(allowed(mask))
    assert len(allowed(mask)) > 1000


def test_any_text_but_the_closing_is_a_string(demo: Chat) -> None:
    value = "def f():\n\treturn '</parameter>' # <function=g>\n</parameter>\n\n\"é中\\"
    constraint = demo.constraint(forced(CallableTool("f", TEXT), parallel=False), stop_ids(demo), WIDTH)
    assert constraint is not None
    said = [demo.tokenizer.control["<tool_call>"]]
    body = f"\n<function=f>\n<parameter=t>\n{value.replace('</parameter>' + chr(10), '')}\n</parameter>\n</function>\n"
    said += [*demo.tokenizer.encode(body), demo.tokenizer.control["</tool_call>"], min(stop_ids(demo))]
    for number in said:
        mask = constraint.mask(())
        assert mask is not None
        assert number in allowed(mask), demo.tokenizer.token_bytes(number)
        constraint.mask((number,))


def test_nothing_asked_is_no_constraint(demo: Chat) -> None:
    awkward = {"type": "object", "properties": {"p": {"type": "string", "pattern": "^(?!x).*$"}}}
    assert (
        demo.constraint(OutputConstraints(tools=(CallableTool("f", awkward),)), stop_ids(demo), WIDTH) is None
    )
    assert (
        demo.constraint(OutputConstraints(thinking=ThinkingMode.CLOSED, budget=9), stop_ids(demo), WIDTH)
        is None
    )


def test_qwen35_forced_call_after_thinking(qwen35: Chat) -> None:
    width = 248320
    constraints = forced(
        CallableTool("point", POINT, strict=True), thinking=ThinkingMode.OPEN, budget=4, parallel=False
    )
    text = RandomModel(qwen35, 3).answer(constraints, width)
    call = text.partition("</think>\n\n")[2]
    name, arguments = xml_call(CALL.fullmatch(call)[1], {"point": POINT})  # type: ignore[index]
    assert name == "point"
    assert faults(arguments, POINT, POINT) == []
