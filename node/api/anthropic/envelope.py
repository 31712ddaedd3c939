"""An error in Anthropic's shape: the body that its SDKs make an exception of."""

from __future__ import annotations

import msgspec

from node.api.anthropic.fields import REFUSAL_DETAILS
from node.api.errors import ApiError

ERROR_TYPES = {  # Anthropic's word for each HTTP status in the table of errors; SDKs choose the exception class by it
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(error: ApiError, request_id: str) -> bytes:
    """JSON; once a stream has begun, the data of its error event."""
    b3os = {"code": error.code} | ({"param": error.param} if error.param else {})
    details = REFUSAL_DETAILS.get(error.param or "") if error.code == "unsupported_parameter" else None
    told = {
        **({"details": details} if details else {}),
        "message": error.message,
        "type": ERROR_TYPES[error.row.status],
    }
    return msgspec.json.encode({"b3os": b3os, "error": told, "request_id": request_id, "type": "error"})
