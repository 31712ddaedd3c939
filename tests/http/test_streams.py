"""Streams: their frames, slow readers, and peers that leave."""

import re

import pytest

from tests.http.support import WAIT, Peer, Running, get, limits, post, request

FRAMES = b"data: 1\n\ndata: 2\n\ndata: 3\n\n"


def test_stream_has_its_headers_and_every_frame_is_a_chunk(peer: Peer) -> None:
    peer.send(get("/three"))
    status, headers = peer.head()
    assert status == 200
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["transfer-encoding"] == "chunked"
    assert re.fullmatch(r"total;dur=\d+\.\d{3}, ttft;dur=12\.346", headers["server-timing"])
    chunks = b"".join(b"9\r\ndata: %d\n\n\r\n" % n for n in (1, 2, 3))
    assert peer.exactly(len(chunks) + 5) == chunks + b"0\r\n\r\n"
    assert peer.get("/health").body == b"ok"


def test_stream_to_http_1_0_is_bare_and_ends_with_the_connection(peer: Peer) -> None:
    peer.send(b"GET /three HTTP/1.0\r\n\r\n")
    status, headers = peer.head()
    assert (status, headers.get("transfer-encoding"), headers["connection"]) == (200, None, "close")
    assert peer.rest() == FRAMES


def test_stream_that_raises_breaks_off_without_its_last_chunk(running: Running, peer: Peer) -> None:
    peer.send(get("/breaks"))
    _, headers = peer.head()
    with pytest.raises(ConnectionError):
        peer.until(b"0\r\n")
    assert running.records.errors == [f"{headers['request-id']} answer broke off"]


def test_cancellation_inside_a_handler_is_an_error_not_the_peer_leaving(running: Running, peer: Peer) -> None:
    answer = peer.get("/inner-cancel")
    assert (answer.status, answer.body) == (500, b"internal")
    peer.send(get("/inner-cancel-stream"))
    peer.until(b"data: 1\n\n\r\n")
    with pytest.raises(ConnectionError):
        peer.exactly(1)
    running.settles(connections=0, in_flight=0, disconnects=0)


@pytest.mark.parametrize("leave", [Peer.end, Peer.reset])
def test_leaving_cancels_a_running_handler(running: Running, leave: object) -> None:
    with running.peer() as peer:
        peer.send(get("/wait"))
        assert running.site.happened() == "wait started"
        leave(peer)  # type: ignore[operator]
        assert running.site.happened() == "wait cancelled"
        running.settles(connections=0, in_flight=0, disconnects=1)
    assert running.records.errors == []
    assert [line.split(" ")[3] for line in running.records.access] == ["499"]


@pytest.mark.parametrize("leave", [Peer.end, Peer.reset])
def test_leaving_closes_a_running_stream(running: Running, leave: object) -> None:
    with running.peer() as peer:
        peer.send(get("/endless"))
        peer.until(b"data: first\n\n")
        leave(peer)  # type: ignore[operator]
        assert running.site.happened() == "endless closed"
        running.settles(connections=0, in_flight=0, disconnects=1)
    assert running.records.errors == []


@pytest.mark.parametrize("leave", [Peer.end, Peer.reset])
def test_leaving_in_the_middle_of_a_body_is_quiet(running: Running, leave: object) -> None:
    with running.peer() as peer:
        peer.send(post("/echo", b"hello")[:-1])
        running.settles(in_flight=1)
        leave(peer)  # type: ignore[operator]
        running.settles(connections=0, in_flight=0, disconnects=1)
    assert running.records.errors == []


def test_handler_that_ignores_its_cancellation_is_cancelled_again(running: Running) -> None:
    with running.peer() as peer:
        peer.send(get("/stubborn"))
        assert running.site.happened() == "stubborn started"
        peer.end()
        assert running.site.happened() == "stubborn closed"
        running.settles(connections=0, disconnects=1)
    assert running.records.errors == []
    assert [line.split(" ")[3] for line in running.records.access] == ["499"]


@pytest.mark.filterwarnings("error::RuntimeWarning")  # "was never awaited"
def test_peer_half_closed_before_its_turn_is_not_worked_for(running: Running, peer: Peer) -> None:
    peer.send(get("/health") * 400 + get("/wait"))  # its end is known long before the last one's cycle
    peer.end()
    assert [peer.answer().body for _ in range(400)] == [b"ok"] * 400
    running.settles(connections=0, disconnects=1)
    assert running.site.events.empty()


def test_resets_at_any_moment_are_quiet(running: Running) -> None:
    refused = request("POST", "/echo", "content-length: 99999999")
    for data in (b"", b"\x16", refused, refused + b"x" * 200_000, get("/three"), get("/health") * 500):
        for _ in range(20):
            peer = running.peer()
            peer.send(data)
            peer.reset()
    running.settles(connections=0, in_flight=0)
    assert running.records.errors == []


def test_slow_reader_is_held_up_in_bounded_memory_and_others_are_served(running: Running) -> None:
    with running.peer(receive_buffer=4096) as slow, running.peer() as other:
        slow.send(get("/flood"))
        slow.until(b"xxx")
        last = -1
        while last != running.site.produced:  # until a round of other requests finds it at a standstill
            last = running.site.produced
            for _ in range(50):
                assert other.get("/health").status == 200
        # Ours is 64 kB; the kernel's send buffer takes up to 4 MB (tcp_wmem) before that fills.
        assert running.site.produced < 8 * 1024 * 1024
        before = running.site.produced
        slow.exactly(2 * before)  # it goes on when read
        assert running.site.produced > before
    assert running.site.happened() == "flood closed"
    running.settles(connections=0)


def test_peer_that_does_not_read_is_dropped_and_counted() -> None:
    with Running(limits(send_timeout=0.2)) as running, running.peer(receive_buffer=4096) as peer:
        peer.send(get("/flood"))
        assert running.site.happened() == "flood closed"
        running.settles(connections=0, stalled=1)


def test_peer_that_pipelines_and_does_not_read_is_held_up_and_dropped() -> None:
    with Running(limits(send_timeout=0.5)) as running, running.peer(receive_buffer=4096) as peer:
        peer.socket.settimeout(WAIT)
        with pytest.raises(ConnectionError):
            while True:
                peer.send(get("/models/" + "x" * 20000))
        running.settles(connections=0, stalled=1)
        assert running.records.errors == []


def test_answers_larger_than_every_buffer_arrive_when_the_reader_takes_its_time(running: Running) -> None:
    with running.peer(receive_buffer=4096) as peer:
        peer.send(request("POST", "/echo", "content-length: 4000000", "connection: close") + b"y" * 4000000)
        assert peer.answer().body == b"y" * 4000000
        assert peer.rest() == b""
