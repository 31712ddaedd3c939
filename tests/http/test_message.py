import time

import pytest

from node.http import Headers
from node.http.answer import http_date, reason, server_timing
from node.http.ids import CROCKFORD, encode_ulid, new_request_id
from node.http.message import plain_path, split_target


def test_headers_ignore_case_and_the_first_of_several_wins() -> None:
    headers = Headers([("Authorization", "first"), ("X-A", "1"), ("authorization", "second")])
    assert headers.get("AUTHORIZATION") == "first"
    assert headers.get("x-a") == "1"
    assert headers.get("x-b") is None
    assert headers.get("x-b", "default") == "default"
    assert list(headers) == [("authorization", "first"), ("x-a", "1"), ("authorization", "second")]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/v1/messages?beta=true", "/v1/messages", "beta=true"),
        ("/a%2Fb", "/a%2Fb", ""),
        ("/a?b?c", "/a", "b?c"),
        ("http://host:8000/v1/models?x", "/v1/models", "x"),
        ("http://host", "/", ""),
        ("/models/http://x", "/models/http://x", ""),
        ("*", "*", ""),
    ],
)
def test_target_splits_into_raw_path_and_query(target: str, path: str, query: str) -> None:
    assert split_target(target) == (path, query)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("/", "/"),
        ("//", "/"),
        ("///v1//models/", "/v1/models"),
        ("/v1/models//", "/v1/models"),
        ("/v1/models/a%2F%2Fb", "/v1/models/a%2F%2Fb"),
        ("*", "*"),
    ],
)
def test_empty_segments_are_left_out_of_a_path(raw: str, plain: str) -> None:
    assert plain_path(raw) == plain


def test_ulid_is_the_specification_s_example_in_lower_case() -> None:
    # The time part of 01ARZ3NDEKTSV4RRFFQ69G5FAV, the example of the ULID specification.
    assert encode_ulid(1469922850259, 0) == "01arz3ndek" + "0" * 16
    assert encode_ulid(0, 2**80 - 1) == "0" * 10 + "z" * 16


def test_request_ids_are_prefixed_distinct_and_sorted_by_time() -> None:
    first = new_request_id()
    time.sleep(0.002)
    second = new_request_id()
    assert first < second
    assert first.startswith("req_") and len(first) == 4 + 26
    assert set(first[4:]) <= set(CROCKFORD)


def test_server_timing_puts_the_total_first_with_three_decimals() -> None:
    assert server_timing(1.5) == b"total;dur=1.500"
    assert server_timing(20, (("ttft", 12.3456), ("queue", 0.0))) == (
        b"total;dur=20.000, ttft;dur=12.346, queue;dur=0.000"
    )


def test_date_and_reason_are_those_of_the_standard() -> None:
    assert http_date(784111777) == b"Sun, 06 Nov 1994 08:49:37 GMT"
    assert (reason(404), reason(529)) == (b"Not Found", b"")
