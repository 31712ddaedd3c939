"""The table of errors, and what becomes a row of it, in no dialect's shape."""

from typing import get_args

import pytest

from node.access.keys import CredentialMissing, CredentialUnknown
from node.api.envelope import FAULT_CODES, error_response
from node.api.errors import ERRORS, ApiError, ErrorCode, invalid, unsupported
from node.engine.engine import Overloaded
from node.http.fault import FAULTS, Fault
from node.http.message import Headers, Request


def test_the_table_has_exactly_the_codes_of_the_type() -> None:
    assert list(ERRORS) == list(get_args(ErrorCode))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (invalid("tools.0.name", "must be text"), ("invalid_request", "tools.0.name", "tools.0.name: must be text")),
        (invalid("", "must be an object"), ("invalid_request", None, "must be an object")),
        (unsupported("a.b", "not here"), ("unsupported_parameter", "a.b", "a.b: not here")),
        (unsupported("a.b"), ("unsupported_parameter", "a.b", "a.b: Extra inputs are not permitted")),
    ],
)  # fmt: skip
def test_the_path_of_a_field_leads_what_is_said_of_it(error: ApiError, told: tuple) -> None:
    assert (error.code, error.param, error.message) == told


def test_every_fault_of_http_is_an_error_of_the_same_status() -> None:
    assert {kind: ERRORS[FAULT_CODES[kind]].status for kind in FAULTS} == {
        kind: row.status for kind, row in FAULTS.items()
    }
    assert set(FAULT_CODES) == set(FAULTS)


@pytest.mark.parametrize(
    ("error", "code", "headers"),
    [
        (ApiError("model_loading"), "model_loading", (("retry-after", "5"),)),
        (ApiError("rate_limited", retry=9), "rate_limited", (("retry-after", "9"),)),
        (Overloaded(7), "overloaded", (("retry-after", "7"),)),
        (Fault("body_too_large"), "body_too_large", ()),
        (CredentialMissing(), "authentication_required", (("www-authenticate", "Bearer"),)),
        (CredentialUnknown("x-api-key", None), "invalid_api_key", (("www-authenticate", "Bearer"),)),
        (ValueError("a secret"), "internal", ()),
    ],
)
def test_what_is_raised_is_told_by_the_dialect_with_the_rows_status(
    error: Exception, code: ErrorCode, headers: tuple
) -> None:
    response = error_response(error, None, "req_1", told)
    assert (response.status, response.headers) == (ERRORS[code].status, headers)
    assert response.body.startswith(f"{code} req_1 ".encode())
    assert b"secret" not in response.body


@pytest.mark.parametrize(("path", "twice"), [("/v1/infer/v1/v1/messages", True), ("/v1/messages", False)])
def test_a_path_with_v1_twice_is_told_so_in_every_dialect(path: str, twice: bool) -> None:
    request = Request(
        id="req_1", method="POST", target=path, headers=Headers(), arrived=0.0, read_body=no_body
    )
    assert (b"/v1 twice" in error_response(Fault("not_found"), request, "req_1", told).body) is twice


def told(error: ApiError, request_id: str) -> bytes:
    """A dialect's envelope."""
    return f"{error.code} {request_id} {error.message}".encode()


async def no_body() -> bytes:
    return b""
