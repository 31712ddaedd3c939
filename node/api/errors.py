"""The table of errors. Code raises a row of it with a path; `envelope.py` turns it into bytes."""

from __future__ import annotations

from typing import Any, NamedTuple


class ErrorRow(NamedTuple):
    """status  HTTP
    type     Anthropic's word, from which SDKs choose the exception class
    message  said when the raiser has nothing more exact
    retry    seconds of Retry-After, or None
    """

    status: int
    type: str
    message: str
    retry: int | None = None


ERRORS: dict[str, ErrorRow] = {
    "authentication_required": ErrorRow(
        401, "authentication_error", "a key is needed: send Authorization: Bearer KEY or x-api-key: KEY"
    ),
    "invalid_api_key": ErrorRow(401, "authentication_error", "this key does not open this node"),
    "insufficient_scope": ErrorRow(403, "permission_error", "this key may not do that"),
    "model_not_permitted": ErrorRow(403, "permission_error", "this key may not use this model"),
    "model_not_available": ErrorRow(404, "not_found_error", "this model is not served on this node"),
    "not_found": ErrorRow(404, "not_found_error", "nothing answers at this path"),
    "method_not_allowed": ErrorRow(405, "invalid_request_error", "this path does not take this method"),
    "invalid_request": ErrorRow(400, "invalid_request_error", "this request is not valid"),
    "unsupported_parameter": ErrorRow(400, "invalid_request_error", "Extra inputs are not permitted"),
    "context_length_exceeded": ErrorRow(400, "invalid_request_error", "prompt is too long"),
    "request_timeout": ErrorRow(408, "timeout_error", "the request did not arrive in time"),
    "body_too_large": ErrorRow(413, "request_too_large", "the body is larger than this node takes"),
    "unsupported_media_type": ErrorRow(415, "invalid_request_error", "the body must be application/json"),
    "headers_too_large": ErrorRow(431, "invalid_request_error", "the head is larger than this node takes"),
    "rate_limited": ErrorRow(429, "rate_limit_error", "too many requests", retry=1),
    "internal": ErrorRow(500, "api_error", "the node made a mistake; its log says which"),
    "engine_error": ErrorRow(500, "api_error", "the model could not be run; the log says why"),
    "model_loading": ErrorRow(503, "overloaded_error", "the model is not ready yet", retry=5),
    "timeout": ErrorRow(504, "timeout_error", "the answer did not come in time"),
    "overloaded": ErrorRow(529, "overloaded_error", "too many requests wait; try again", retry=2),
}


class ApiError(Exception):
    """A row of ERRORS, told to the peer.

    param    path of the field at fault: `messages.2.content.0`
    details  of Anthropic's shape, for the few refusals after which SDKs go on by themselves
    retry    seconds of Retry-After, where they are known better than the row knows them
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        param: str | None = None,
        details: dict[str, Any] | None = None,
        retry: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        row = ERRORS[code]
        self.code = code
        self.row = row
        self.message = message or row.message
        self.param = param
        self.details = details
        retry = row.retry if retry is None else retry
        self.headers = headers if retry is None else (*headers, ("retry-after", str(retry)))
        super().__init__(f"{code}: {self.message}")


def invalid(param: str | None, message: str) -> ApiError:
    """400 for a field whose value is wrong."""
    return ApiError("invalid_request", message, param=param)


def unsupported(param: str, message: str | None = None, details: dict[str, Any] | None = None) -> ApiError:
    """400 for a field that this node does not take, in the wording that clients look for."""
    message = message or f"{param}: Extra inputs are not permitted"
    return ApiError("unsupported_parameter", message, param=param, details=details)
