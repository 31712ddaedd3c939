"""The transport of one connection with what is buffered on either side of it."""

import asyncio

from node.http.flow import HIGH_WATER, Flow
from node.http.inbox import Inbox

# Pipelined requests, or a body nobody asked for yet, that wait in memory while a handler runs. More than the
# largest head, so that a held-up connection always makes progress when its turn comes.
READ_AHEAD = 128 * 1024


class Line:
    """Unread bytes in, unsent bytes out."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.inbox = Inbox()
        self.flow = Flow(loop.time)
        self._transport = transport
        self._reading = True
        transport.set_write_buffer_limits(high=HIGH_WATER)

    @property
    def gone(self) -> bool:
        """Whether writing has become pointless."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Sends, in one write, unless there is nobody to send to."""
        if data and not self.gone:
            self._transport.write(data)

    def regulate(self) -> None:
        """Stops reading while too much lies unread, and takes it up again.

        A peer that leaves while reading is stopped is noticed when its answer is written, not before.
        """
        wanted = len(self.inbox) <= READ_AHEAD
        if wanted == self._reading or self.gone:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def half_close(self) -> None:
        """Says that no more comes, and reads on to the peer's end."""
        self.inbox.take_all()
        self.regulate()
        if not self.gone:
            self._transport.write_eof()

    def close(self) -> None:
        """Sends what is buffered, then closes."""
        self._transport.close()

    def abort(self) -> None:
        """Closes at once, unsent bytes and all."""
        self.flow.release()
        self._transport.abort()
