"""Listens, and ends in order."""

import asyncio
import socket
from collections.abc import Sequence

from node.http.connection import Connection
from node.http.cors import Cors
from node.http.limits import HttpLimits
from node.http.router import Router
from node.http.service import RenderError, Service, Statistics

BACKLOG = (
    1024  # connections that the kernel completes while the loop is busy; a benchmark opens hundreds at once
)
CANCEL_SECONDS = 5.0  # for the `finally` of cancelled handlers


class Server:
    """Serves the routes of a router.

    `render_error(error, request, request_id)` turns every exception, ours (Fault) or a handler's, into an
    answer; request is None where the head could not be parsed. It runs on the loop thread and must not raise.
    Without `cors` browsers let no page of another origin ask.
    """

    def __init__(
        self, router: Router, render_error: RenderError, limits: HttpLimits, cors: Cors | None = None
    ) -> None:
        self._service = Service(router, render_error, limits, cors)
        self._listeners: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        """The port listened on, also where 0 was asked for."""
        port = self._listeners[0].sockets[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, *, sockets: Sequence[socket.socket] = ()
    ) -> None:
        """Listens on host and port, or on sockets that are bound already."""
        loop = asyncio.get_running_loop()

        def connect() -> Connection:
            return Connection(self._service, loop)

        if sockets:
            for bound in sockets:
                self._listeners.append(await loop.create_server(connect, sock=bound, backlog=BACKLOG))
        else:
            self._listeners.append(await loop.create_server(connect, host, port, backlog=BACKLOG))

    def route(self, router: Router) -> None:
        """Serves these routes from now on; requests that run keep the handler they have."""
        self._service.router = router

    async def shutdown(self, grace: float) -> None:
        """Stops listening, lets running requests finish for `grace` seconds, then cancels them.

        Idle connections close at once. Answers whose head is not out yet carry `Connection: close`.
        """
        service = self._service
        service.draining = True
        for listener in self._listeners:
            listener.close()
        for member in list(service.members):
            member.drain()
        if not await self._emptied(grace):
            for member in list(service.members):
                member.abandon()
            await self._emptied(CANCEL_SECONDS)

    async def _emptied(self, seconds: float) -> bool:
        if self._service.members:
            try:
                await asyncio.wait_for(self._service.empty.wait(), seconds)
            except TimeoutError:
                return False
        return True

    def statistics(self) -> Statistics:
        """Connections and requests at this moment. For the loop thread, as everything here."""
        return self._service.statistics()
