"""What a browser is told of the origins whose pages may ask."""

from collections.abc import Iterator

import pytest

from node.http import Cors
from tests.http.support import Answer, Peer, Running, get, post, request

PAGE = "https://chat.example.com"
EXPOSED = ("request-id", "retry-after")
CHUNKED = "transfer-encoding: chunked"
ASKED = "access-control-request-method: POST"


@pytest.fixture
def listed() -> Iterator[Peer]:
    with Running(cors=Cors((PAGE, "http://localhost:3000"), EXPOSED)) as running, running.peer() as peer:
        yield peer


@pytest.fixture
def any_origin() -> Iterator[Peer]:
    with Running(cors=Cors(("*",), EXPOSED)) as running, running.peer() as peer:
        yield peer


def told(answer: Answer) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("access-control-") or name == "vary"
    }


def ask(peer: Peer, data: bytes) -> tuple[int, dict[str, str]]:
    peer.send(data)
    answer = peer.answer()
    return answer.status, told(answer)


def preflight(peer: Peer, path: str, *lines: str) -> tuple[int, dict[str, str]]:
    peer.send(request("OPTIONS", path, *lines))
    answer = peer.answer(bodiless=True)
    assert {"content-length", "content-type"}.isdisjoint(answer.headers)
    return answer.status, told(answer)


def test_c15_preflight_of_a_listed_origin_is_answered_at_every_path(listed: Peer) -> None:
    for origin in (PAGE, "http://localhost:3000"):
        for path in ("/echo", "/refuse", "/health", "/nothing"):
            fields = (
                f"origin: {origin}",
                ASKED,
                "access-control-request-headers: authorization,x-stainless-os",
            )
            assert preflight(listed, path, *fields) == (
                204,
                {
                    "access-control-allow-origin": origin,
                    "access-control-allow-methods": "GET, HEAD, POST",
                    "access-control-allow-headers": "authorization,x-stainless-os",
                    "access-control-expose-headers": "request-id, retry-after",
                    "access-control-max-age": "7200",
                    "vary": "Origin",
                },
            )
    assert listed.get("/health").body == b"ok"


def test_c15_preflight_of_any_origin_is_answered_without_credentials(any_origin: Peer) -> None:
    status, fields = preflight(any_origin, "/echo", "origin: null", ASKED)
    assert (status, fields["access-control-allow-origin"], fields["access-control-allow-headers"]) == (
        204,
        "*",
        "*",
    )
    assert "access-control-allow-credentials" not in fields


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com",
        PAGE + ".evil.example.com",
        PAGE + ":8443",
        PAGE.upper(),
        "http://chat.example.com",
        "null",
        "*",
        "",
        "\xe9",
    ],
)
def test_c15_unlisted_origin_gets_nothing(listed: Peer, origin: str) -> None:
    status, fields = ask(listed, request("OPTIONS", "/echo", f"origin: {origin}", ASKED))
    assert (status, fields) == (405, {"vary": "Origin"})
    assert ask(listed, get("/health", f"origin: {origin}")) == (200, {"vary": "Origin"})


def test_what_is_no_preflight_is_routed(listed: Peer) -> None:
    allowed = {
        "access-control-allow-origin": PAGE,
        "access-control-expose-headers": "request-id, retry-after",
        "vary": "Origin",
    }
    assert ask(listed, request("OPTIONS", "/echo", f"origin: {PAGE}")) == (405, allowed)
    assert ask(listed, request("OPTIONS", "/echo", ASKED)) == (405, {"vary": "Origin"})
    assert ask(listed, get("/health", f"origin: {PAGE}", ASKED)) == (200, allowed)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (get("/health", "origin: " + PAGE), 200),
        (get("/three", "origin: " + PAGE), 200),
        (post("/refuse", b"", "origin: " + PAGE), 401),
        (get("/nothing", "origin: " + PAGE), 404),
        (get("/echo", "origin: " + PAGE), 405),
        (request("POST", "/echo", "content-length: 99999999", "origin: " + PAGE), 413),
        (post("/echo", b"x", "content-encoding: br", "origin: " + PAGE), 415),
        (get("/raises", "origin: " + PAGE), 500),
        (get("/bad-header", "origin: " + PAGE), 500),
        (request("POST", "/echo", CHUNKED, "origin: " + PAGE) + b"z\r\n", 400),
    ],
)
def test_c15_answers_streams_and_errors_can_be_read_by_the_page(
    listed: Peer, data: bytes, status: int
) -> None:
    assert ask(listed, data) == (
        status,
        {
            "access-control-allow-origin": PAGE,
            "access-control-expose-headers": "request-id, retry-after",
            "vary": "Origin",
        },
    )


def test_head_that_cannot_be_parsed_is_told_to_any_origin_but_to_no_listed_one(
    listed: Peer, any_origin: Peer
) -> None:
    broken = get("/health", "origin: " + PAGE, "a b: c")
    assert ask(listed, broken) == (400, {"vary": "Origin"})
    assert ask(any_origin, broken)[1]["access-control-allow-origin"] == "*"


def test_answers_without_an_origin_tell_caches_that_others_differ(listed: Peer) -> None:
    assert told(listed.get("/health")) == {"vary": "Origin"}


def test_without_a_policy_nothing_is_said(peer: Peer) -> None:
    assert ask(peer, request("OPTIONS", "/echo", f"origin: {PAGE}", ASKED)) == (405, {})
    assert ask(peer, get("/health", f"origin: {PAGE}")) == (200, {})


def test_preflights_are_logged_and_keep_the_connection(any_origin: Peer) -> None:
    for _ in range(3):
        assert preflight(any_origin, "/echo", f"origin: {PAGE}", ASKED)[0] == 204
    any_origin.send(request("OPTIONS", "/echo", f"origin: {PAGE}", ASKED, "content-length: 5") + b"hello")
    assert any_origin.answer(bodiless=True).status == 204
    assert any_origin.get("/health").body == b"ok"
