"""All that the rest of the node needs of a checkpoint's way to talk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.chat.conversation import Conversation
from node.chat.machine import OutputMachine
from node.chat.prompt import Prompt, PromptWriter
from node.chat.template import Template
from node.chat.tokenizer import Tokenizer


class Chat:
    """A checkpoint's template and tokenizer, joined."""

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        self.template = template
        self.tokenizer = tokenizer
        self._writer = PromptWriter(template, tokenizer)

    @classmethod
    def read(cls, folder: Path) -> Chat:
        """Of a checkpoint's folder. Raises CheckpointError where it can not be served."""
        return cls(Template.read(folder), Tokenizer.read(folder))

    def prompt(self, conversation: Conversation) -> Prompt:
        """The prompt of a conversation. Raises TemplateError where the template refuses it."""
        return self._writer.write(conversation)

    def machine(self, stop_sequences: Sequence[str] = ()) -> OutputMachine:
        """A new output machine, for one answer."""
        return OutputMachine(self.tokenizer, stop_sequences)
