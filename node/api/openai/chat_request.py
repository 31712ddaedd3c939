"""OpenAI's chat completions request: its conversation, for rendering; the routes follow."""

from __future__ import annotations

import json
from typing import Any

from node.api.errors import invalid, unsupported
from node.chat.conversation import Call, Conversation, ToolSpec, Turn

INSTRUCTION_ROLES = ("system", "developer")


def read_conversation(body: dict[str, Any]) -> Conversation:
    """The conversation of a request body; raises ApiError naming the field at fault.

    Leading system and developer messages are merged, a newline between them; later ones are refused, because
    moving them would change what the model reads at that turn.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("messages", "at least one message is required")
    instructions: list[str] = []
    turns: list[Turn] = []
    for number, message in enumerate(messages):
        path = f"messages.{number}"
        if not isinstance(message, dict):
            raise invalid(path, "must be an object")
        if message.get("role") in INSTRUCTION_ROLES:
            if turns:
                raise invalid(f"{path}.role", "instructions must come before the conversation")
            instructions.append(_text(message, path))
        else:
            turns.append(_turn(message, path))
    system = [Turn("system", "\n".join(instructions))] if instructions else []
    return Conversation((*system, *turns), _tools(body.get("tools") or []), _thinking(body))


def _turn(message: dict[str, Any], path: str) -> Turn:
    match message.get("role"):
        case "user":
            return Turn("user", _text(message, path))
        case "tool":
            return Turn("tool", _text(message, path), call_id=message.get("tool_call_id"))
        case "assistant":
            reasoning = message.get("reasoning_content")
            if reasoning is not None and not isinstance(reasoning, str):
                raise invalid(f"{path}.reasoning_content", "must be text")
            calls = tuple(
                _call(call, f"{path}.tool_calls.{number}")
                for number, call in enumerate(message.get("tool_calls") or [])
            )
            return Turn("assistant", _text(message, path), reasoning, calls)
        case _:
            raise invalid(f"{path}.role", "must be system, developer, user, assistant or tool")


def _text(message: dict[str, Any], path: str) -> str:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid(f"{path}.content", "must be text or a list of parts")
    texts = []
    for number, part in enumerate(content):
        where = f"{path}.content.{number}"
        if not isinstance(part, dict) or part.get("type") != "text":
            raise unsupported(where, "this node takes text only")
        if not isinstance(part.get("text"), str):
            raise invalid(f"{where}.text", "must be text")
        texts.append(part["text"])
    return "\n".join(texts)


def _call(call: Any, path: str) -> Call:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise invalid(f"{path}.function", "must be an object with a name")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    if not isinstance(arguments, dict):
        where = f"{path}.function.arguments"
        raise invalid(where, "must be the JSON text of an object")
    return Call(str(call.get("id", "")), function["name"], arguments)


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    if not isinstance(tools, list):
        raise invalid("tools", "must be a list")
    specs = []
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            where = f"tools.{number}.function"
            raise invalid(where, "must be an object with a name")
        description, schema = function.get("description") or "", function.get("parameters") or {}
        specs.append(ToolSpec(function["name"], description, schema))
    return tuple(specs)


def _thinking(body: dict[str, Any]) -> bool:
    switches = body.get("chat_template_kwargs") or {}
    asked = switches.get("enable_thinking") if isinstance(switches, dict) else None
    return bool(body.get("enable_thinking") if asked is None else asked)
