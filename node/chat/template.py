"""The checkpoint's own chat template, in a sandbox set up as its authors tested it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from node.checkpoint import CHAT_TEMPLATE, TOKENIZER_CONFIG, CheckpointError, CheckpointFolder


class TemplateError(Exception):
    """The template refuses this conversation: the client's to mend. The message is the template's own."""


class Template:
    """Messages in, the text of a prompt out."""

    def __init__(self, source: str, names: Mapping[str, str] | None = None) -> None:
        """`names` are the texts of bos_token, eos_token and their like, which templates may write."""
        self.source = source
        try:
            self._template = _environment().from_string(source, globals=dict(names or {}))
        except jinja2.TemplateSyntaxError as error:
            raise CheckpointError(f"chat template, line {error.lineno}: {error.message}") from error

    @classmethod
    def read(cls, folder: Path) -> Template:
        """The template of a checkpoint: its own file first, as that is the newer convention."""
        files = CheckpointFolder(folder)
        config = files.read_json(TOKENIZER_CONFIG) or {}
        name, source = CHAT_TEMPLATE, files.read_text(CHAT_TEMPLATE)
        if source is None:
            name = TOKENIZER_CONFIG
            with files.reading(name, "a list of templates"):
                source = _of_config(config.get("chat_template"))
        if source is None:
            missing = f"no chat template, neither {CHAT_TEMPLATE} nor in {TOKENIZER_CONFIG}"
            raise CheckpointError(missing, path=folder)
        with files.reading(name, "a chat template"):
            return cls(source, _token_names(config))

    def render(
        self,
        messages: Collection[Mapping[str, Any]],
        tools: Collection[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **switches: Any,
    ) -> str:
        """The text of the prompt; switches such as enable_thinking go to the template as they are."""
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **switches
            )
        except Exception as error:  # the template is a stranger's program: anything may come out of it
            raise TemplateError(str(error) or type(error).__name__) from error


def _of_config(template: object) -> str | None:
    """tokenizer_config.json holds one template, or a list of named ones."""
    if isinstance(template, str):
        return template
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        if isinstance(default := named.get("default"), str):
            return default
        raise CheckpointError(f"none is named default, but {sorted(named)}", key="chat_template")
    return None


def _token_names(config: Mapping[str, Any]) -> dict[str, str]:
    """The texts of tokens that the config names: plain strings, or objects with a content."""
    names = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            names[key] = text
    return names


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Models were trained on this form; jinja's own filter sorts the keys and escapes <, > and &."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
