"""Errors become responses here and nowhere else. Their bodies are a dialect's."""

from __future__ import annotations

from collections.abc import Callable

from node.access.keys import CredentialMissing, CredentialUnknown
from node.api.errors import ApiError, ErrorCode
from node.engine.engine import Overloaded
from node.http.fault import Fault
from node.http.message import SHOWN_BYTES, Request, Response

FAULT_CODES: dict[str, ErrorCode] = {
    "malformed": "invalid_request",
    "invalid_encoding": "invalid_request",
    "unsupported_encoding": "unsupported_media_type",
    "timeout": "request_timeout",
    "body_too_large": "body_too_large",
    "headers_too_large": "headers_too_large",
    "not_found": "not_found",
    "method_not_allowed": "method_not_allowed",
}
ErrorBody = Callable[[ApiError, str], bytes]  # of a dialect: an error and the request's id in its shape


def error_response(
    error: BaseException, request: Request | None, request_id: str, error_body: ErrorBody
) -> Response:
    """The answer where a handler, or the reading of a request, raised; `request` is None before its head is read."""
    if request is not None and isinstance(error, Fault) and error.kind == "not_found":
        error = ApiError("not_found", _not_found(request.path, error.nearest))
    told = as_api_error(error)
    return Response(told.row.status, error_body(told, request_id), told.headers)


def _not_found(path: str, nearest: str | None) -> str:
    """Names the path, of which HTTP took printable ASCII alone, and what was probably meant."""
    message = f"nothing answers at {path[:SHOWN_BYTES]}"
    if "/v1/v1/" in path:
        return f"{message}, which holds /v1 twice: end the base URL before it, clients add it"
    return message if nearest is None else f"{message}; the nearest route is {nearest}"


def as_api_error(error: BaseException) -> ApiError:
    """The row of the table for `error`. What is not theirs is ours, and told without internals."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Fault):
        return ApiError(FAULT_CODES[error.kind], error.message)
    if isinstance(error, CredentialMissing):
        return ApiError("authentication_required", headers=(("www-authenticate", "Bearer"),))
    if isinstance(error, CredentialUnknown):
        message = f"the key in {error.header} does not open this node"
        if error.unread:
            message += f"; {error.unread} was not read, because {error.header} holds a key"
        return ApiError("invalid_api_key", message, headers=(("www-authenticate", "Bearer"),))
    if isinstance(error, Overloaded):
        return ApiError("overloaded", retry=error.retry_after)
    return ApiError("internal")
