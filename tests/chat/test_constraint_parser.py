"""What is sampled under a constraint means the same to the output parser, which reads it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from node.chat.chat import Chat
from node.chat.conversation import ToolSpec
from node.chat.events import CallArguments, CallEnd, CallStart, TextDelta, ThinkingDelta
from node.chat.output_constraints import CallableTool, Calls, OutputConstraints, ThinkingMode
from node.chat.prompt import Prompt
from tests.chat.constrained import ENDINGS, RandomModel, faults, random_schema, stop_ids

DEMO = Path(__file__).parents[2] / "weights" / "demo"
TAGS = ("</parameter>\n", "<parameter=", "</function>", "\n\n", "q")


@pytest.fixture(scope="module")
def demo() -> Chat:
    return Chat.read(DEMO)


@pytest.mark.parametrize("form", ["xml", "json"])
def test_calls_are_read_as_they_were_meant(demo: Chat, tiny: Chat, form: str) -> None:
    chat, width = (demo, 2048) if form == "xml" else (tiny, 480)
    for seed in range(120):
        schema = random_schema(random.Random(seed))
        constraints = OutputConstraints(
            Calls.FORCED, (CallableTool("f", schema, strict=True),), thinking=ThinkingMode.OPEN, budget=3
        )
        constraint = chat.constraint(constraints, stop_ids(chat), width)
        assert constraint is not None
        ids = RandomModel(chat, seed, likes=(*ENDINGS, *TAGS)).ids(constraint, width, 2000)
        assert ids[-1] in stop_ids(chat)
        parser = chat.output_parser(
            Prompt("", (), thinking_open=True, turn_ends=()), (ToolSpec("f", "", schema),)
        )
        events = [*parser.push(ids[:-1]), *parser.end(cut=False)]
        assert not [event for event in events if isinstance(event, TextDelta)]
        arguments: list[str] = []
        for event in events:
            if isinstance(event, CallStart):
                assert event.name == "f"
                arguments.append("")
            elif isinstance(event, CallArguments):
                arguments[-1] += event.json
        assert len(arguments) == sum(isinstance(event, CallEnd) for event in events) > 0
        for text in arguments:
            assert faults(json.loads(text), schema, schema) == [], (seed, text)


def test_b31_nothing_of_the_forced_end_of_thinking_is_read(demo: Chat) -> None:
    constraints = OutputConstraints(thinking=ThinkingMode.OPEN, budget=4)
    constraint = demo.constraint(constraints, stop_ids(demo), 2048)
    assert constraint is not None
    thought = demo.tokenizer.encode("one two three four five six")[:4]
    ids = list(thought)
    mask = constraint.mask(tuple(ids))
    while mask is not None:
        ids.append(int(mask.nonzero()[0][0]) * 32 + int(mask[mask.nonzero()[0][0]]).bit_length() - 1)
        mask = constraint.mask((ids[-1],))
    ids += demo.tokenizer.encode("Answer.")
    parser = demo.output_parser(Prompt("", (), thinking_open=True, turn_ends=()))
    events = [*parser.push(ids), *parser.end(cut=False)]
    thinking = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
    assert thinking == b"".join(map(demo.tokenizer.token_bytes, thought)).decode()
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Answer."
