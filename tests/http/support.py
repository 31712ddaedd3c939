"""A server on a thread of its own, and a peer that speaks to it over a plain socket."""

import asyncio
import contextlib
import logging
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import uvloop

from node.http import Cors, Fault, HttpLimits, Request, Response, Router, Server, Statistics, StreamResponse
from node.settings import Settings

LIMITS = Settings().part(HttpLimits)
WAIT = 10.0  # seconds after which a test has failed; nothing here takes more than one


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def limits(**others: float) -> HttpLimits:
    """A node's, but for these."""
    return replace(LIMITS, **others)  # type: ignore[arg-type]


class Peer:
    """A client that sends exactly the bytes it is told to."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT)
        self.socket.connect(("127.0.0.1", port))
        self.unread = bytearray()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def end(self) -> None:
        """Half-closes: no more comes from here."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes with a reset instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def rest(self) -> bytes:
        """Everything until the server closes."""
        data, self.unread = bytes(self.unread), bytearray()
        while piece := self.socket.recv(65536):
            data += piece
        return data

    def until(self, mark: bytes) -> bytes:
        while mark not in self.unread:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError(f"closed before {mark!r}, after {bytes(self.unread)!r}")
            self.unread += piece
        return self._take(self.unread.index(mark) + len(mark))

    def exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError("closed in the middle of a body")
            self.unread += piece
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(self.unread[:size])
        del self.unread[:size]
        return data

    def head(self) -> tuple[int, dict[str, str]]:
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = (line.split(": ", 1) for line in lines[1:] if line)
        headers = {name.lower(): value for name, value in fields}
        return int(lines[0].split(" ")[1]), headers

    def answer(self, *, bodiless: bool = False) -> Answer:
        status, headers = self.head()
        if bodiless:
            return Answer(status, headers, b"")
        if "content-length" in headers:
            return Answer(status, headers, self.exactly(int(headers["content-length"])))
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size + 2)[:-2]
        assert self.until(b"\r\n") == b"\r\n"
        return Answer(status, headers, body)

    def get(self, path: str) -> Answer:
        self.send(get(path))
        return self.answer()


def get(path: str, *lines: str) -> bytes:
    return request("GET", path, *lines)


def request(method: str, path: str, *lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (f"{method} {path} HTTP/1.1", "host: x", *lines, "")).encode()


def post(path: str, body: bytes, *lines: str) -> bytes:
    return request("POST", path, f"content-length: {len(body)}", *lines) + body


def render(error: BaseException, request: Request | None, request_id: str) -> Response:
    if isinstance(error, Fault):
        return Response(error.status, error.kind.encode())
    return Response(500, b"internal")


