"""A conversation becomes the ids of a prompt, in which only the template has written control tokens."""

from __future__ import annotations

from dataclasses import dataclass

from node.chat.conversation import Conversation
from node.chat.guard import Guard, clear
from node.chat.template import Template, TemplateError
from node.chat.tokenizer import Tokenizer, well_formed

THINK = "<think>"
TURN = "<|im_start|>"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given.

    text           as the template wrote it; a client's copy of a control token reads the same as a real one
    ids            its tokens, where they do not
    thinking_open  whether the prompt ends inside thinking, so that the answer begins there, without a tag
    turn_ends      token counts, ascending, at which a later prompt of the conversation may part from this one: the
                   end of the last user's turn and, inside a tool loop, that of the last result. Templates write
                   the turns after those anew once the conversation goes on
    """

    text: str
    ids: tuple[int, ...]
    thinking_open: bool
    turn_ends: tuple[int, ...]


class PromptWriter:
    """Writes prompts with a checkpoint's template and tokenizer. Holds no state: any thread may use it."""

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._guard = Guard(tokenizer.control)

    def write(self, conversation: Conversation) -> Prompt:
        """The prompt of a conversation, up to where the assistant goes on. Raises TemplateError."""
        parts = self._guard.split(well_formed(self._render(conversation)))
        ids = self._ids(parts)
        # The last control token decides: thinking closes by one, and a turn ends by one.
        return Prompt("".join(parts), tuple(ids), parts[-2:-1] == [THINK], self._turn_ends(ids, conversation))

    def written(self, text: str) -> list[int]:
        """The ids that a model would have sampled to write `text`, control tokens in it being real."""
        return self._ids(self._guard.split(well_formed(text)))

    def _turn_ends(self, ids: list[int], conversation: Conversation) -> tuple[int, ...]:
        turn = self._tokenizer.control.get(TURN)
        starts = [index for index, number in enumerate(ids) if number == turn]
        later = _turns_after_the_user(conversation)
        if len(starts) <= later:  # a template of another family
            return (len(ids),)
        return tuple(sorted({starts[-1 - later], starts[-1]}))

    def _ids(self, parts: list[str]) -> list[int]:
        """Of text, control token, text, control token, …, text."""
        plain = self._tokenizer.encode_all(parts[::2])
        ids = list(plain[0])
        for text, following in zip(parts[1::2], plain[1:], strict=True):
            ids.append(self._tokenizer.control[text])
            ids += following
        return ids

    def _render(self, conversation: Conversation) -> str:
        try:
            guarded = self._guard.conversation(conversation)
            rendered = self._template.render(
                guarded.messages, guarded.definitions, enable_thinking=conversation.thinking
            )
            return rendered + guarded.prefill
        except RecursionError as error:
            raise TemplateError("a schema or an argument is nested too deeply") from error
        except TemplateError as error:
            raise TemplateError(clear(str(error))) from error


def _turns_after_the_user(conversation: Conversation) -> int:
    """As templates write them: neighbouring results share a turn."""
    roles = [turn.role for turn in conversation.turns]
    after = roles[len(roles) - roles[::-1].index("user") :] if "user" in roles else roles
    return sum(role != "tool" or after[index - 1 : index] != ["tool"] for index, role in enumerate(after))
