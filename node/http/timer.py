"""One timer a connection."""

import asyncio
from collections.abc import Callable


class Timer:
    """Calls back once a deadline has passed. Moving it later costs nothing until the old one fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._handle: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    def set(self, deadline: float | None) -> None:
        """Moves the deadline (in the loop's time); None takes it away."""
        self._deadline = deadline
        if deadline is not None and (self._handle is None or self._handle.when() > deadline):
            self._arm(deadline)

    def cancel(self) -> None:
        """Stops for good."""
        self._deadline = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, deadline: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._handle = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._arm(self._deadline)
        else:
            self._deadline = None
            self._expired()
