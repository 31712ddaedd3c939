"""Bodies in a content coding: undone up to the limit, refused with a reason."""

import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.http import Fault, Headers
from node.http import connection as connection_module
from node.http.coding import CODINGS, MOST_MEMBERS, content_coding, decode, zstd
from tests.http.support import WAIT, Peer, Running, get, limits, post, request

MIB = 1024 * 1024
LIMIT = 4 * MIB


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def streamed_zstd(data: bytes) -> bytes:
    """Without the size of its content in the frame's head."""
    packer = zstd.ZstdCompressor()
    return packer.compress(data) + packer.flush()


FORMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "zstd": ("zstd", zstd.compress),
    "streamed zstd": ("zstd", streamed_zstd),
}
every_form = pytest.mark.parametrize(("name", "pack"), FORMS.values(), ids=FORMS)


def kind(call: Callable[[], object]) -> tuple[str, int]:
    with pytest.raises(Fault) as raised:
        call()
    return raised.value.kind, raised.value.status


@every_form
def test_c13_encoded_body_is_read_as_its_plain_form(
    peer: Peer, name: str, pack: Callable[[bytes], bytes]
) -> None:
    body = b"Vierzig Grad in der Sonne. " * 20_000
    packed = pack(body)
    peer.send(post("/echo", packed, f"content-encoding: {name}") + get("/health"))
    assert [peer.answer().body, peer.answer().body] == [body, b"ok"]
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    peer.send(request("POST", "/echo", "transfer-encoding: chunked", f"content-encoding: {name}") + chunk)
    assert peer.answer().body == body


@every_form
@given(body=st.binary(max_size=3000))
def test_any_body_survives_its_coding(name: str, pack: Callable[[bytes], bytes], body: bytes) -> None:
    coding = content_coding(Headers([("Content-Encoding", name)]))
    assert coding is not None
    assert decode(pack(body), coding, len(body)) == body


@every_form
def test_limit_holds_for_what_comes_out_to_the_byte(name: str, pack: Callable[[bytes], bytes]) -> None:
    coding = name.lower().removeprefix("x-")
    assert decode(pack(bytes(LIMIT)), coding, LIMIT) == bytes(LIMIT)
    assert kind(lambda: decode(pack(bytes(LIMIT + 1)), coding, LIMIT)) == ("body_too_large", 413)
    assert kind(lambda: decode(pack(b"x"), coding, 0)) == ("body_too_large", 413)


@every_form
def test_bomb_costs_no_more_memory_than_the_limit(name: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(64 * MIB))
    tracemalloc.start()
    try:
        kind(lambda: decode(bomb, name.lower().removeprefix("x-"), MIB))
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_zstd_frame_may_not_ask_for_a_window_of_gigabytes() -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    wide = packer.compress(b"hello") + packer.flush()
    assert kind(lambda: decode(wide, "zstd", LIMIT)) == ("invalid_encoding", 400)
    # One that is a single segment has its content for a window, and that may be as large as the limit.
    assert len(decode(zstd.compress(bytes(20 * MIB)), "zstd", 20 * MIB)) == 20 * MIB


@every_form
def test_c13_what_is_not_in_its_coding_is_400(peer: Peer, name: str, pack: Callable[[bytes], bytes]) -> None:
    whole = pack(b"hello" * 100)
    for data in (b"{}", b"\0", whole[:-1], whole[:1], whole + b"{", whole[1:]):
        peer.send(post("/echo", data, f"content-encoding: {name}"))
        answer = peer.answer()
        assert (answer.status, answer.body) == (400, b"invalid_encoding"), data
    assert peer.get("/health").body == b"ok"  # where the next request starts was never in doubt


def test_no_damaged_byte_raises_anything_but_a_fault() -> None:
    for name, pack in FORMS.values():
        whole = pack(b"hello " * 50)
        for position in range(len(whole)):
            for bit in (1, 16, 128):
                damaged = whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :]
                try:
                    decode(damaged, name.lower().removeprefix("x-"), 1000)
                except Fault as fault:
                    assert fault.kind in ("invalid_encoding", "body_too_large")


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_members_follow_one_another_up_to_so_many(coding: str, pack: Callable[[bytes], bytes]) -> None:
    assert decode(pack(b"a") + pack(b"") + pack(b"b"), coding, 2) == b"ab"
    assert decode(pack(b"") * (MOST_MEMBERS - 1) + pack(b"ab"), coding, 2) == b"ab"
    assert kind(lambda: decode(pack(b"") * (MOST_MEMBERS + 1), coding, 2))[0] == "invalid_encoding"
    assert kind(lambda: decode(pack(b"ab") + pack(b"c"), coding, 2))[0] == "body_too_large"


