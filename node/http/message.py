"""What handlers are given and what they give back."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

SSE = "text/event-stream; charset=utf-8"
SHOWN_BYTES = 200  # of a path, in the log and in answers: a head may hold one of 60 kB
SLASHES = re.compile("//+")


class Headers:
    """Header fields as they came, names lower-case. Of a repeated field `get` returns the first."""

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple((name.lower(), value) for name, value in pairs)
        # Reversed, so that the first of several wins: a credential appended by someone in between must not.
        self._first = dict(reversed(self._pairs))

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of a field, whatever the case of its name."""
        return self._first.get(name.lower(), default)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._first


def split_target(target: str) -> tuple[str, str]:
    """Path (still percent-encoded) and query of a request target, in origin or absolute form."""
    raw, _, query = target.partition("?")
    scheme, separator, rest = raw.partition("://")
    if separator and "/" not in scheme:  # RFC 9112 3.2.2: a server must accept the absolute form
        _, slash, path = rest.partition("/")
        return slash + path or "/", query
    return raw, query


def plain_path(raw: str) -> str:
    """A path as clients mean it whose base URL ends in a slash, or begins the path with one of its own."""
    return SLASHES.sub("/", raw).rstrip("/") or "/" if "//" in raw or raw.endswith("/") else raw


class Request:
    """A request whose head is complete. Its body is read when, and only if, the handler asks for it.

    id        "req_" and a ULID; the same as in the response's headers and the log
    target    as it came
    path      still percent-encoded, without the query, without empty segments
    params    what the route's {names} matched, percent-decoded
    arrived   time.monotonic() when the head was complete
    """

    __slots__ = (
        "_body",
        "_read_body",
        "arrived",
        "headers",
        "id",
        "method",
        "params",
        "path",
        "query",
        "target",
    )

    def __init__(
        self,
        *,
        id: str,
        method: str,
        target: str,
        headers: Headers,
        arrived: float,
        read_body: Callable[[], Awaitable[bytes]],
    ) -> None:
        self.id = id
        self.method = method
        self.target = target
        raw, self.query = split_target(target)
        self.path = plain_path(raw)
        self.headers = headers
        self.params: Mapping[str, str] = {}  # known once the router has matched
        self.arrived = arrived
        self._read_body = read_body
        self._body: bytes | None = None

    async def body(self) -> bytes:
        """The whole body; asks the client to go ahead if it waits for that. Raises Fault."""
        if self._body is None:
            self._body = await self._read_body()
        return self._body


@dataclass(frozen=True, slots=True)
class Response:
    """An answer whose whole body is known."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """An answer sent frame by frame, each frame in one write as soon as it is handed over.

    frames   closed (`aclose`) whatever happens, also when the client leaves. A generator that was never
             started has no `finally` to run, so resources belong to the handler until the first frame.
    timing   further Server-Timing entries in milliseconds, such as ("ttft", 12.3)
    """

    frames: AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()
    timing: tuple[tuple[str, float], ...] = ()
    content_type: str = SSE
    status: int = 200
