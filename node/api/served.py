"""The one model of this node, as every dialect sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from node.access.keys import Keyring
from node.api.answer import Answer
from node.api.errors import ApiError, invalid, unsupported
from node.api.wish import Wish
from node.chat.chat import Chat
from node.chat.guarantee import Thinking
from node.chat.prompt import Prompt
from node.chat.schema import SchemaError
from node.chat.template import TemplateError
from node.engine.constraint import Constraint
from node.engine.engine import Engine
from node.engine.sequence import Sequence
from node.http.message import Request

LONG_TEXT = 16 * 1024  # characters: about 5 ms of tokenizing, more than the loop should lose at a time
MANY = 8  # tools: their schemas are rendered and tokenized too
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """name      what requests call the model
    context   tokens of prompt and output together
    created   Unix seconds
    width     rows of the model's table of tokens, padding included
    stop_ids  sampling one of these ends the turn
    patience  seconds that the head of a stream waits for the first token
    """

    name: str
    context: int
    created: int
    width: int
    stop_ids: frozenset[int]
    patience: float
    chat: Chat
    engine: Engine
    keyring: Keyring
    workers: ThreadPoolExecutor

    def authenticate(self, request: Request) -> None:
        """Raises CredentialMissing or CredentialUnknown."""
        self.keyring.check(request.headers.get("authorization"), request.headers.get("x-api-key"))

    def require(self, model: str) -> None:
        """Raise ApiError unless `model` is the one that is served. No other name maps to it."""
        if model != self.name:
            message = (
                f"{model[:200]} is not served on this node; GET /v1/infer/models lists the models that are"
            )
            raise ApiError("model_not_available", message, param="model")

    async def prompt(self, wish: Wish) -> Prompt:
        """Render and tokenize; long texts on a worker, so that streams go on meanwhile. Raises ApiError."""
        conversation = wish.conversation
        if conversation.tools and not self.chat.calls_tools:
            raise unsupported("tools", "tools: this model's chat template takes none")
        try:
            if (
                sum(len(turn.text) for turn in conversation.turns) < LONG_TEXT
                and len(conversation.tools) < MANY
            ):
                return self.chat.prompt(conversation)
            return await self._on_worker(self.chat.prompt, conversation)
        except TemplateError as error:
            message = f"the chat template refuses this: {error}"
            raise ApiError("invalid_request", message, param="messages") from error

    async def constraint(self, wish: Wish, prompt: Prompt) -> Constraint | None:
        """What keeps the answer to its guarantee. Raises ApiError where that can not be done."""
        guarantee = replace(wish.guarantee, thinking=self._thinking(wish, prompt))
        if guarantee.empty:
            return None
        try:
            return await self._on_worker(self.chat.constraint, guarantee, self.stop_ids, self.width)
        except SchemaError as error:
            keyword = f"{error.keyword}: " if error.keyword else ""
            raise invalid(error.path, f"{error.path}: {keyword}{error}") from error

    async def answer(self, request_id: str, wish: Wish) -> Answer:
        """Submit what is asked, its output clamped to the room left. Raises ApiError, Overloaded."""
        prompt = await self.prompt(wish)
        length = len(prompt.ids)
        room = self.context - length
        if room < 1:
            message = f"prompt is too long: {length} tokens > {self.context} maximum"
            raise ApiError("context_length_exceeded", message, param="messages")
        sequence = Sequence(
            request_id,
            np.asarray(prompt.ids, dtype=np.int64),
            min(wish.max_tokens, room),
            wish.sampling,
            self.stop_ids,
            await self.constraint(wish, prompt),
        )
        machine = self.chat.machine(prompt, wish.conversation.tools, wish.stops, wish.guarantee.parallel)
        return Answer(self.engine.submit(sequence), machine, length, clamped=wish.max_tokens > room)

    def _thinking(self, wish: Wish, prompt: Prompt) -> Thinking:
        if prompt.thinking_open:
            return Thinking.OPEN
        return Thinking.OPTIONAL if wish.conversation.thinking else Thinking.CLOSED

    async def _on_worker(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.workers, work, *given)
