"""One request and its answer as h11 sees them: bytes in, bytes out, no socket.

Each exchange has an h11 connection of its own. What arrives after a request belongs to the next one and is
given back as `leftover`, so that h11 never holds bytes that nobody counts.
"""

import h11

from node.http.coding import content_coding
from node.http.fault import Fault
from node.http.limits import HttpLimits
from node.http.message import Headers

VERSIONS = (b"1.0", b"1.1")
# Go's rule against bodies that are all framing: a million one-byte chunks cost seconds of parsing.
FREE_CHUNKS = 4096
MIN_CHUNK_BYTES = 16


class Exchange:
    """A request on its way in and an answer on its way out."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.max_header)
        self._kept = bytearray()
        self._chunks = 0
        self.method = ""
        self.target = ""
        self.headers = Headers()
        self.length: int | None = 0  # of the body as announced; None if it is chunked
        self.coding: str | None = None  # of the body, known once it is admitted
        self.received = 0  # body bytes so far, kept or not
        self.complete = False
        self.leftover = b""

    @property
    def body(self) -> bytes:
        """What `receive` kept, in the coding it came in."""
        return bytes(self._kept)

    @property
    def unread(self) -> int | None:
        """How many bytes of the body are still to come, None if only the peer knows."""
        if self.complete:
            return 0
        return None if self.length is None else self.length - self.received

    @property
    def expects_continue(self) -> bool:
        """Whether the peer holds its body back until it is told to go ahead."""
        return self._h11.they_are_waiting_for_100_continue

    @property
    def reusable(self) -> bool:
        """Whether another exchange may follow on the connection. Known after `end`."""
        return self._h11.our_state is h11.DONE

    @property
    def framed(self) -> bool:
        """Whether the peer understands chunks."""
        return self._h11.their_http_version == b"1.1"

    def open(self, head: bytes) -> None:
        """Parses a whole head. Raises Fault, after which the exchange can still be answered."""
        self._h11.receive_data(head)
        event = self._next_event()
        assert isinstance(event, h11.Request), event
        self.method = event.method.decode("ascii")
        self.target = event.target.decode("ascii")
        self.headers = Headers(
            (name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers
        )
        self._check_framing(event.http_version)
        self.receive(b"")  # a request without a body is complete already

    def _check_framing(self, version: bytes) -> None:
        if version not in VERSIONS:
            raise Fault("malformed", "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
        announced = self.headers.get("content-length")
        if "transfer-encoding" not in self.headers:
            self.length = int(announced or 0)
        elif announced is not None or version == b"1.0":
            # RFC 9112 6.1 and 6.3: two opinions on where a body ends are how requests are smuggled.
            raise Fault("malformed", "The request says in two ways how long its body is.")
        else:
            self.length = None

    def admit_body(self) -> None:
        """Refuses a body by what the head says of it, before any of it is read. Raises Fault."""
        self.coding = content_coding(self.headers)
        if self.length is not None and self.length > self._limits.max_body:
            raise Fault("body_too_large")

    def receive(self, data: bytes, *, keep: bool = True) -> None:
        """Takes bytes of the body, to keep or to drop. Raises Fault."""
        if data:
            self._h11.receive_data(data)
        while not self.complete:
            event = self._next_event()
            if isinstance(event, h11.Data):
                self._receive_data(event, keep)
            elif isinstance(event, h11.EndOfMessage):
                self.complete = True
                self.leftover = self._h11.trailing_data[0]
            else:
                self._check_chunk(keep)
                return

    def _check_chunk(self, keep: bool) -> None:
        """Refuses a chunk by the size in its header: its data may never come."""
        # h11 tells of a chunk with its first byte only. Until then the size lies in its reader and nowhere else.
        coming = getattr(self._h11._reader, "_bytes_in_chunk", 0) if self.length is None else 0
        if keep and self.received + coming > self._limits.max_body:
            raise Fault("body_too_large")

    def _receive_data(self, event: h11.Data, keep: bool) -> None:
        self.received += len(event.data)
        self._chunks += event.chunk_start
        if self._chunks > FREE_CHUNKS and self.received < self._chunks * MIN_CHUNK_BYTES:
            raise Fault("malformed", "The body is cut into too many tiny chunks.")
        if keep:
            if self.received > self._limits.max_body:
                raise Fault("body_too_large")
            self._kept += event.data

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError:
            # h11's own words quote what the peer sent, credentials included.
            raise Fault("malformed") from None

    def go_ahead(self) -> bytes:
        """The interim answer to `Expect: 100-continue`."""
        return self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def start(self, status: int, reason: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The answer's head. Without a length in it the body is framed, or ends with the connection."""
        return self._send(h11.Response(status_code=status, headers=headers, reason=reason))

    def whole(self, body: bytes) -> bytes:
        """The answer's body when its length was announced; nothing for HEAD."""
        return b"" if self.method == "HEAD" else self._send(h11.Data(data=body))

    def frame(self, data: bytes) -> bytes:
        """A piece of a stream: past h11, whose events cost four times the write (3 µs each)."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.framed else data

    def end(self) -> bytes:
        """What ends the answer: the last chunk of a framed stream, else nothing."""
        return self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""
