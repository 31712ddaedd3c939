"""One request after another on one connection: order, headers, heads that are none."""

import re
import threading
import time

import pytest

from tests.http.support import WAIT, Peer, Running, get, limits, post, request

REQUEST_ID = re.compile(r"req_[0-9a-hjkmnp-tv-z]{26}")


def test_answer_carries_ids_timing_date_and_type(peer: Peer) -> None:
    answer = peer.get("/health")
    assert (answer.status, answer.body) == (200, b"ok")
    assert set(answer.headers) == {
        "date",
        "content-type",
        "content-length",
        "request-id",
        "x-request-id",
        "server-timing",
    }
    assert answer.headers["content-type"] == "application/json"
    assert REQUEST_ID.fullmatch(answer.headers["request-id"])
    assert answer.headers["x-request-id"] == answer.headers["request-id"]
    assert re.fullmatch(r"total;dur=\d+\.\d{3}", answer.headers["server-timing"])
    assert answer.headers["date"].endswith(" GMT")


def test_request_is_answered_when_it_comes_byte_by_byte(peer: Peer) -> None:
    for byte in post("/echo", b"hello") + get("/models/a%2Fb?limit=1"):
        peer.send(bytes([byte]))
    assert [peer.answer().body, peer.answer().body] == [b"hello", b"a/b"]


def test_every_request_has_an_id_of_its_own(peer: Peer) -> None:
    ids = [peer.get("/health").headers["request-id"] for _ in range(3)]
    assert len(set(ids)) == 3


def test_pipelined_requests_are_answered_in_order(running: Running, peer: Peer) -> None:
    peer.send(get("/wait") + b"".join(get(f"/models/{n}") for n in range(9)) + post("/echo", b"last"))
    assert running.site.happened() == "wait started"
    assert running.statistics().requests == 1  # the next is not started before
    running.release()
    bodies = [peer.answer().body for _ in range(11)]
    assert bodies == [b"waited", *(b"%d" % n for n in range(9)), b"last"]


def test_many_pipelined_requests_are_all_answered(running: Running, peer: Peer) -> None:
    # More than a burst, and more than the read-ahead and a read together, so that reading stops and starts.
    sender = threading.Thread(
        target=peer.send, args=(get("/wait") + get("/health", "a: " + "x" * 10_000) * 400,)
    )
    sender.start()
    assert running.site.happened() == "wait started"
    running.release()
    assert peer.answer().body == b"waited"
    assert [peer.answer().status for _ in range(400)] == [200] * 400
    sender.join(WAIT)


def test_pipelined_requests_behind_a_running_one_are_bounded(running: Running, peer: Peer) -> None:
    peer.send(get("/wait"))
    assert running.site.happened() == "wait started"
    peer.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            peer.send(get("/health") * 2000)  # 66 kB


def test_head_has_the_length_but_no_body(peer: Peer) -> None:
    peer.send(request("HEAD", "/health") + get("/health"))
    head = peer.answer(bodiless=True)
    assert (head.status, head.headers["content-length"]) == (200, "2")
    assert peer.answer().body == b"ok"


def test_head_of_a_stream_has_no_body(peer: Peer) -> None:
    peer.send(request("HEAD", "/three") + get("/health"))
    assert peer.answer(bodiless=True).headers["content-type"] == "text/event-stream; charset=utf-8"
    assert peer.answer().body == b"ok"


def test_connection_close_is_honoured(peer: Peer) -> None:
    peer.send(get("/health", "connection: close"))
    answer = peer.answer()
    assert (answer.headers["connection"], answer.body, peer.rest()) == ("close", b"ok", b"")


def test_http_1_0_is_answered_and_closed(peer: Peer) -> None:
    peer.send(b"GET /health HTTP/1.0\r\n\r\n")
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body, peer.rest()) == (
        200,
        "close",
        b"ok",
        b"",
    )


def test_unknown_paths_and_methods_keep_the_connection(peer: Peer) -> None:
    missing = peer.get("/nothing")
    assert (missing.status, missing.body) == (404, b"not_found")
    peer.send(request("OPTIONS", "/health"))
    wrong = peer.answer()
    assert (wrong.status, wrong.body, wrong.headers["allow"]) == (405, b"method_not_allowed", "GET, HEAD")
    assert peer.get("/health").status == 200


def test_empty_segments_and_a_trailing_slash_change_nothing(peer: Peer) -> None:
    for path in ("//health", "/health/", "//health//?a=b", "http://x//health"):
        assert peer.get(path).body == b"ok"
    for path in ("//models/a%2Fb/", "/models//a%2Fb"):
        assert peer.get(path).body == b"a/b"
    assert peer.get("/models/").status == 404  # a parameter is never empty


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"hello there\r\n",
        b"GET /\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: \x00\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        request("POST", "/echo", "content-length: 1", "transfer-encoding: chunked"),
        request("POST", "/echo", "content-length: -1"),
    ],
)
def test_malformed_head_is_answered_with_400_and_close(running: Running, peer: Peer, data: bytes) -> None:
    peer.send(data)
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body) == (400, "close", b"malformed")
    assert REQUEST_ID.fullmatch(answer.headers["request-id"])
    assert {"date", "server-timing", "content-type", "x-request-id"} <= set(answer.headers)
    assert peer.rest() == b""
    assert running.records.errors == []


