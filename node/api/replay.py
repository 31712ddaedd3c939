"""What the node would send if the model had written a given text: for bug reports, without weights."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from node.api.answer import Answer
from node.api.content import ContentWriter
from node.api.messages_reply import MessageFrames, MessageReply
from node.api.messages_request import parse
from node.chat.chat import Chat
from node.engine.generation import Burst
from node.engine.sequence import Finish

REQUEST_ID = "req_" + "0" * 26
LONGEST_STEP = 12  # ids; what random steps go up to


class KeptIds:
    """Ids that are there already, handed over step by step."""

    def __init__(self, ids: list[int], steps: Iterator[int], cut: bool) -> None:
        self._ids = ids
        self._steps = steps
        self._finish = Finish.LENGTH if cut else Finish.STOP

    async def next(self, patience: float) -> Burst:
        count = next(self._steps)
        ids, self._ids = tuple(self._ids[:count]), self._ids[count:]
        return Burst(ids, None if self._ids else self._finish)

    def cancel(self) -> None:
        self._ids = []


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
    chat: Chat, body: dict[str, Any], output: str, steps: Iterator[int], stream: bool | None, cut: bool
) -> bytes:
    """The body of the answer to the Messages request `body`. Raises ApiError for what the node would refuse.

    steps   ids in each step
    stream  None does as the request says
    cut     the output ends because it reached its limit, not because the model ended its turn
    """
    asked = parse(body, counting=True)
    wish = asked.wish()
    prompt = chat.prompt(wish.conversation)
    machine = chat.machine(prompt, wish.conversation.tools, wish.stops, wish.guarantee.parallel)
    kept = KeptIds(chat.written(output), steps, cut)
    answer = Answer(kept, machine, len(prompt.ids), clamped=False)
    reply = MessageReply(answer, asked.model, REQUEST_ID, ContentWriter(asked.thinking.shown, _counter()))
    if not (asked.scalars.stream if stream is None else stream):
        return await reply.whole()
    return b"".join([frames async for frames in MessageFrames(reply, None)])


def _counter() -> Callable[[], str]:
    """Ids of calls that are the same in every replay."""
    numbers = itertools.count()
    return lambda: f"toolu_{next(numbers):024}"
