"""All that the rest of the node needs of a checkpoint's way to talk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.chat.call_form import CallForm
from node.chat.constraint import OutputConstraint
from node.chat.constraint_maker import ConstraintMaker
from node.chat.conversation import Conversation, ToolSpec
from node.chat.guarantee import Guarantee
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
        self._constraints = ConstraintMaker(tokenizer, xml=CallForm.of(template.source) is CallForm.XML)

    @classmethod
    def read(cls, folder: Path) -> Chat:
        """Of a checkpoint's folder. Raises CheckpointError where it can not be served."""
        return cls(Template.read(folder), Tokenizer.read(folder))

    def prompt(self, conversation: Conversation) -> Prompt:
        """The prompt of a conversation. Raises TemplateError where the template refuses it."""
        return self._writer.write(conversation)

    def written(self, text: str) -> list[int]:
        """The ids that a model would have sampled to write `text`, control tokens in it being real."""
        return self._writer.written(text)

    def machine(
        self,
        prompt: Prompt,
        tools: Sequence[ToolSpec] = (),
        stop_sequences: Sequence[str] = (),
        parallel: bool = True,
    ) -> OutputMachine:
        """A new output machine, for the answer to one prompt."""
        return OutputMachine(
            self.tokenizer,
            form=CallForm.of(self.template.source),
            tools=tools,
            stop_sequences=stop_sequences,
            thinking_open=prompt.thinking_open,
            parallel=parallel,
        )

    def warm_constraints(self, width: int) -> None:
        """Make ready for constraints over tables of `width` rows: seconds, that the first one takes else."""
        self._constraints.warm(width)

    def constraint(
        self, guarantee: Guarantee, stop_ids: frozenset[int], width: int
    ) -> OutputConstraint | None:
        """What an answer may hold; None where that is anything. Can take a second: not for the loop's thread.

        `width` is the number of rows of the model's table. Raises SchemaError where it can not be guaranteed.
        """
        return self._constraints.make(guarantee, stop_ids, width)
