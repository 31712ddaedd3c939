from dataclasses import replace

import pytest

from node.http import Fault, HttpLimits
from node.http.exchange import FREE_CHUNKS, Exchange
from tests.http.support import LIMITS

SMALL = replace(LIMITS, max_body=10)


def opened(*lines: str, method: str = "POST", version: str = "1.1", limits: HttpLimits = SMALL) -> Exchange:
    exchange = Exchange(limits)
    exchange.open("\r\n".join([f"{method} /p?q HTTP/{version}", "Host: x", *lines, "", ""]).encode("latin-1"))
    return exchange


def test_request_without_a_body_is_complete_at_once() -> None:
    exchange = opened(method="GET")
    assert (exchange.method, exchange.target, exchange.headers.get("host")) == ("GET", "/p?q", "x")
    assert (exchange.complete, exchange.unread, exchange.body) == (True, 0, b"")


def test_sized_body_is_joined_and_what_follows_is_left_over() -> None:
    exchange = opened("Content-Length: 5")
    exchange.receive(b"he")
    assert (exchange.complete, exchange.unread) == (False, 3)
    exchange.receive(b"lloGET /")
    assert (exchange.complete, exchange.unread, exchange.body, exchange.leftover) == (
        True,
        0,
        b"hello",
        b"GET /",
    )


def test_chunked_body_byte_by_byte_with_extension_and_trailer() -> None:
    exchange = opened("Transfer-Encoding: chunked")
    assert opened("Transfer-Encoding: chunked").unread is None
    for byte in b"2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n":
        assert not exchange.complete
        exchange.receive(bytes([byte]))
    assert (exchange.complete, exchange.body) == (True, b"hello")


def test_dropped_body_is_counted_but_not_kept() -> None:
    exchange = opened("Content-Length: 50")
    exchange.receive(b"x" * 50, keep=False)
    assert (exchange.complete, exchange.received, exchange.body) == (True, 50, b"")


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: -1",),
        ("Content-Length: +1",),
        ("Content-Length: 1e3",),
        ("Content-Length: " + "9" * 21,),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Host: y",),
        ("a b: c",),
        ("a : c",),
        ("a: b\0c",),
        ("a: b\rc",),
        ("no colon",),
    ],
)
def test_head_with_bad_framing_or_fields_is_malformed(lines: tuple[str, ...]) -> None:
    with pytest.raises(Fault) as raised:
        opened(*lines)
    assert (raised.value.kind, raised.value.status, raised.value.close) == ("malformed", 400, True)


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
def test_other_versions_are_malformed(version: str) -> None:
    with pytest.raises(Fault, match=r"Only HTTP/1\.0 and HTTP/1\.1"):
        opened(version=version)


def test_missing_host_is_malformed_in_1_1_only() -> None:
    Exchange(SMALL).open(b"GET / HTTP/1.0\r\n\r\n")
    with pytest.raises(Fault):
        Exchange(SMALL).open(b"GET / HTTP/1.1\r\n\r\n")


def test_chunks_in_http_1_0_are_malformed() -> None:
    with pytest.raises(Fault):
        opened("Transfer-Encoding: chunked", version="1.0")


@pytest.mark.parametrize(
    "data", [b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"\r\n", b"0\r\nno colon\r\n\r\n", b"1" * 21 + b"\r\n"]
)
def test_bad_chunks_are_malformed(data: bytes) -> None:
    exchange = opened("Transfer-Encoding: chunked")
    with pytest.raises(Fault) as raised:
        exchange.receive(data)
    assert raised.value.kind == "malformed"


def test_announced_length_over_the_limit_is_refused_unread() -> None:
    opened("Content-Length: 10").admit_body()
    with pytest.raises(Fault) as raised:
        opened("Content-Length: 11").admit_body()
    assert (raised.value.kind, raised.value.status) == ("body_too_large", 413)


def test_chunked_body_is_refused_with_the_chunk_that_passes_the_limit() -> None:
    exchange = opened("Transfer-Encoding: chunked")
    exchange.admit_body()
    exchange.receive(b"a\r\n0123456789\r\n")
    with pytest.raises(Fault) as raised:
        exchange.receive(b"1\r\n")
    assert (raised.value.kind, exchange.body) == ("body_too_large", b"0123456789")


@pytest.mark.parametrize(
    ("before", "size", "kind"),
    [
        (b"", b"b", "body_too_large"),
        (b"3\r\nabc\r\n", b"8", "body_too_large"),
        (b"", b"FFFFFFFF", "body_too_large"),
        (b"", b"f" * 20, "body_too_large"),
        (b"", b"f" * 40, "malformed"),
        (b"", b"0" * 39 + b"1", "malformed"),
    ],
)
def test_chunk_that_no_limit_allows_is_refused_at_its_header(before: bytes, size: bytes, kind: str) -> None:
    exchange = opened("Transfer-Encoding: chunked")
    exchange.admit_body()
    exchange.receive(before + size)
    with pytest.raises(Fault) as raised:
        exchange.receive(b"\r\n")
    assert raised.value.kind == kind


def test_chunks_that_fill_the_limit_are_taken_and_dropped_ones_may_pass_it() -> None:
    exchange = opened("Transfer-Encoding: chunked")
    exchange.receive(b"3\r\nabc\r\n7;x=y\r\n")
    exchange.receive(b"defghij\r\n0\r\n\r\n")
    assert (exchange.complete, exchange.body) == (True, b"abcdefghij")

    exchange = opened("Transfer-Encoding: chunked")
    exchange.receive(b"b\r\n", keep=False)
    exchange.receive(b"0123456789a\r\n0\r\n\r\n", keep=False)
    assert exchange.complete


def test_body_that_is_all_framing_is_refused() -> None:
    exchange = opened("Transfer-Encoding: chunked", limits=LIMITS)
    exchange.receive(b"1\r\nx\r\n" * FREE_CHUNKS)
    with pytest.raises(Fault, match="too many tiny chunks"):
        exchange.receive(b"1\r\nx\r\n")


def test_sized_answer_and_what_it_leaves_of_the_connection() -> None:
    exchange = opened(method="GET")
    head = exchange.start(200, b"OK", [(b"content-length", b"2")])
    assert head + exchange.whole(b"ok") + exchange.end() == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert exchange.reusable


def test_stream_is_chunked_for_1_1_and_bare_for_1_0() -> None:
    exchange = opened(method="GET")
    assert exchange.start(200, b"OK", []) == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (exchange.frame(b"x" * 17), exchange.end()) == (b"11\r\n" + b"x" * 17 + b"\r\n", b"0\r\n\r\n")
    assert exchange.reusable

    exchange = opened(method="GET", version="1.0")
    assert exchange.start(200, b"OK", []) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    assert (exchange.frame(b"x"), exchange.end(), exchange.reusable) == (b"x", b"", False)


def test_continue_is_expected_until_the_body_arrives() -> None:
    exchange = opened("Content-Length: 5", "Expect: 100-continue")
    assert exchange.expects_continue
    assert exchange.go_ahead() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert not exchange.expects_continue

    exchange = opened("Content-Length: 5", "Expect: 100-continue")
    exchange.receive(b"h")
    assert not exchange.expects_continue