class Records(logging.Handler):
    """What was logged at WARNING or above, and the access log beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self.access: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        (self.access if record.levelno < logging.WARNING else self.errors).append(record.getMessage())


class Site:
    """Routes for tests. `events` tells what happened inside handlers, `release` lets /wait answer."""

    def __init__(self) -> None:
        self.events: queue.Queue[str] = queue.Queue()
        self.release = asyncio.Event()
        self.produced = 0  # bytes that /flood has handed over
        self.router = Router()
        for method, path, handler in (
            ("GET", "/health", lambda request: Response(200, b"ok")),
            ("GET", "/models/{id}", lambda request: Response(200, request.params["id"].encode())),
            ("POST", "/refuse", lambda request: Response(401, b"no")),
            ("POST", "/echo", self.echo),
            ("POST", "/late-refusal", self.late_refusal),
            ("GET", "/wait", self.wait),
            ("GET", "/three", self.three),
            ("GET", "/endless", self.endless),
            ("GET", "/flood", self.flood),
            ("GET", "/raises", self.raises),
            ("GET", "/breaks", self.breaks),
            ("GET", "/stubborn", self.stubborn),
            ("GET", "/inner-cancel", self.inner_cancel),
            ("GET", "/inner-cancel-stream", self.inner_cancel_stream),
            ("GET", "/bad-header", lambda request: Response(200, headers=(("x-a", "b\r\nc: d"),))),
        ):
            self.router.add(method, path, handler)

    def happened(self) -> str:
        return self.events.get(timeout=WAIT)

    async def echo(self, request: Request) -> Response:
        body = await request.body()
        assert await request.body() is body
        return Response(200, body)

    async def late_refusal(self, request: Request) -> Response:
        return Response(401, b"no")

    async def wait(self, request: Request) -> Response:
        self.events.put("wait started")
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.events.put("wait cancelled")
            raise
        return Response(200, b"waited")

    async def three(self, request: Request) -> StreamResponse:
        async def frames() -> AsyncIterator[bytes]:
            for frame in (b"data: 1\n\n", b"", b"data: 2\n\n", b"data: 3\n\n"):
                await asyncio.sleep(0)
                yield frame

        return StreamResponse(frames(), timing=(("ttft", 12.3456),))

    async def endless(self, request: Request) -> StreamResponse:
        async def frames() -> AsyncIterator[bytes]:
            try:
                yield b"data: first\n\n"
                await self.release.wait()
                yield b"data: last\n\n"
            finally:
                self.events.put("endless closed")

        return StreamResponse(frames())

    async def flood(self, request: Request) -> StreamResponse:
        async def frames() -> AsyncIterator[bytes]:
            try:
                while True:
                    self.produced += 16384
                    yield b"x" * 16384
                    await asyncio.sleep(0)
            finally:
                self.events.put("flood closed")

        self.kept = frames()  # so that only the server closes it, not the garbage collector
        return StreamResponse(self.kept)

    async def raises(self, request: Request) -> Response:
        raise RuntimeError("a handler's own fault")

    async def stubborn(self, request: Request) -> StreamResponse:
        """Carries on when cancelled, which nobody should."""

        async def frames() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"data: more\n\n"
                    await asyncio.sleep(0)
            finally:
                self.events.put("stubborn closed")

        self.events.put("stubborn started")
        with contextlib.suppress(asyncio.CancelledError):
            await self.release.wait()
        self.kept = frames()
        return StreamResponse(self.kept)

    async def inner_cancel(self, request: Request) -> Response:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner
        return Response(200)

    async def inner_cancel_stream(self, request: Request) -> StreamResponse:
        async def frames() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            await self.inner_cancel(request)

        return StreamResponse(frames())

    async def breaks(self, request: Request) -> StreamResponse:
        async def frames() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            raise RuntimeError("a stream's own fault")

        return StreamResponse(frames())


class Running:
    """A server with the test site, on a loop in a thread."""

    def __init__(self, limits: HttpLimits = LIMITS, cors: Cors | None = None) -> None:
        self.records = Records()
        self.site = Site()
        self.server = Server(self.site.router, render, limits, cors)
        self.loop = uvloop.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> "Running":
        for name in ("node.http", "asyncio"):
            logging.getLogger(name).addHandler(self.records)
        logging.getLogger("node.http").setLevel(logging.INFO)
        self.thread.start()
        self.call(self.server.start("127.0.0.1", 0))
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self.server.shutdown(0))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        for name in ("node.http", "asyncio"):
            logging.getLogger(name).removeHandler(self.records)

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(2 * WAIT)

    def release(self) -> None:
        self.loop.call_soon_threadsafe(self.site.release.set)

    def statistics(self) -> Statistics:
        async def read() -> Statistics:
            return self.server.statistics()

        now: Statistics = self.call(read())
        return now

    def peer(self, **options: int) -> Peer:
        return Peer(self.server.port, **options)

    def settles(self, **expected: int) -> None:
        """Waits until the statistics hold these values."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            now = self.statistics()
            if all(getattr(now, name) == value for name, value in expected.items()):
                return
            time.sleep(0.005)
        raise AssertionError(f"{now} never had {expected}")
