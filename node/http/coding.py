"""Content codings of bodies, undone under a limit on what comes out."""

import sys
import zlib
from typing import Protocol

from node.http.fault import Fault
from node.http.message import Headers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODINGS = ("gzip", "deflate", "zstd")
ALIASES = {"x-gzip": "gzip"}  # RFC 9110 8.4.1.3
MOST_MEMBERS = 64  # a body of empty gzip members, 20 bytes each, is seconds of setting up and no output
ZSTD_WINDOW = 23  # log2 of 8 MiB, the most that RFC 9659 lets a sender ask for; a frame may name gigabytes
MAX_ZSTD_WINDOW = 31  # the library's own limit
ZLIB_METHOD, ZLIB_CHECK = 8, 31  # RFC 1950 2.2; no raw stream begins like this


class Decompressor(Protocol):
    """What `zlib` and `zstd` have in common: one member, or frame, under way."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def content_coding(headers: Headers) -> str | None:
    """Which of CODINGS the body came in, None for a plain one. Raises Fault for others, and for several."""
    if "content-encoding" not in headers:
        return None
    values = ",".join(value for name, value in headers if name == "content-encoding").lower().split(",")
    named = [name for name in map(str.strip, values) if name not in ("", "identity")]
    if not named:
        return None
    coding = ALIASES.get(named[0], named[0])
    if len(named) > 1 or coding not in CODINGS:
        message = (
            f"Content-Encoding {', '.join(named)[:100]!a} is not taken here; one of these is: {_listed()}."
        )
        raise Fault("unsupported_encoding", message, accept_encoding=_listed())
    return coding


def decode(encoded: bytes, coding: str, limit: int) -> bytes:
    """The body behind its coding. Raises Fault.

    Never makes more than limit + 1 bytes of it, so that a bomb costs what a body of the largest size does:
    some 20 ms for 4 MiB, without the GIL.
    """
    decoded, rest = b"", encoded
    if not encoded:
        return b""
    try:
        for _ in range(MOST_MEMBERS):
            member = _decompressor(coding, rest, limit)
            decoded += member.decompress(rest, limit + 1 - len(decoded))
            if len(decoded) > limit:
                raise Fault("body_too_large")
            if not member.eof:
                break
            rest = member.unused_data
            if not rest:
                return decoded
    except (zlib.error, zstd.ZstdError):
        pass
    raise Fault("invalid_encoding", f"The body is not what its Content-Encoding says, {coding}.")


def _decompressor(coding: str, data: bytes, limit: int) -> Decompressor:
    if coding == "zstd":
        size = zstd.get_frame_info(data).decompressed_size
        if size is not None and size > limit:
            raise Fault("body_too_large")
        # A frame that is one segment has its content for a window.
        window = min(max(ZSTD_WINDOW, limit.bit_length()), MAX_ZSTD_WINDOW)
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window})
    if coding == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    # RFC 9110 8.4.1.2: deflate means a zlib stream, and some send the raw one.
    return zlib.decompressobj(zlib.MAX_WBITS if _is_zlib(data) else -zlib.MAX_WBITS)


def _is_zlib(data: bytes) -> bool:
    return data[0] & 15 == ZLIB_METHOD and int.from_bytes(data[:2]) % ZLIB_CHECK == 0


def _listed() -> str:
    return ", ".join(CODINGS)
