"""How much and how long a peer may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on one connection. Sizes are bytes, times are seconds.

    max_header      of a head, and of what h11 may hold of one
    max_body        of a body that is kept
    header_timeout  from a head's first byte to its last
    body_timeout    from the handler asking for the body to its last byte
    idle_timeout    between requests
    send_timeout    of a full send buffer that the peer does not empty
    linger_timeout  from our last answer to the peer's end, where it was still sending
    max_linger      dropped unread meanwhile
    """

    max_header: int
    max_body: int
    header_timeout: float
    body_timeout: float
    idle_timeout: float
    send_timeout: float
    linger_timeout: float
    max_linger: int
