"""The one model of this node, as every dialect sees it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from node.access.keys import Keyring
from node.api.answer import Answer
from node.api.errors import ApiError
from node.chat.chat import Chat
from node.chat.conversation import Conversation
from node.chat.prompt import Prompt
from node.chat.template import TemplateError
from node.engine.engine import Engine
from node.engine.sampling import Sampling
from node.engine.sequence import Sequence
from node.http.message import Request

LONG_TEXT = 16 * 1024  # characters: about 5 ms of tokenizing, more than the loop should lose at a time


@dataclass(frozen=True, slots=True)
class Served:
    """name      what requests call the model
    context   tokens of prompt and output together
    created   Unix seconds
    stop_ids  sampling one of these ends the turn
    patience  seconds that the head of a stream waits for the first token
    """

    name: str
    context: int
    created: int
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

    async def prompt(self, conversation: Conversation) -> Prompt:
        """Render and tokenize; long texts on a worker, so that streams go on meanwhile."""
        try:
            if sum(len(turn.text) for turn in conversation.turns) < LONG_TEXT:
                return self.chat.prompt(conversation)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.workers, self.chat.prompt, conversation)
        except TemplateError as error:
            raise ApiError(
                "invalid_request", f"the chat template refuses this: {error}", param="messages"
            ) from error

    def answer(
        self, request_id: str, prompt: Prompt, max_tokens: int, sampling: Sampling, stops: list[str]
    ) -> Answer:
        """Submit the prompt; its output is clamped to the room left. Raises ApiError, Overloaded."""
        length = len(prompt.ids)
        room = self.context - length
        if room < 1:
            message = f"prompt is too long: {length} tokens > {self.context} maximum"
            raise ApiError("context_length_exceeded", message, param="messages")
        limit = min(max_tokens, room)
        ids = np.asarray(prompt.ids, dtype=np.int64)
        sequence = Sequence(request_id, ids, limit, sampling, self.stop_ids)
        generation = self.engine.submit(sequence)
        return Answer(generation, self.chat.machine(stops), length, clamped=max_tokens > room)