def test_header_over_the_limit_is_431_and_readable(peer: Peer) -> None:
    peer.send(get("/health", "a: " + "x" * 3_000_000))
    answer = peer.answer()
    assert (answer.status, answer.headers["connection"], answer.body) == (431, "close", b"headers_too_large")


def test_header_up_to_the_limit_is_taken(peer: Peer) -> None:
    space = 64 * 1024 - len(get("/health", "a: "))
    assert [peer.get("/health").status] == [200]
    peer.send(get("/health", "a: " + "x" * space))
    assert peer.answer().status == 200
    peer.send(get("/health", "a: " + "x" * (space + 1)))
    assert peer.answer().status == 431


def test_slow_head_is_408() -> None:
    with Running(limits(header_timeout=0.15)) as running, running.peer() as peer:
        peer.send(b"GET /health HTTP/1.1\r\n")
        answer = peer.answer()
        assert (answer.status, answer.headers["connection"], answer.body) == (408, "close", b"timeout")
        assert peer.rest() == b""


def test_head_that_trickles_does_not_move_its_deadline() -> None:
    with Running(limits(header_timeout=0.3)) as running, running.peer() as peer:
        peer.socket.settimeout(0.05)
        deadline = time.monotonic() + 5
        peer.send(b"GET /health HTTP/1.1\r\na: ")
        while time.monotonic() < deadline:
            peer.send(b"x")
            try:
                assert peer.head()[0] == 408
                return
            except TimeoutError:
                continue
        raise AssertionError("never refused")


def test_idle_connection_is_closed_without_a_word() -> None:
    with Running(limits(idle_timeout=0.15, header_timeout=5)) as running, running.peer() as peer:
        assert peer.get("/health").status == 200
        assert peer.rest() == b""
        running.settles(connections=0)


def test_head_may_start_just_before_the_idle_limit() -> None:
    with Running(limits(idle_timeout=0.3, header_timeout=5)) as running, running.peer() as peer:
        peer.send(b"GET")
        time.sleep(0.5)
        peer.send(get("/health").removeprefix(b"GET"))
        assert peer.answer().status == 200


def test_half_closed_peer_is_answered_by_plain_handlers(running: Running, peer: Peer) -> None:
    peer.send(get("/health") * 40)
    peer.end()
    assert [peer.answer().body for _ in range(40)] == [b"ok"] * 40
    assert peer.rest() == b""
    running.settles(connections=0)


@pytest.mark.parametrize(
    "data", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nhost: x\r\n", post("/echo", b"hello")[:-1]]
)
def test_end_in_the_middle_closes_quietly(running: Running, peer: Peer, data: bytes) -> None:
    peer.send(data)
    peer.end()
    assert peer.rest() == b""
    running.settles(connections=0)
    assert running.records.errors == []


def test_handler_that_raises_is_500_logged_with_its_id_and_the_connection_lives(
    running: Running, peer: Peer
) -> None:
    answer = peer.get("/raises")
    assert (answer.status, answer.body) == (500, b"internal")
    assert running.records.errors == [f"{answer.headers['request-id']} handler failed"]
    assert peer.get("/health").status == 200


def test_header_that_cannot_be_sent_becomes_a_500(peer: Peer) -> None:
    answer = peer.get("/bad-header")
    assert (answer.status, answer.body) == (500, b"internal")
    assert "c" not in answer.headers
    assert peer.get("/health").status == 200


def test_access_log_has_one_line_a_request_without_query_or_headers(running: Running, peer: Peer) -> None:
    peer.send(get("/models/a?key=secret", "authorization: secret"))
    first = peer.answer().headers["request-id"]
    peer.send(b"\x16")
    second = peer.answer().headers["request-id"]
    lines = running.records.access
    assert [re.sub(r"\d+\.\d{3} ms$", "", line) for line in lines] == [
        f"{first} GET /models/a 200 ",
        f"{second} - - 400 ",
    ]


def test_long_paths_and_methods_are_logged_by_their_first_200_bytes(running: Running, peer: Peer) -> None:
    assert peer.get("/" + "a" * 60_000).status == 404
    peer.send(request("B" * 60_000, "/health"))
    assert peer.answer().status == 405
    lines = [line.split(" ") for line in running.records.access]
    assert [line[1:4] for line in lines] == [["GET", "/" + "a" * 199, "404"], ["B" * 200, "/health", "405"]]


def test_statistics_count_connections_and_requests(running: Running, peer: Peer) -> None:
    peer.get("/health")
    with running.peer() as other:
        other.send(get("/wait"))
        assert running.site.happened() == "wait started"
        now = running.statistics()
        assert (now.connections, now.in_flight, now.requests, now.disconnects) == (2, 1, 2, 0)
    running.settles(connections=1, in_flight=0, requests=2, disconnects=1)
