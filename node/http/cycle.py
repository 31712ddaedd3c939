"""One request and its response on a connection: the handler is called and its answer written."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import h11

from node.http.answer import fields, reason
from node.http.exchange import Exchange
from node.http.fault import Fault
from node.http.ids import new_request_id
from node.http.line import Line
from node.http.message import SHOWN_BYTES, Request, Response, StreamResponse
from node.http.service import Service

log = logging.getLogger("node.http")

CLIENT_GONE = 499  # for the log only; nobody is there to be sent it
# The rest of an unread body that is sooner read and dropped than a connection made anew: a TCP window or so.
SPARE_BODY_BYTES = 64 * 1024


class RequestResponseCycle:
    """A request from the end of its head to the end of its answer.

    closes     the connection ends with this answer, as its head says
    status     of the answer; 0 until its head is written
    finished   the access log has its line
    """

    def __init__(self, service: Service, line: Line, read_body: Callable[[], Awaitable[bytes]]) -> None:
        self.id = new_request_id()
        self.arrived = time.monotonic()
        self.exchange = Exchange(service.limits)
        self.request: Request | None = None
        self.status = 0
        self.closes = False
        self.finished = False
        self._service = service
        self._line = line
        self._read_body = read_body
        service.requests += 1

    def call(self, head: bytes) -> Response | Awaitable[Response | StreamResponse]:
        """Parses the head, routes it and calls the handler. Raises Fault, and whatever the handler raises."""
        self.exchange.open(head)
        self.request = request = Request(
            id=self.id,
            method=self.exchange.method,
            target=self.exchange.target,
            headers=self.exchange.headers,
            arrived=self.arrived,
            read_body=self._read_body,
        )
        cors = self._service.cors
        if cors is not None and (preflight := cors.preflight(request)) is not None:
            return preflight
        handler, request.params = self._service.router.match(request.method, request.path)
        return handler(request)

    def receive(self, data: bytes, *, keep: bool) -> None:
        """Takes bytes of the body; those of the next request go to the inbox. Raises Fault."""
        if not self.exchange.complete:
            self.exchange.receive(data, keep=keep)
            if self.exchange.complete:
                self._line.inbox.append(self.exchange.leftover)

    def render(self, error: BaseException) -> Response:
        """The one way from an exception to an answer."""
        try:
            response = self._service.render_error(error, self.request, self.id)
        except Exception:
            log.exception("%s the error renderer failed on %r", self.id, error)
            return Response(500)
        if isinstance(error, Fault):
            self.closes |= error.close
            return replace(response, headers=response.headers + error.headers)
        if response.status == 500:
            log.error("%s handler failed", self.id, exc_info=error)
        return response

    def answer(self, response: Response) -> None:
        """Writes an answer whose body is known."""
        try:
            head = self._head(response)
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:  # a header of ours that is none
            response = self.render(error)
            head = self._head(response)
        self._line.write(head + self.exchange.whole(response.body) + self.exchange.end())

    async def stream(self, response: StreamResponse) -> None:
        """Writes an answer frame by frame. Raises what the frames raise, the head being out."""
        try:
            try:
                head = self._head(response)
            except (h11.LocalProtocolError, UnicodeEncodeError) as error:
                return self.answer(self.render(error))
            self._line.write(head)
            if self.exchange.method != "HEAD":
                await self._write_frames(response)
            self._line.write(self.exchange.end())
        finally:
            await close_frames(response)

    async def _write_frames(self, response: StreamResponse) -> None:
        line, exchange = self._line, self.exchange
        async for frame in response.frames:
            if frame:  # an empty chunk would end the body
                line.write(exchange.frame(frame))
            if line.flow.held:
                await line.flow.opened()

    def _head(self, response: Response | StreamResponse) -> bytes:
        self.closes = self.closes or self._service.draining or not self._spare_body()
        told = fields(response, self.id, self.arrived, close=self.closes)
        if (cors := self._service.cors) is not None:
            told += cors.fields(self.request.headers.get("origin") if self.request else None)
        head = self.exchange.start(response.status, reason(response.status), told)
        self.status = response.status
        return head

    def _spare_body(self) -> bool:
        """Whether what was not read of the body is gone, or little enough to wait for."""
        exchange = self.exchange
        if exchange.complete:
            return True
        try:
            self.receive(self._line.inbox.take_all(), keep=False)
        except Fault:
            return False
        unread = exchange.unread
        if unread is None or exchange.expects_continue:
            return exchange.complete
        return unread <= SPARE_BODY_BYTES

    def finish(self, status: int) -> None:
        """Writes the access log's line: no headers, no query, no bodies, and of a long path its beginning."""
        request = self.request
        method, path = (request.method, request.path) if request else ("-", "-")
        method, path = method[:SHOWN_BYTES], path[:SHOWN_BYTES]
        elapsed = 1000 * (time.monotonic() - self.arrived)
        log.info("%s %s %s %d %.3f ms", self.id, method, path, status, elapsed)
        self.finished = True


async def close_frames(response: StreamResponse) -> None:
    """Runs the `finally` of a generator that was left in the middle."""
    aclose = getattr(response.frames, "aclose", None)
    if aclose is not None:
        await aclose()
