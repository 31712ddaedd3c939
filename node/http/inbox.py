"""What the peer has sent and nobody has taken yet."""

import re

from node.http.fault import Fault

END_OF_HEAD = re.compile(rb"\n\r?\n")
REQUEST_LINE = re.compile(rb"[!-~]+ [!-~]+ HTTP/[0-9]\.[0-9]\r?")
FIRST_PRINTABLE = 0x21  # a TLS ClientHello starts with 0x16
# Browsers and SDKs send 10 to 40 fields; at 3 µs a field this keeps the parser under a millisecond.
MAX_HEADER_LINES = 256


class Inbox:
    """Unread bytes of one connection, from which whole heads are taken."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._scanned = (
            0  # no head ends before here: one that arrives byte by byte is searched once, not squared
        )
        self._line_checked = False

    def __len__(self) -> int:
        return len(self._data)

    def append(self, data: bytes) -> None:
        """Adds what just arrived."""
        self._data += data

    def take_all(self) -> bytes:
        """Everything, for a body that wants whatever there is."""
        return self._take(len(self._data))

    def take_head(self, limit: int) -> bytes | None:
        """The next request's head with its empty line, None while it is incomplete. Raises Fault."""
        self._skip_empty_lines()
        found = END_OF_HEAD.search(self._data, self._scanned)
        size = found.end() if found else len(self._data)
        if size > limit:
            raise Fault("headers_too_large")
        self._check_start()
        if found is None:
            # Three bytes end a head at most, so two of them may be here already.
            self._scanned = max(0, size - 2)
            return None
        head = self._take(size)
        if head.count(b"\n") > MAX_HEADER_LINES:
            raise Fault("headers_too_large")
        return head

    def _skip_empty_lines(self) -> None:
        # RFC 9112 2.2: some clients end a body with a CRLF that they do not count.
        if not self._scanned and self._data.startswith((b"\r", b"\n")):
            self._data = self._data.lstrip(b"\r\n")

    def _check_start(self) -> None:
        """Refuses what can never become a request at once: it might never send an empty line."""
        if self._line_checked or not self._data:
            return
        if self._data[0] < FIRST_PRINTABLE:
            raise Fault("malformed")
        end = self._data.find(b"\n", self._scanned)
        if end >= 0:
            if not REQUEST_LINE.fullmatch(self._data, 0, end):
                raise Fault("malformed")
            self._line_checked = True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        self._scanned = 0
        self._line_checked = False
        return taken
