"""Method and raw path to a handler."""

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from urllib.parse import unquote

from node.http.fault import Fault
from node.http.message import Request, Response, StreamResponse

Handler = Callable[[Request], Response | Awaitable[Response | StreamResponse]]
Methods = dict[str, Handler]
Segments = tuple[str, ...]
# Comparing takes a millisecond at this length and grows with it; no route is half as long.
LONGEST_COMPARED = 100
ALIKE = 0.6  # of 1: difflib's own idea of what a person would call similar


def is_parameter(segment: str) -> bool:
    """Whether a pattern's segment is a {name}."""
    return segment.startswith("{") and segment.endswith("}")


def bind(pattern: Segments, segments: Segments) -> dict[str, str] | None:
    """The decoded parameters of a path that fits the pattern, None of one that does not."""
    params = {}
    for expected, raw in zip(pattern, segments, strict=True):
        if is_parameter(expected) and raw:
            # Decoded after the path was split: models/b3os%2Fqwen is one segment.
            params[expected[1:-1]] = unquote(raw)
        elif expected != raw:
            return None
    return params


class Router:
    """Routes, added once before the server starts. A literal path wins over one with parameters."""

    def __init__(self) -> None:
        self._literal: dict[str, Methods] = {}
        self._patterns: dict[int, list[tuple[Segments, Methods]]] = {}  # by number of segments

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        """Adds a route. `{name}` in the pattern matches one segment that is not empty."""
        methods = self._methods(pattern)
        if method in methods:
            raise ValueError(f"{method} {pattern} has a handler already")
        methods[method] = handler

    def _methods(self, pattern: str) -> Methods:
        segments = tuple(pattern.split("/"))
        if not any(map(is_parameter, segments)):
            return self._literal.setdefault(pattern, {})
        candidates = self._patterns.setdefault(len(segments), [])
        for known, methods in candidates:
            if known == segments:
                return methods
        methods = {}
        candidates.append((segments, methods))
        return methods

    def match(self, method: str, path: str) -> tuple[Handler, Mapping[str, str]]:
        """The handler of a path (percent-encoded, no query) and its parameters. Raises Fault."""
        methods, params = self._find(path)
        handler = methods.get(method)
        if handler is None and method == "HEAD":
            handler = methods.get("GET")
        if handler is None:
            allow = sorted(methods.keys() | ({"HEAD"} if "GET" in methods else set()))
            raise Fault("method_not_allowed", allow=tuple(allow))
        return handler, params

    def _find(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        literal = self._literal.get(path)
        if literal is not None:
            return literal, {}
        segments = tuple(path.split("/"))
        for pattern, methods in self._patterns.get(len(segments), ()):
            params = bind(pattern, segments)
            if params is not None:
                return methods, params
        raise Fault("not_found", nearest=self._nearest(path))

    def _nearest(self, path: str) -> str | None:
        """The pattern that looks most like the path, None where nothing does."""
        if len(path) > LONGEST_COMPARED:
            return None
        patterns = ["/".join(pattern) for known in self._patterns.values() for pattern, _ in known]
        return next(iter(get_close_matches(path, [*self._literal, *patterns], 1, ALIKE)), None)
