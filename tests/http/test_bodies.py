"""Bodies: read, refused before they are read, dropped, or never coming."""

import threading

import pytest

from tests.http.support import WAIT, Peer, Running, get, limits, post, request

MIB = 1024 * 1024
CHUNKED = "transfer-encoding: chunked"


def test_body_of_the_largest_size_comes_back_whole(peer: Peer) -> None:
    body = bytes(range(256)) * (4 * MIB // 256)
    sender = threading.Thread(target=peer.send, args=(post("/echo", body),))
    sender.start()
    answer = peer.answer()
    sender.join(WAIT)
    assert answer.body == body


def test_chunked_body_with_trailers_is_read_and_the_next_request_follows(peer: Peer) -> None:
    chunks = b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nx-checksum: 1\r\n\r\n"
    peer.send(request("POST", "/echo", CHUNKED) + chunks + get("/health"))
    assert [peer.answer().body, peer.answer().body] == [b"hello", b"ok"]


def test_empty_bodies_are_read_as_such(peer: Peer) -> None:
    peer.send(
        request("POST", "/echo") + post("/echo", b"") + request("POST", "/echo", CHUNKED) + b"0\r\n\r\n"
    )
    assert [peer.answer().body for _ in range(3)] == [b"", b"", b""]


def test_length_over_the_limit_is_refused_before_the_body_and_the_client_that_sends_it_all_can_read_it(
    running: Running, peer: Peer
) -> None:
    peer.send(request("POST", "/echo", f"content-length: {20 * MIB}"))
    for _ in range(20):
        peer.send(b"x" * MIB)
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body) == (413, "close", b"body_too_large")
    assert peer.rest() == b""
    running.settles(connections=1)  # it waits for the client to close
    peer.end()
    running.settles(connections=0)


def test_chunked_body_over_the_limit_is_refused_and_the_client_that_sends_it_all_can_read_it(
    peer: Peer,
) -> None:
    peer.send(request("POST", "/echo", CHUNKED))
    for _ in range(20):
        peer.send(b"100000\r\n" + b"x" * MIB + b"\r\n")
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body) == (413, "close", b"body_too_large")
    assert peer.rest() == b""


def test_lingering_ends_after_so_many_bytes_and_after_so_long() -> None:
    refused = request("POST", "/echo", f"content-length: {64 * MIB}")
    with Running(limits(max_linger=MIB)) as running, running.peer() as peer:
        peer.send(refused)
        with pytest.raises(ConnectionError):
            for _ in range(64):
                peer.send(b"x" * MIB)
        running.settles(connections=0)
    with Running(limits(linger_timeout=0.1)) as running, running.peer() as peer:
        peer.send(refused)
        running.settles(connections=0, requests=1)


def test_small_unread_body_is_dropped_and_the_connection_lives(peer: Peer) -> None:
    for path in ("/refuse", "/late-refusal"):
        peer.send(request("POST", path, "content-length: 5"))
        answer = peer.answer()
        assert (answer.status, answer.body, "connection" in answer.headers) == (401, b"no", False)
        peer.send(b"he")
        peer.send(b"llo" + get("/health"))
        assert peer.answer().body == b"ok"
        peer.send(post(path, b"hello") + get("/health"))
        assert [peer.answer().status, peer.answer().status] == [401, 200]


def test_chunked_unread_body_is_dropped_if_it_is_here(peer: Peer) -> None:
    peer.send(request("POST", "/refuse", CHUNKED) + b"2\r\nhe\r\n0\r\n\r\n" + get("/health"))
    assert [peer.answer().status, peer.answer().status] == [401, 200]
    peer.send(request("POST", "/refuse", CHUNKED) + b"2\r\nh")
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], peer.rest()) == (401, "close", b"")


@pytest.mark.parametrize("path", ["/refuse", "/late-refusal", "/nothing"])
def test_large_unread_body_ends_the_connection_but_the_answer_is_readable(peer: Peer, path: str) -> None:
    peer.send(request("POST", path, f"content-length: {10 * MIB}"))
    for _ in range(10):
        peer.send(b"x" * MIB)
    answer = peer.answer()
    assert (answer.status in (401, 404), answer.headers["connection"], peer.rest()) == (True, "close", b"")


def test_bad_chunk_is_400_and_close(running: Running, peer: Peer) -> None:
    peer.send(request("POST", "/echo", CHUNKED) + b"3\r\nhel\r\nzz\r\n")
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body, peer.rest()) == (
        400,
        "close",
        b"malformed",
        b"",
    )
    assert running.records.errors == []


def test_chunk_over_the_limit_is_refused_while_its_sender_waits(peer: Peer) -> None:
    peer.send(request("POST", "/echo", CHUNKED) + b"FFFFFFFF\r\n")
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body) == (413, "close", b"body_too_large")


def test_slow_body_is_408() -> None:
    with Running(limits(body_timeout=0.15)) as running, running.peer() as peer:
        peer.send(post("/echo", b"hello")[:-1])
        answer = peer.answer()
        assert (answer.status, answer.headers["connection"], answer.body) == (408, "close", b"timeout")
        assert peer.rest() == b""


def test_rest_of_a_dropped_body_that_never_comes_closes_quietly() -> None:
    with Running(limits(body_timeout=0.15)) as running, running.peer() as peer:
        peer.send(post("/refuse", b"hello")[:-1])
        assert peer.answer().status == 401
        running.settles(connections=0)


def test_continue_is_sent_when_the_handler_asks(peer: Peer) -> None:
    peer.send(request("POST", "/echo", "content-length: 5", "expect: 100-continue"))
    assert peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.send(b"hello")
    answer = peer.answer()
    assert (answer.status, answer.body, "connection" in answer.headers) == (200, b"hello", False)


def test_continue_is_left_out_when_the_body_is_here_already(peer: Peer) -> None:
    peer.send(post("/echo", b"hello", "expect: 100-continue"))
    assert peer.answer().status == 200


@pytest.mark.parametrize(
    ("path", "length", "status"), [("/refuse", 5, 401), ("/echo", 5 * MIB, 413), ("/nothing", 5, 404)]
)
def test_continue_is_withheld_by_a_refusal(peer: Peer, path: str, length: int, status: int) -> None:
    peer.send(request("POST", path, f"content-length: {length}", "expect: 100-continue"))
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], peer.rest()) == (status, "close", b"")


def test_http_1_0_expects_nothing(peer: Peer) -> None:
    peer.send(b"POST /echo HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    peer.send(b"ok")
    assert (peer.answer().body, peer.rest()) == (b"ok", b"")
