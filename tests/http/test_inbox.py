import pytest

from node.http import Fault
from node.http.inbox import MAX_HEADER_LINES, Inbox

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def inbox_with(data: bytes) -> Inbox:
    inbox = Inbox()
    inbox.append(data)
    return inbox


def test_head_that_comes_byte_by_byte_is_taken_with_its_last_byte() -> None:
    inbox = Inbox()
    for byte in HEAD[:-1]:
        inbox.append(bytes([byte]))
        assert inbox.take_head(1000) is None
    inbox.append(HEAD[-1:])
    assert inbox.take_head(1000) == HEAD
    assert len(inbox) == 0
    shorter = b"GET / HTTP/1.0\r\n\r\n"  # ends before where the search for the first one had got to
    inbox.append(shorter)
    assert inbox.take_head(1000) == shorter
    inbox.append(b"hello\r\n")
    with pytest.raises(Fault):
        inbox.take_head(1000)


def test_heads_are_taken_one_by_one_and_the_rest_stays() -> None:
    inbox = inbox_with(HEAD + HEAD + b"GET")
    assert [inbox.take_head(1000), inbox.take_head(1000), inbox.take_head(1000)] == [HEAD, HEAD, None]
    assert inbox.take_all() == b"GET"


def test_bare_line_feeds_end_a_head() -> None:
    assert inbox_with(b"GET / HTTP/1.1\nhost: x\n\nrest").take_head(1000) == b"GET / HTTP/1.1\nhost: x\n\n"


def test_empty_lines_before_a_head_are_skipped() -> None:
    inbox = inbox_with(b"\r")
    assert inbox.take_head(1000) is None
    inbox.append(b"\n\r\n" + HEAD)
    assert inbox.take_head(1000) == HEAD


def test_limit_holds_for_whole_and_unfinished_heads_alike() -> None:
    assert inbox_with(HEAD).take_head(len(HEAD)) == HEAD
    for data in (HEAD, HEAD[:-1] + b" " * 10):
        with pytest.raises(Fault) as raised:
            inbox_with(data).take_head(len(HEAD) - 1)
        assert (raised.value.kind, raised.value.status) == ("headers_too_large", 431)


def test_too_many_fields_are_too_large() -> None:
    lines = MAX_HEADER_LINES - 2  # less the request line and the empty one
    fitting = b"GET / HTTP/1.1\r\n" + b"a:\r\n" * lines + b"\r\n"
    assert inbox_with(fitting).take_head(10**6) == fitting
    with pytest.raises(Fault) as raised:
        inbox_with(fitting[:-2] + b"a:\r\n\r\n").take_head(10**6)
    assert raised.value.kind == "headers_too_large"


@pytest.mark.parametrize(
    "start", [b"\x16\x03\x01\x02", b" GET", b"\0", b"hello\r\n", b"GET / HTTP/1.1 x\n", b"GET  / HTTP/1.1\n"]
)
def test_what_cannot_become_a_request_is_refused_before_it_ends(start: bytes) -> None:
    with pytest.raises(Fault) as raised:
        inbox_with(start).take_head(1000)
    assert raised.value.kind == "malformed"