def test_empty_body_is_empty_in_any_coding(peer: Peer) -> None:
    for coding in CODINGS:
        peer.send(post("/echo", b"", f"content-encoding: {coding}"))
        assert (peer.answer().status, peer.unread) == (200, b"")


@pytest.mark.parametrize(
    ("values", "coding"),
    [
        ((), None),
        (("",), None),
        (("Identity",), None),
        (("identity, GZIP",), "gzip"),
        ((" x-gzip ",), "gzip"),
        (("zstd", ""), "zstd"),
    ],
)
def test_coding_is_read_whatever_its_case_and_with_identity_beside_it(
    values: tuple[str, ...], coding: str | None
) -> None:
    assert content_coding(Headers(("Content-Encoding", value) for value in values)) == coding


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("br",), "'br'"),
        (("gzip, gzip",), "'gzip, gzip'"),
        (("gzip", "deflate"), "'gzip, deflate'"),
        (("utf-8",), "'utf-8'"),
        (("\xe9\x80",), r"'\xe9\x80'"),
        (("x" * 60_000,), "'" + "x" * 100 + "'"),
    ],
)
def test_c13_other_codings_and_several_are_415_and_named(values: tuple[str, ...], named: str) -> None:
    with pytest.raises(Fault) as raised:
        content_coding(Headers(("Content-Encoding", value) for value in values))
    fault = raised.value
    assert (fault.kind, fault.status, fault.close) == ("unsupported_encoding", 415, False)
    assert (
        fault.message == f"Content-Encoding {named} is not taken here; one of these is: gzip, deflate, zstd."
    )
    assert fault.headers == (("accept-encoding", "gzip, deflate, zstd"),)


def test_415_comes_before_the_body_and_says_what_is_taken(peer: Peer) -> None:
    peer.send(request("POST", "/echo", "content-length: 5", "content-encoding: br", "expect: 100-continue"))
    answer = peer.answer()
    assert (answer.status, answer.body) == (415, b"unsupported_encoding")
    assert answer.headers["accept-encoding"] == "gzip, deflate, zstd"


def test_encoded_bytes_are_limited_as_plain_ones_are() -> None:
    with Running(limits(max_body=100)) as running, running.peer() as peer:
        peer.send(post("/echo", gzip.compress(b"x" * 100), "content-encoding: gzip"))
        assert peer.answer().body == b"x" * 100
        peer.send(post("/echo", gzip.compress(b"x" * 101), "content-encoding: gzip"))
        assert (peer.answer().status, peer.rest()) == (413, b"")


def test_others_are_answered_while_a_body_is_decoded(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(encoded: bytes, coding: str, limit: int) -> bytes:
        begun.set()
        assert go_on.wait(WAIT)
        return decode(encoded, coding, limit)

    monkeypatch.setattr(connection_module, "decode", slow)
    with running.peer() as first, running.peer() as second:
        first.send(post("/echo", gzip.compress(b"slow"), "content-encoding: gzip"))
        assert begun.wait(WAIT)
        assert second.get("/health").body == b"ok"
        go_on.set()
        assert first.answer().body == b"slow"


def test_peer_that_leaves_while_its_body_is_decoded_disturbs_nobody(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(encoded: bytes, coding: str, limit: int) -> bytes:
        begun.set()
        assert go_on.wait(WAIT)
        raise Fault("body_too_large")

    monkeypatch.setattr(connection_module, "decode", slow)
    with running.peer() as peer:
        peer.send(post("/echo", gzip.compress(b"slow"), "content-encoding: gzip"))
        assert begun.wait(WAIT)
        peer.reset()
    running.settles(connections=0, in_flight=0, disconnects=1)
    go_on.set()
    with running.peer() as peer:
        assert peer.get("/health").body == b"ok"
    assert running.records.errors == []
