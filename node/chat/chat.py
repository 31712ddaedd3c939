"""All that the rest of the node needs of a checkpoint's way to talk."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from node.chat.constraint_compiler import ConstraintCompiler
from node.chat.constraint_matcher import ConstraintMatcher
from node.chat.conversation import Conversation, ToolSpec
from node.chat.output_constraints import OutputConstraints
from node.chat.output_parser import OutputParser
from node.chat.prompt import Prompt, PromptWriter
from node.chat.template import Template
from node.chat.tokenizer import Tokenizer
from node.chat.tool_call_format import ToolCallFormat


class Chat:
    """A checkpoint's template and tokenizer, joined."""

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        self.template = template
        self.tokenizer = tokenizer
        self._format = ToolCallFormat.of(template.source)
        self._writer = PromptWriter(template, tokenizer)
        self._constraint_compiler = ConstraintCompiler(tokenizer, xml=self._format is ToolCallFormat.XML)

    @classmethod
    def read(cls, folder: Path) -> Chat:
        """Of a checkpoint's folder. Raises CheckpointError where it cannot be served."""
        return cls(Template.read(folder), Tokenizer.read(folder))

    @property
    def calls_tools(self) -> bool:
        """Whether the template shows tools to the model, and the model has a way to call them."""
        return self._format is not None and "<tool_call>" in self.tokenizer.control

    @property
    def thinks(self) -> bool:
        """Whether thinking can be told from the answer."""
        return "</think>" in self.tokenizer.control

    def prompt(self, conversation: Conversation) -> Prompt:
        """The prompt of a conversation. Raises TemplateError where the template refuses it."""
        return self._writer.write(conversation)

    def written(self, text: str) -> list[int]:
        """The ids that a model would have sampled to write `text`, control tokens in it being real."""
        return self._writer.written(text)

    def output_parser(
        self,
        prompt: Prompt,
        tools: Collection[ToolSpec] = (),
        stop_sequences: Collection[str] = (),
        parallel: bool = True,
    ) -> OutputParser:
        """A new output parser, for the answer to one prompt."""
        return OutputParser(
            self.tokenizer,
            call_format=self._format,
            tools=tools,
            stop_sequences=stop_sequences,
            thinking_open=prompt.thinking_open,
            parallel=parallel,
        )

    def warm_constraints(self, width: int) -> None:
        """Make ready for constraints over tables of `width` rows: seconds, that the first one takes else."""
        self._constraint_compiler.warm(width)

    def constraint(
        self, constraints: OutputConstraints, stop_ids: frozenset[int], width: int
    ) -> ConstraintMatcher | None:
        """What an answer may hold; None where that is anything. Can take a second: not for the loop's thread.

        `width` is the number of rows of the model's table. Raises SchemaError where it cannot be kept.
        """
        return self._constraint_compiler.make(constraints, stop_ids, width)
