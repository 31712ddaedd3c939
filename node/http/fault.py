"""What is wrong with a request as HTTP, before any dialect looks at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One row of the table.

    close   the connection cannot be used after this answer, because where the next request starts is unknown
    """

    kind: str
    status: int
    message: str
    close: bool


FAULTS: Mapping[str, FaultRow] = MappingProxyType(
    {
        row.kind: row
        for row in (
            FaultRow("malformed", 400, "The request is not well-formed HTTP/1.1.", True),
            FaultRow("invalid_encoding", 400, "The body is not what its Content-Encoding says.", False),
            FaultRow("not_found", 404, "There is nothing at this path.", False),
            FaultRow("method_not_allowed", 405, "This path does not take this method.", False),
            FaultRow("timeout", 408, "The request took too long to arrive.", True),
            FaultRow("body_too_large", 413, "The body is larger than this server takes.", True),
            FaultRow("unsupported_encoding", 415, "The body's Content-Encoding is not supported.", False),
            FaultRow("headers_too_large", 431, "The header fields are larger than this server takes.", True),
        )
    }
)


class Fault(Exception):
    """A row of the table, raised.

    allow            methods that a 405 has to name
    accept_encoding  codings that a 415 has to name, as its field lists them
    nearest          pattern of the route that a 404 may have meant
    """

    def __init__(
        self,
        kind: str,
        message: str | None = None,
        *,
        allow: tuple[str, ...] = (),
        accept_encoding: str = "",
        nearest: str | None = None,
    ) -> None:
        self.row = FAULTS[kind]
        self.message = message or self.row.message
        self.allow = allow
        self.accept_encoding = accept_encoding
        self.nearest = nearest
        super().__init__(self.message)

    @property
    def kind(self) -> str:
        return self.row.kind

    @property
    def status(self) -> int:
        return self.row.status

    @property
    def close(self) -> bool:
        return self.row.close

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What HTTP itself demands of the answer. The connection adds it; renderers need not."""
        told = (("allow", ", ".join(self.allow)), ("accept-encoding", self.accept_encoding))
        return tuple((name, value) for name, value in told if value)
