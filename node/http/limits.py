"""How much and how long a peer may take."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on one connection. Sizes are bytes, times are seconds."""

    max_header_bytes: int = 64 * KIB  # Claude Code's anthropic-beta header grows every release
    max_body_bytes: int = 4 * MIB  # four bytes a character of the longest context, with a margin for JSON
    head_seconds: float = 10.0  # from a head's first byte to its last
    body_seconds: float = 60.0  # from the handler asking for the body to its last byte; 4 MiB at 70 kB/s
    idle_seconds: float = (
        75.0  # longer than the 60 s for which load balancers keep a connection in their pool
    )
    stall_seconds: float = 60.0  # a full send buffer that the peer does not empty
    linger_seconds: float = 30.0  # nginx's lingering_time
    linger_bytes: int = (
        64 * MIB
    )  # dropped unread, so that a client that sends everything first reads the refusal
    drain_seconds: float = 30.0  # what shutdown gives running requests unless told otherwise

    def __post_init__(self) -> None:
        if self.max_header_bytes <= 0 or self.max_body_bytes < 0:
            raise ValueError("the limits on header and body bytes must be positive")
