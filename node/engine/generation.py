"""The loop thread's end of a sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from node.engine.sequence import FinishReason, Sequence


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """Ids that came since one looked last, and why the sequence ended if it did."""

    ids: tuple[int, ...]
    finish_reason: FinishReason | None


class Generation:
    """What a request holds while its sequence runs. Used on the loop thread only, by one task.

    `next` waits for news; several steps that completed meanwhile arrive as one delta. Leaving the generation,
    by whatever way, must call `cancel`: it is harmless after the end and frees the sequence before it.
    """

    def __init__(self, withdraw: Callable[[], None], sequence: Sequence) -> None:
        self._withdraw = withdraw
        self.sequence = sequence
        self.begun = False  # whether news of it has come
        self._ids: list[int] = []
        self._finish_reason: FinishReason | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def cached(self) -> int:
        """Tokens of the prompt that did not have to be run; known with the first delta, 0 before."""
        return self.sequence.cached if self.begun else 0

    def deliver(self, ids: tuple[int, ...], finish_reason: FinishReason | None) -> None:
        """Called once a step by the engine's hand-back."""
        self._ids.extend(ids)
        self._finish_reason = finish_reason
        self._wake()

    async def next(self, timeout: float) -> TokenDelta | None:
        """The next delta, or None when `timeout` seconds brought none. The last one has its `finish_reason` set."""
        if not self._ids and self._finish_reason is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
            if not self._ids and self._finish_reason is None:
                return None
        delta = TokenDelta(tuple(self._ids), self._finish_reason)
        self._ids.clear()
        return delta

    def cancel(self) -> None:
        if self._finish_reason is None:
            self._finish_reason = FinishReason.CANCELLED
            self._withdraw()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
