"""The table of errors, in no dialect's words. Code raises a row of it with a path; a dialect's envelope tells it."""

from __future__ import annotations

from typing import Literal, NamedTuple

ErrorCode = Literal[
    "authentication_required",
    "invalid_api_key",
    "insufficient_scope",
    "model_not_permitted",
    "model_not_available",
    "not_found",
    "method_not_allowed",
    "invalid_request",
    "unsupported_parameter",
    "context_length_exceeded",
    "request_timeout",
    "body_too_large",
    "unsupported_media_type",
    "headers_too_large",
    "rate_limited",
    "internal",
    "engine_error",
    "model_loading",
    "timeout",
    "overloaded",
]


class ErrorRow(NamedTuple):
    """status  HTTP
    message  said when the raiser has nothing more exact
    retry    seconds of Retry-After, or None
    """

    status: int
    message: str
    retry: int | None = None


ERRORS: dict[ErrorCode, ErrorRow] = {
    "authentication_required": ErrorRow(
        401, "a key is needed: send Authorization: Bearer KEY or x-api-key: KEY"
    ),
    "invalid_api_key": ErrorRow(401, "this key does not open this node"),
    "insufficient_scope": ErrorRow(403, "this key may not do that"),
    "model_not_permitted": ErrorRow(403, "this key may not use this model"),
    "model_not_available": ErrorRow(404, "this model is not served on this node"),
    "not_found": ErrorRow(404, "nothing answers at this path"),
    "method_not_allowed": ErrorRow(405, "this path does not take this method"),
    "invalid_request": ErrorRow(400, "this request is not valid"),
    "unsupported_parameter": ErrorRow(400, "Extra inputs are not permitted"),
    "context_length_exceeded": ErrorRow(400, "prompt is too long"),
    "request_timeout": ErrorRow(408, "the request did not arrive in time"),
    "body_too_large": ErrorRow(413, "the body is larger than this node takes"),
    "unsupported_media_type": ErrorRow(415, "the body must be application/json"),
    "headers_too_large": ErrorRow(431, "the head is larger than this node takes"),
    "rate_limited": ErrorRow(429, "too many requests", retry=1),
    "internal": ErrorRow(500, "the node made a mistake; its log says which"),
    "engine_error": ErrorRow(500, "the model could not be run; the log says why"),
    "model_loading": ErrorRow(503, "the model is not ready yet", retry=5),
    "timeout": ErrorRow(504, "the answer did not come in time"),
    "overloaded": ErrorRow(529, "too many requests wait; try again", retry=2),
}


class ApiError(Exception):
    """A row of ERRORS, told to the peer.

    param  path of the field at fault: `messages.2.content.0`
    retry  seconds of Retry-After, where they are known better than the row knows them
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        param: str | None = None,
        retry: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        row = ERRORS[code]
        self.code = code
        self.row = row
        self.message = message or row.message
        self.param = param
        retry = row.retry if retry is None else retry
        self.headers = headers if retry is None else (*headers, ("retry-after", str(retry)))
        super().__init__(f"{code}: {self.message}")


def invalid(path: str, message: str) -> ApiError:
    """400 for a field whose value is wrong, told as `path: message`. The path is empty for the whole body."""
    return ApiError("invalid_request", f"{path}: {message}" if path else message, param=path or None)


def unsupported(path: str, message: str = ERRORS["unsupported_parameter"].message) -> ApiError:
    """400 for a field that this node does not take, told as `path: message`, in the words clients look for."""
    return ApiError("unsupported_parameter", f"{path}: {message}", param=path)
