"""The mechanism of field tables, on tables of no dialect."""

from typing import Any

import pytest

from node.api.errors import ApiError
from node.api.fields import FieldFilter, ignored, refused, yes

TABLES = {
    "request": {"model": yes(), "user": ignored(), "n": refused("one answer a request", 1), "parts": yes()},
    "part": {"text": yes(), "mark": ignored()},
}


def test_supported_fields_pass_and_ignored_ones_are_named_once_without_numbers() -> None:
    field_filter = FieldFilter(TABLES)
    assert field_filter.apply("request", {"model": "m", "user": "u", "n": 1}, "") == {"model": "m"}
    for number in range(2):
        part = {"text": "x", "mark": [number]}
        assert field_filter.apply("part", part, f"parts.{number}", "parts") == {"text": "x"}
    field_filter.ignore("elsewhere")
    assert field_filter.ignored == ["user", "n", "parts.mark", "elsewhere"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 2}, "parts.0.n: one answer a request"),
        ({"n": True}, "parts.0.n: one answer a request"),  # to Python, True is 1
        ({"wat": 1}, "parts.0.wat: Extra inputs are not permitted"),
        ({"wat": None}, "parts.0.wat: Extra inputs are not permitted"),
    ],
)
def test_what_is_refused_or_unknown_is_named_by_its_path(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError) as caught:
        FieldFilter(TABLES).apply("request", fields, "parts.0")
    path, _, _ = message.partition(":")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", path)
    assert caught.value.message == message


def test_null_is_absence() -> None:
    field_filter = FieldFilter(TABLES)
    assert field_filter.apply("request", {"model": None, "user": None, "n": None}, "") == {}
    assert field_filter.ignored == []
