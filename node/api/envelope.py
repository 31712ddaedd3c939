"""Errors become bytes here and nowhere else, in the dialect of the path they happened on."""

from __future__ import annotations

import msgspec

from node.access.keys import CredentialMissing, CredentialUnknown
from node.api.errors import ApiError
from node.engine.engine import Overloaded
from node.http.fault import Fault
from node.http.message import Request, Response

FAULTS = {
    "malformed": "invalid_request",
    "unsupported_encoding": "invalid_request",
    "timeout": "request_timeout",
    "body_too_large": "body_too_large",
    "headers_too_large": "headers_too_large",
    "not_found": "not_found",
    "method_not_allowed": "method_not_allowed",
}


def render_error(error: BaseException, request: Request | None, request_id: str) -> Response:
    """What HTTP is handed to answer with when a handler, or the reading of a request, raised."""
    if request is not None and isinstance(error, Fault) and error.kind == "not_found":
        error = ApiError("not_found", _not_found(request.path))
    return anthropic_error(error, request_id)


def _not_found(path: str) -> str:
    """Names the mistake that most of those who land here made."""
    if "/v1/v1/" in path:
        return (
            "nothing answers at this path, which holds /v1 twice: end the base URL before it, clients add it"
        )
    return "nothing answers at this path"


def anthropic_error(error: BaseException, request_id: str) -> Response:
    told = as_api_error(error)
    b3os = {"code": told.code} | ({"param": told.param} if told.param else {})
    details = {} if told.details is None else {"details": told.details}
    error_body = {**details, "message": told.message, "type": told.row.type}
    body = {"b3os": b3os, "error": error_body, "request_id": request_id, "type": "error"}
    return Response(told.row.status, msgspec.json.encode(body), told.headers)


def as_api_error(error: BaseException) -> ApiError:
    """The row of the table for `error`. What is not theirs is ours, and told without internals."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Fault):
        return ApiError(FAULTS[error.kind], error.message)
    if isinstance(error, CredentialMissing):
        return ApiError("authentication_required", headers=(("www-authenticate", "Bearer"),))
    if isinstance(error, CredentialUnknown):
        return ApiError("invalid_api_key", headers=(("www-authenticate", "Bearer"),))
    if isinstance(error, Overloaded):
        return ApiError("overloaded", retry=error.retry_after)
    return ApiError("internal")
