"""Errors of the shared table in Anthropic's shape."""

import pytest

from node.api.anthropic.envelope import ERROR_TYPES, error_body
from node.api.anthropic.messages_request import parse
from node.api.errors import ERRORS, ApiError
from tests.api.anthropic.asking import HI


def test_every_status_of_the_table_has_a_word_and_no_other() -> None:
    assert set(ERROR_TYPES) == {row.status for row in ERRORS.values()}


def test_a_field_at_fault_is_named_only_where_there_is_one() -> None:
    named = error_body(ApiError("invalid_request", "a.b: no", param="a.b"), "req_1")
    assert named == (
        b'{"b3os":{"code":"invalid_request","param":"a.b"},'
        b'"error":{"message":"a.b: no","type":"invalid_request_error"},"request_id":"req_1","type":"error"}'
    )
    assert error_body(ApiError("overloaded"), "req_1") == (
        b'{"b3os":{"code":"overloaded"},"error":{"message":"too many requests wait; try again",'
        b'"type":"overloaded_error"},"request_id":"req_1","type":"error"}'
    )


def test_the_refusal_of_a_thread_tells_the_tool_runner_to_go_on_without() -> None:
    with pytest.raises(ApiError) as caught:
        parse({"model": "m", "max_tokens": 1, "messages": [HI], "thread": {"type": "new"}})
    assert error_body(caught.value, "req_1") == (
        b'{"b3os":{"code":"unsupported_parameter","param":"thread"},'
        b'"error":{"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]},'
        b'"message":"thread: this node keeps no conversations","type":"invalid_request_error"},'
        b'"request_id":"req_1","type":"error"}'
    )
