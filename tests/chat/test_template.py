from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from node.chat.template import Template, TemplateError
from node.checkpoint import CheckpointError

PUBLISHED = [
    "qwen2.5",
    "qwen3-coder",
    "qwen3-instruct-2507",
    "qwen3-original-2025-04",
    "qwen3",
    "qwen3.5-nothink",
    "qwen3.5-think",
    "qwen3.6",
    "qwen3.8",
]


def render(source: str, **variables: object) -> str:
    return Template(source).render([], **variables)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_template_renders_byte_for_byte_or_refuses(shared: Path, name: str) -> None:
    folder = shared / "qwen" / "templates"
    expected = json.loads((folder / "expected.json").read_text())
    template = Template((folder / f"{name}.jinja").read_text())
    assert len(expected["cases"]) == 16
    for title, case in expected["cases"].items():
        outcome = expected["rendered"][name][title]
        if isinstance(outcome, str):
            assert template.render(**case) == outcome, title
        else:
            with pytest.raises(TemplateError) as refusal:
                template.render(**case)
            assert outcome["error"].split(": ", 1)[1] == str(refusal.value), title


def test_every_published_template_is_tried(shared: Path) -> None:
    assert {path.stem for path in (shared / "qwen" / "templates").glob("*.jinja")} == set(PUBLISHED)


def test_tojson_neither_sorts_nor_escapes() -> None:
    value = {"b": "<é & '\">", "a": [1, True, None]}
    assert render("{{ v | tojson }}", v=value) == '{"b": "<é & \'\\">", "a": [1, true, null]}'
    assert render("{{ v | tojson(indent=2) }}", v={"b": 1}) == '{\n  "b": 1\n}'


def test_environment_is_the_one_templates_are_written_for() -> None:
    assert render("{% if true %}\nx\n{% endif %}\n") == "x\n"
    assert render("  {% if true %}x{% endif %}") == "x"
    assert render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", render("{{ strftime_now('%Y-%m-%d') }}"))
    assert render("{{ messages | length }}{{ tools is none }}{{ add_generation_prompt }}") == "0TrueTrue"


def test_refusal_of_a_template_carries_its_message() -> None:
    with pytest.raises(TemplateError, match=r"^No user query found\.$"):
        render("{{ raise_exception('No user query found.') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}{{ messages.__class__.__subclasses__() }}",
        "{{ ''.__class__ }}{{ x.__init__.__globals__['os'].system('true') }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ messages.append(1) }}",
        "{% set _ = {}.update({1: 2}) %}",
        "{{ ('%s' | attr('format'))('x').__class__.__name__ }}",
    ],
)
def test_template_of_a_stranger_reaches_no_internals(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source)


def test_template_cannot_hang_the_node_with_an_enormous_range() -> None:
    with pytest.raises(TemplateError, match=r"[Rr]ange too big"):
        render("{% for i in range(10 ** 12) %}{% endfor %}")


def test_any_error_of_a_template_is_one_kind_of_error() -> None:
    for source in ("{{ 1 / 0 }}", "{{ x.y.z }}", "{{ 1 + 'a' }}", "{{ [1] | items | list }}"):
        with pytest.raises(TemplateError) as error:
            render(source)
        assert str(error.value)


def test_own_file_is_read_before_the_config(tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "of config"}))
    assert Template.read(tmp_path).render([]) == "of config"
    (tmp_path / "chat_template.jinja").write_text("own file")
    assert Template.read(tmp_path).render([]) == "own file"


def test_default_is_taken_of_named_templates(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert Template.read(tmp_path).render([]) == "D"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named[:1]}))
    with pytest.raises(CheckpointError, match="none is named default, but \\['rag'\\]"):
        Template.read(tmp_path)


def test_template_may_write_the_tokens_that_the_config_names(tmp_path: Path) -> None:
    config = {
        "chat_template": "{{ bos_token }}{{ eos_token }}",
        "bos_token": None,
        "eos_token": {"content": "<|e|>"},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert Template.read(tmp_path).render([]) == "<|e|>"


def test_folder_without_a_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no chat template"):
        Template.read(tmp_path)


def test_template_that_does_not_parse_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("fine\n{% if %}")
    with pytest.raises(CheckpointError, match="line 2"):
        Template.read(tmp_path)
