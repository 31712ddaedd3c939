from __future__ import annotations

from pathlib import Path

import pytest

from node.chat.chat import Chat
from node.chat.conversation import Conversation, Turn
from node.chat.events import TextDelta
from node.checkpoint import CheckpointError


def test_chat_goes_from_a_folder_to_prompts_and_events(tiny_folder: Path) -> None:
    chat = Chat.read(tiny_folder)
    prompt = chat.prompt(Conversation((Turn("user", "fox"),), thinking=False))
    assert prompt.text == chat.template.render([{"role": "user", "content": "fox"}], enable_thinking=False)
    parser = chat.output_parser(prompt, stop_sequences=["dog"])
    assert parser.push(chat.tokenizer.encode("lazy dog")) == [TextDelta("lazy ")]
    assert parser.matched == "dog"


def test_folder_that_cannot_be_served_says_why(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no chat template"):
        Chat.read(tmp_path)
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: .*utf-8"):
        Chat.read(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("x")
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="not a JSON object"):
        Chat.read(tmp_path)


def test_oracle_checkpoints_are_read(shared: Path) -> None:
    folders = [path.parent for path in (shared / "qwen" / "oracle" / "tiny").glob("*/tokenizer.json")]
    assert folders
    for folder in folders:
        prompt = Chat.read(folder).prompt(Conversation((Turn("user", "Hi"),)))
        assert prompt.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
