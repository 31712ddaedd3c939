"""Cross-origin requests, by the Fetch standard: what a browser lets pages of other origins ask and read."""

from collections.abc import Iterable

from node.http.message import Request, Response

ANY = "*"
# Of every route: a page that asks for a method which its path does not take can read the 405 that says so.
METHODS = "GET, HEAD, POST"
MAX_AGE_SECONDS = 7200  # for which a browser need not ask again; Chromium keeps no answer for longer


class Cors:
    """Which origins may ask, and what of the answers their pages may read.

    Credentials in the standard's sense, cookies and certificates that a browser adds by itself, are allowed to no
    origin: keys come in header fields that the page has to know and set.
    """

    def __init__(self, origins: Iterable[str], exposed: Iterable[str] = ()) -> None:
        """origins: as browsers send them, `https://chat.example.com`, or `*`; exposed: names of response fields."""
        self._origins = frozenset(origins)
        self._exposed = ", ".join(exposed)

    def fields(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        """What every answer carries, errors and streams too, to a request with this Origin."""
        allowed = self._allowed(origin)
        fields = [(b"vary", b"Origin")]  # a cache must know, also where the answer is to no origin
        if allowed is not None:
            fields.append((b"access-control-allow-origin", allowed.encode("ascii")))
            if self._exposed:
                fields.append((b"access-control-expose-headers", self._exposed.encode("ascii")))
        return fields

    def preflight(self, request: Request) -> Response | None:
        """The answer to what a browser asks before it sends the request itself; None for all other requests.

        The same at every path, and without a key, which browsers do not send yet: a page that may not ask cannot
        read why it was refused.
        """
        headers = request.headers
        if request.method != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        if self._allowed(headers.get("origin")) is None:
            return None
        # SDKs send a dozen fields, and more with every release. `*` would not stand for Authorization.
        asked = headers.get("access-control-request-headers") or ANY
        told = (
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", asked),
            ("access-control-max-age", str(MAX_AGE_SECONDS)),
        )
        return Response(204, headers=told)

    def _allowed(self, origin: str | None) -> str | None:
        if ANY in self._origins:
            return ANY
        return origin if origin in self._origins else None
