"""Back-pressure: whether the peer still takes what we write."""

import asyncio
from collections.abc import Callable

HIGH_WATER = 64 * 1024  # unsent bytes at which a stream waits; some 300 frames of one token


class Flow:
    """Open or held, as the transport says. Streams await it between frames."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._opened: asyncio.Future[None] | None = None
        self.held_since: float | None = None

    @property
    def held(self) -> bool:
        return self.held_since is not None

    def hold(self) -> None:
        """The send buffer has passed the high-water mark."""
        self.held_since = self._clock()

    def release(self) -> None:
        """The send buffer has emptied, or there is no peer left to wait for."""
        self.held_since = None
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    async def opened(self) -> None:
        """Returns once the peer takes bytes. One waiter: a connection has one answer at a time."""
        while self.held:
            self._opened = asyncio.get_running_loop().create_future()
            await self._opened
