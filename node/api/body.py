"""A request's body as JSON, from strangers."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from node.api.errors import ApiError, invalid

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_object(body: bytes, content_type: str | None) -> dict[str, Any]:
    """The JSON object in `body`; raises ApiError for anything else.

    Lone surrogates, which clients send when they cut text between the halves of an emoji, become U+FFFD.
    """
    media_type = (content_type or "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise ApiError("unsupported_media_type", f"the body must be application/json, not {media_type[:100]}")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        value = _read_slowly(body)  # msgspec refuses lone surrogates
    if not isinstance(value, dict):
        raise invalid("", "the body must be a JSON object")
    return value


def _read_slowly(body: bytes) -> Any:
    encoding = json.detect_encoding(body)  # by a byte order mark, or by the zeros among the first four bytes
    if not encoding.startswith("utf-8"):
        raise invalid("", f"the body must be JSON in UTF-8, not in {encoding[:6].upper()}")
    try:
        return _replace_surrogates(json.loads(body, parse_constant=_not_json))
    except RecursionError:
        raise invalid("", "the body is nested too deeply") from None
    except ValueError as error:  # of JSON, of UTF-8, of an integer with too many digits
        raise invalid("", f"the body is not valid JSON: {str(error)[:200]}") from None


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _replace_surrogates(value: Any) -> Any:
    """`value` with every lone surrogate replaced."""
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value
