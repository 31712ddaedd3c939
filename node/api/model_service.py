"""The one model of this node, as every dialect sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from node.access.keys import Keyring
from node.api.answer import Answer
from node.api.compiler import Compiler
from node.api.errors import ApiError, invalid, unsupported
from node.api.generation_request import GenerationRequest
from node.chat.chat import Chat
from node.chat.output_constraints import ThinkingMode
from node.chat.prompt import Prompt
from node.chat.schema import SchemaError
from node.chat.template import TemplateError
from node.engine.constraint import Constraint
from node.engine.engine import Engine
from node.engine.sequence import Sequence
from node.http.message import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelService:
    """name                 what requests call the model
    context              tokens of prompt and output together
    created              Unix seconds
    width                rows of the model's table of tokens, padding included
    stop_ids             sampling one of these ends the turn
    first_token_timeout  seconds that the head of a stream waits for the first token
    queue_timeout        seconds that a request may wait for its first step
    """

    name: str
    context: int
    created: int
    width: int
    stop_ids: frozenset[int]
    first_token_timeout: float
    queue_timeout: float
    chat: Chat
    engine: Engine
    keyring: Keyring
    workers: ThreadPoolExecutor
    compiler: Compiler

    def authenticate(self, request: Request) -> str:
        """The organization that the key belongs to. Raises CredentialMissing or CredentialUnknown."""
        return self.keyring.check(request.headers.get("authorization"), request.headers.get("x-api-key"))

    def require(self, model: str) -> None:
        """Raise ApiError unless `model` is the one that is served. No other name maps to it."""
        if model != self.name:
            message = (
                f"{model[:200]} is not served on this node; GET /v1/infer/models lists the models that are"
            )
            raise ApiError("model_not_available", message, param="model")

    async def work(self, heavy: bool, function: Callable[..., T], *given: Any) -> T:
        """`function(*given)`, on a worker if it is heavy, so that streams go on meanwhile."""
        if not heavy:
            return function(*given)
        return await asyncio.get_running_loop().run_in_executor(self.workers, function, *given)

    async def prompt(self, asked: GenerationRequest) -> Prompt:
        """Render and tokenize. Raises ApiError."""
        if asked.conversation.tools and not self.chat.calls_tools:
            raise unsupported("tools", "this model's chat template takes none")
        try:
            return await self.work(asked.heavy, self.chat.prompt, asked.conversation)
        except TemplateError as error:
            message = f"the chat template refuses this: {error}"
            raise ApiError("invalid_request", message, param="messages") from error

    async def constraint(self, asked: GenerationRequest, prompt: Prompt) -> Constraint | None:
        """What keeps the answer to its constraints. Raises ApiError where that cannot be done."""
        constraints = replace(asked.constraints, thinking=self._thinking(asked, prompt))
        if constraints.empty:
            return None
        try:
            work = partial(self.chat.constraint, constraints, self.stop_ids, self.width)
            return await self.compiler.run(work, asked.size)
        except SchemaError as error:
            keyword = f"{error.keyword}: " if error.keyword else ""
            raise invalid(error.path, f"{keyword}{error}") from error

    async def answer(self, request_id: str, organization: str, asked: GenerationRequest) -> Answer:
        """Submit what is asked, its output clamped to the remaining context. Raises ApiError, Overloaded."""
        prompt = await self.prompt(asked)
        length = len(prompt.ids)
        remaining = self.context - length
        if remaining < 1:
            message = f"prompt is too long: {length} tokens > {self.context} maximum"
            raise ApiError("context_length_exceeded", message, param="messages")
        sequence = Sequence(
            request_id,
            np.asarray(prompt.ids, dtype=np.int64),
            min(asked.max_tokens, remaining),
            asked.sampling,
            self.stop_ids,
            await self.constraint(asked, prompt),
            organization,
            boundaries=prompt.turn_ends,
            deadline=time.monotonic() + self.queue_timeout,
        )
        parser = self.chat.output_parser(
            prompt, asked.conversation.tools, asked.stops, asked.constraints.parallel
        )
        return Answer(self.engine.submit(sequence), parser, length, clamped=asked.max_tokens > remaining)

    def _thinking(self, asked: GenerationRequest, prompt: Prompt) -> ThinkingMode:
        if prompt.thinking_open:
            return ThinkingMode.OPEN
        return ThinkingMode.OPTIONAL if asked.conversation.thinking else ThinkingMode.CLOSED
