"""The demo model's template writes what Qwen3.5's own would, and what training reads."""

import json
import os
from itertools import islice
from pathlib import Path

import pytest
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from weights.demo import conversation, export, generate

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("B3OS_SHARED", ROOT.parent / "shared"))
TALKS = list(islice(generate.stream(seed=5), 600))


def compiled(path: Path):
    def raise_exception(message: str):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(path.read_text())


@pytest.fixture(scope="module")
def ours():
    return compiled(export.FOLDER / "chat_template.jinja")


@pytest.fixture(scope="module")
def published():
    path = SHARED / "qwen" / "templates" / "qwen3.5-nothink.jinja"
    if not path.exists():
        pytest.skip(f"the published template is not at hand ({path})")
    return compiled(path)


def test_training_reads_what_the_template_writes(ours):
    for talk in TALKS:
        tools = list(talk.tools) or None
        assert ours.render(messages=talk.as_sent, tools=tools) == conversation.text(talk)
        asked = ours.render(
            messages=talk.prompt.as_sent,
            tools=tools,
            add_generation_prompt=True,
            enable_thinking=talk.thinking,
        )
        assert asked == conversation.text(talk.prompt, ask=True)


def test_turns_calls_and_results_equal_the_published_template(ours, published):
    for talk in TALKS:
        for thinking in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
            settings = {"messages": talk.prompt.as_sent, "add_generation_prompt": True, **thinking}
            assert ours.render(**settings) == published.render(**settings)


EDGES = {
    "parts of text": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ],
    "no content": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None}],
    "reasoning in the content": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nso"},
    ],
    "reasoning of an earlier turn": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "reasoning_content": "why"},
        {"role": "user", "content": "z"},
    ],
    "a result as a user's text": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "reasoning_content": "why"},
        {"role": "user", "content": "<tool_response>\n1\n</tool_response>"},
    ],
    "values of every type": [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": "Now.",
            "tool_calls": [
                {
                    "name": "f",
                    "arguments": {"a": True, "b": None, "c": [1, "é"], "d": {"k": 1}, "e": 1.5, "f": "s\nt"},
                }
            ],
        },
    ],
    "a call without arguments": [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"name": "g"}],
        },
    ],
    "an empty system text": [{"role": "system", "content": ""}, {"role": "user", "content": "x"}],
}


@pytest.mark.parametrize("messages", EDGES.values(), ids=EDGES)
def test_edges_equal_the_published_template(ours, published, messages):
    assert ours.render(messages=messages) == published.render(messages=messages)


REFUSED = {
    "nothing": [],
    "a late system text": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}],
    "no question": [{"role": "system", "content": "y"}],
    "an unknown role": [{"role": "user", "content": "x"}, {"role": "judge", "content": "y"}],
    "a picture": [{"role": "user", "content": [{"type": "image", "image": "y"}]}],
}


@pytest.mark.parametrize("messages", REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_write_raises(ours, messages):
    with pytest.raises(TemplateError):
        ours.render(messages=messages)


def test_any_schema_is_listed(ours):
    parameters = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "description": "First"},
            "b": {"anyOf": [{"type": "string"}]},
            "c": {"enum": ["x", "y"], "type": "string"},
            "d": {},
        },
        "required": ["a"],
    }
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": parameters}},
        {"name": "g", "description": "G."},
    ]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}]
    assert ours.render(messages=messages, tools=tools).startswith(
        "<|im_start|>system\n# Tools\n\nf\n- a (string or null): First\n- b (any, optional)\n"
        "- c (string, one of x, y, optional)\n- d (any, optional)\ng: G.\n\nBe brief.<|im_end|>\n"
    )
