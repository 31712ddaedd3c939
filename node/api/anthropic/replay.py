"""What the node would send if the model had written a given text: for bug reports, without weights."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from node.api.answer import Answer
from node.api.anthropic.content import ContentWriter
from node.api.anthropic.messages_reply import MessageFrames, MessageReply
from node.api.anthropic.messages_request import parse
from node.chat.chat import Chat
from node.engine.generation import TokenDelta
from node.engine.sequence import FinishReason

REQUEST_ID = "req_" + "0" * 26
LONGEST_STEP = 12  # ids; what random steps go up to


class ReplayedIds:
    """Ids that are there already, handed over step by step."""

    cached = 0

    def __init__(self, ids: list[int], steps: Iterator[int], finish_reason: FinishReason) -> None:
        self._ids = ids
        self._steps = steps
        self._finish_reason = finish_reason
        self._given = 0

    async def next(self, timeout: float) -> TokenDelta:
        first, self._given = self._given, self._given + next(self._steps)
        done = self._given >= len(self._ids)
        return TokenDelta(tuple(self._ids[first : self._given]), self._finish_reason if done else None)

    def cancel(self) -> None:
        """Nothing runs."""


def steps(words: str) -> Iterator[int]:
    """Ids a step: a number, or `random:SEED`. Raises ValueError."""
    kind, _, seed = words.partition(":")
    if kind == "random" and seed:
        dice = random.Random(int(seed))
        return iter(lambda: dice.randint(1, LONGEST_STEP), 0)
    if int(words) < 1:
        raise ValueError("a step holds at least one id")
    return itertools.repeat(int(words))


async def replay(
    chat: Chat,
    stop_ids: frozenset[int],
    body: dict[str, Any],
    output: str,
    steps: Iterator[int],
    stream: bool | None,
    cut: bool,
) -> bytes:
    """The body of the answer to the Messages request `body`. Raises ApiError for what the node would refuse.

    output  what the model wrote; it ended its turn after it, or where a stop id stands in it
    steps   ids in each step
    stream  None does as the request says
    cut     the output ends because it reached its limit, not because the model ended its turn
    """
    parsed = parse(body, counting=True)
    asked = parsed.generation_request()
    prompt = chat.prompt(asked.conversation)
    parser = chat.output_parser(prompt, asked.conversation.tools, asked.stops, asked.constraints.parallel)
    ids = chat.written(output)
    stop = next((index for index, number in enumerate(ids) if number in stop_ids), None)
    if stop is None and not cut:
        stop, ids = len(ids), [*ids, min(stop_ids)]
    finish_reason = FinishReason.LENGTH if stop is None else FinishReason.STOP
    replayed = ReplayedIds(ids if stop is None else ids[: stop + 1], steps, finish_reason)
    answer = Answer(replayed, parser, len(prompt.ids), clamped=False)
    reply = MessageReply(
        answer, parsed.model, REQUEST_ID, ContentWriter(parsed.thinking.shown, _counting_ids())
    )
    if not (parsed.scalars.stream if stream is None else stream):
        return await reply.whole()
    first = await answer.next(timeout=0.0)
    return b"".join([frames async for frames in MessageFrames(reply, first)])


def _counting_ids() -> Callable[[], str]:
    """Ids of calls that are the same in every replay."""
    numbers = itertools.count()
    return lambda: f"toolu_{next(numbers):024}"
