"""Nothing that a peer sends may be logged as an error, hang the server or stop it from answering others."""

import gzip
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from node.http.coding import zstd
from tests.http.support import Running, get, limits, post, request

SEEDS = (
    get("/health"),
    post("/echo", b"hello"),
    request("POST", "/echo", "transfer-encoding: chunked") + b"2;a=b\r\nhe\r\n0\r\nx: y\r\n\r\n",
    request("POST", "/echo", "content-length: 5", "expect: 100-continue") + b"hello",
    post("/echo", gzip.compress(b"hello"), "content-encoding: gzip"),
    post("/echo", zstd.compress(b"hello"), "content-encoding: zstd") + get("/health"),
    post("/refuse", b"hello") + get("/three") + request("HEAD", "/models/a%2Fb?c"),
    request("CONNECT", "x:1") + request("GET", "/health", "upgrade: websocket", "connection: upgrade"),
)
PIECES = (
    b"",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b":",
    b"\xff",
    b"HTTP/1.1",
    b"content-length: 3\r\n",
    b"0\r\n\r\n",
    b"%00",
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid request or several, with up to four spans overwritten."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 6)))
        data = data[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=6)) + data[end:]
    return data


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    strict = limits(max_header=300, max_body=100, header_timeout=1, body_timeout=1, linger_timeout=1)
    with Running(strict) as running:
        yield running


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=mutated() | st.binary(max_size=400), cuts=st.lists(st.integers(1, 40), max_size=6))
def test_no_bytes_disturb_the_server(server: Running, data: bytes, cuts: list[int]) -> None:
    with server.peer() as peer:
        try:
            for cut in cuts:
                peer.send(data[:cut])
                data = data[cut:]
            peer.send(data)
            peer.end()
            peer.rest()  # ends, or times out and fails
        except ConnectionError:
            pass
    with server.peer() as peer:
        assert peer.get("/health").body == b"ok"
    server.settles(connections=0, in_flight=0)
    assert server.records.errors == []
