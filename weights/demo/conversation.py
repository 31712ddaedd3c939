"""A made conversation and its rendering, piece by piece with the weight that each piece has in the loss.

The rendering is what chat_template.jinja makes of the same messages (a test holds them equal); it is written
out here because training has to know which tokens are whose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

ANSWER, HISTORY, PROMPT = 1.0, 0.3, 0.05
GIVEN = 0.0  # the prompt supplies it, the model never writes it
# For the tokens that open an answer: a call or "Sorry" is one token among fifty, yet all hangs on it.
DECISION = 6.0

# role, content, and for assistants reasoning_content and tool_calls, as the template reads them
Message = dict


@dataclass(frozen=True, slots=True)
class Conversation:
    """`messages` end with the answer that is wanted. `kind` names the skill, for the evaluation.

    Assistants' messages always have their reasoning; where `thinking` is off it is not rendered.
    """

    kind: str
    messages: tuple[Message, ...]
    tools: tuple[dict, ...] = ()
    thinking: bool = False

    @property
    def prompt(self) -> Conversation:
        return replace(self, messages=self.messages[:-1])

    @property
    def answer(self) -> Message:
        return self.messages[-1]

    @property
    def as_sent(self) -> list[Message]:
        """The messages as a template gets them."""
        return [
            message
            if self.thinking or "reasoning_content" not in message
            else message | {"reasoning_content": ""}
            for message in self.messages
        ]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def assistant(
    text: str, why: str = "", calls: tuple[tuple[str, dict], ...] = (), verdict: str = ""
) -> Message:
    """`verdict` is the end of the thought, where it decides."""
    thought = f"{why} {verdict}" if verdict else why
    message = {"role": "assistant", "content": text, "reasoning_content": thought, "verdict": verdict}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
    return message


def result(text: str) -> Message:
    return {"role": "tool", "content": text}


def tool_text(tool: dict) -> str:
    """One line for the tool, one for each parameter."""
    tool = tool.get("function", tool)
    lines = [tool["name"] + (f": {tool['description'].strip()}" if tool.get("description") else "")]
    schema = tool.get("parameters") or {}
    for name, spec in (schema.get("properties") or {}).items():
        notes = [spec.get("type", "any")]
        if spec.get("enum"):
            notes.append("one of " + ", ".join(spec["enum"]))
        if name not in (schema.get("required") or []):
            notes.append("optional")
        about = f": {spec['description'].strip()}" if spec.get("description") else ""
        lines.append(f"- {name} ({', '.join(notes)}){about}")
    return "\n".join(lines)


def call_text(name: str, arguments: dict) -> str:
    def written(value) -> str:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)

    inner = "".join(
        f"<parameter={key}>\n{written(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def answer_text(message: Message) -> str:
    """The content and calls of an assistant's turn, without thinking and without the end of the turn."""
    calls = [entry["function"] for entry in message.get("tool_calls", ())]
    written = "\n".join(call_text(call["name"], call["arguments"]) for call in calls)
    return "\n\n".join(part for part in (message["content"].strip(), written) if part)


def pieces(talk: Conversation, ask: bool = False) -> list[tuple[str, float]]:
    """The rendered text with the loss weight of each piece; `ask` adds the prompt for one more answer."""
    messages = talk.messages
    out: list[tuple[str, float]] = []
    rule = messages[0]["content"].strip() if messages[0]["role"] == "system" else ""
    if talk.tools:
        listed = "# Tools\n\n" + "\n".join(tool_text(tool) for tool in talk.tools)
        out.append((f"<|im_start|>system\n{listed}{rule and chr(10) * 2 + rule}<|im_end|>\n", PROMPT))
    elif messages[0]["role"] == "system":
        out.append((f"<|im_start|>system\n{rule}<|im_end|>\n", PROMPT))
    query = max(n for n, message in enumerate(messages) if message["role"] == "user")
    for n, message in enumerate(messages):
        role = message["role"]
        if role == "user":
            out.append((f"<|im_start|>user\n{message['content'].strip()}<|im_end|>\n", PROMPT))
        elif role == "tool":
            opening = "" if messages[n - 1]["role"] == "tool" else "<|im_start|>user"
            closing = "" if n + 1 < len(messages) and messages[n + 1]["role"] == "tool" else "<|im_end|>\n"
            response = f"\n<tool_response>\n{message['content'].strip()}\n</tool_response>"
            out.append((opening + response + closing, PROMPT))
        elif role == "assistant":
            out += assistant_pieces(talk, message, current=n > query)
    if ask:
        out.append(("<|im_start|>assistant\n<think>\n" + ("" if talk.thinking else "\n</think>\n\n"), GIVEN))
    return out


def assistant_pieces(talk: Conversation, message: Message, current: bool) -> list[tuple[str, float]]:
    """A turn after the last question carries its thinking, an earlier one has lost it."""
    text = answer_text(message)
    if not current:
        return [("<|im_start|>assistant\n", GIVEN), (f"{text}<|im_end|>", HISTORY), ("\n", GIVEN)]
    answer = [(f"{text}<|im_end|>", DECISION), ("\n", GIVEN)]
    if not talk.thinking:
        return [("<|im_start|>assistant\n<think>\n\n</think>\n\n", GIVEN), *answer]
    thought = message["reasoning_content"].strip()
    before = thought.removesuffix(message["verdict"]).rstrip()
    after = thought.removeprefix(before)
    return [
        ("<|im_start|>assistant\n<think>\n", GIVEN),
        (before, ANSWER),
        (f"{after}\n</think>\n\n", DECISION if after else ANSWER),
        *answer,
    ]


def text(talk: Conversation, ask: bool = False) -> str:
    return "".join(piece for piece, _ in pieces(talk, ask))
