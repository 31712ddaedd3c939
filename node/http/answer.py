"""From a response to the header fields that every answer carries."""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from node.http.message import Response, StreamResponse

Fields = list[tuple[bytes, bytes]]
# Proxies (nginx by the second of these) would otherwise hold events back.
STREAM_FIELDS: Fields = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


@lru_cache(maxsize=1)
def http_date(second: int) -> bytes:
    """The Date field's value; written once a second however many answers there are."""
    return formatdate(second, usegmt=True).encode("ascii")


def reason(status: int) -> bytes:
    """The phrase beside a status; empty for those that no standard names, such as 529."""
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b""


def server_timing(milliseconds: float, entries: tuple[tuple[str, float], ...] = ()) -> bytes:
    """The Server-Timing value: the total first, then the response's own entries."""
    return ", ".join(f"{name};dur={ms:.3f}" for name, ms in (("total", milliseconds), *entries)).encode(
        "ascii"
    )


def fields(response: Response | StreamResponse, request_id: str, arrived: float, *, close: bool) -> Fields:
    """Every field of the answer's head but the framing, which h11 adds to streams."""
    elapsed = 1000 * (time.monotonic() - arrived)
    timing = response.timing if isinstance(response, StreamResponse) else ()
    head: Fields = [
        (b"date", http_date(int(time.time()))),
        (b"request-id", request_id.encode("ascii")),  # read by Anthropic's SDKs
        (b"x-request-id", request_id.encode("ascii")),  # read by OpenAI's
        (b"server-timing", server_timing(elapsed, timing)),
    ]
    if response.status != HTTPStatus.NO_CONTENT:
        head.append((b"content-type", response.content_type.encode("latin-1")))
        if isinstance(response, Response):
            head.append((b"content-length", b"%d" % len(response.body)))
    if isinstance(response, StreamResponse):
        head += STREAM_FIELDS
    head += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    if close:
        head.append((b"connection", b"close"))
    elif isinstance(response, StreamResponse):
        head.append((b"connection", b"keep-alive"))  # proxies that speak HTTP/1.0 to clients look for it
    return head
