import asyncio
import socket

import pytest

from node.http import Server
from tests.http.support import LIMITS, WAIT, Running, get, render


def start_shutdown(running: Running, grace: float) -> "asyncio.Future[None]":
    return asyncio.run_coroutine_threadsafe(running.server.shutdown(grace), running.loop)  # type: ignore[return-value]


def test_shutdown_closes_idle_connections_and_lets_running_requests_finish(running: Running) -> None:
    with running.peer() as idle, running.peer() as half, running.peer() as busy, running.peer() as stream:
        assert idle.get("/health").status == 200
        half.send(b"GET /hea")
        busy.send(get("/wait"))
        assert running.site.happened() == "wait started"
        stream.send(get("/endless"))
        stream.until(b"data: first\n\n\r\n")
        running.settles(connections=4, in_flight=2)
        port = running.server.port

        done = start_shutdown(running, 100 * WAIT)
        assert (idle.rest(), half.rest()) == (b"", b"")
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", port), timeout=WAIT).recv(1)
        assert not done.done()

        running.release()
        answer = busy.answer()
        assert (answer.body, answer.headers["connection"], busy.rest()) == (b"waited", "close", b"")
        assert stream.rest() == b"c\r\ndata: last\n\n\r\n0\r\n\r\n"
        done.result(WAIT)  # type: ignore[call-arg]
    assert running.statistics().connections == 0
    assert running.records.errors == []


def test_shutdown_cancels_what_is_left_after_the_grace(running: Running) -> None:
    with running.peer() as busy, running.peer() as stream:
        busy.send(get("/wait"))
        assert running.site.happened() == "wait started"
        stream.send(get("/endless"))
        stream.until(b"data: first\n\n\r\n")
        start_shutdown(running, 0.05).result(WAIT)  # type: ignore[call-arg]
        assert {running.site.happened(), running.site.happened()} == {"wait cancelled", "endless closed"}
    now = running.statistics()
    assert (now.connections, now.in_flight, now.disconnects) == (0, 0, 0)
    assert running.records.errors == []


def test_shutdown_waits_for_an_answer_to_leave(running: Running) -> None:
    with running.peer(receive_buffer=4096) as peer:
        body = b"y" * 4_000_000
        peer.send(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n" + body)
        peer.until(b"\r\n\r\n")
        done = start_shutdown(running, WAIT)
        assert peer.exactly(len(body)) == body
        done.result(WAIT)  # type: ignore[call-arg]


def test_server_listens_on_sockets_that_are_bound_already(running: Running) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    server = Server(running.site.router, render, LIMITS)
    running.call(server.start(sockets=[bound]))
    assert server.port == bound.getsockname()[1]
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as client:
        client.sendall(get("/health", "connection: close"))
        assert client.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    running.call(server.shutdown(WAIT))
