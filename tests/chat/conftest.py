"""A tiny tokenizer and template of our own, and the published ones where the reference data is at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from node.chat.chat import Chat

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
NOT_SPECIAL = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+"
)
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "user\nassistant\nsystem\n",
    "Ünïcödé — 你好，世界",
] * 20

TEMPLATE = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {%- for key, field in tool.function.parameters.items() %}
            {{- '\\n<' ~ key ~ '>' ~ field ~ '</' ~ key ~ '>' }}
        {%- endfor %}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content is string %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {%- if message.role == 'tool' %}
        {{- '<tool_response>' + message.content + '</tool_response>' }}
    {%- elif message.content.startswith('<tool_response>') %}
        {{- raise_exception('fooled by ' ~ message.content) }}
    {%- else %}
        {{- message.content | trim }}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' ~ call.function.name ~ (call.function.arguments | tojson) ~ '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is false %}
        {{- '\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The reference data, which is not part of the repository."""
    folder = Path(os.environ.get("B3OS_SHARED") or Path(__file__).parents[2] / "../shared").resolve()
    if not (folder / "qwen").is_dir():
        pytest.skip(f"no reference data at {folder}: set B3OS_SHARED")
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint's folder with a byte-level BPE of 400 words, Qwen's added tokens and TEMPLATE."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in NOT_SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Chat:
    return Chat.read(tiny_folder)


@pytest.fixture(scope="session")
def reference(tiny_folder: Path) -> tokenizers.Tokenizer:
    """The tiny tokenizer as `tokenizers` reads it, added tokens and all."""
    return tokenizers.Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def qwen_folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, str], Path]:
    """Lays out a published tokenizer and a published template as a checkpoint's folder."""

    def lay(tokenizer: str, config: str, template: str) -> Path:
        folder = tmp_path_factory.mktemp(tokenizer)
        qwen = shared / "qwen"
        (folder / "tokenizer.json").symlink_to(qwen / "tokenizers" / tokenizer / "tokenizer.json")
        (folder / "tokenizer_config.json").symlink_to(qwen / "tokenizers" / tokenizer / config)
        (folder / "chat_template.jinja").symlink_to(qwen / "templates" / template)
        return folder

    return lay


@pytest.fixture(scope="session")
def qwen25(qwen_folder: Callable[[str, str, str], Path]) -> Chat:
    return Chat.read(qwen_folder("qwen2.5", "tokenizer_config.json", "qwen2.5.jinja"))


@pytest.fixture(scope="session")
def qwen35(qwen_folder: Callable[[str, str, str], Path]) -> Chat:
    return Chat.read(qwen_folder("qwen3.5", "tokenizer_config.think.json", "qwen3.5-think.jinja"))
