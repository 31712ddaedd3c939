import stat
from pathlib import Path

import pytest

from node.access.keys import (
    CredentialMissing,
    CredentialUnknown,
    Keyring,
    first_start_key,
    hash_key,
    make_key,
)

RING = Keyring(frozenset({hash_key("one"), hash_key("two")}))


@pytest.mark.parametrize(
    ("authorization", "x_api_key"),
    [
        ("Bearer one", None),
        ("bearer  one ", None),
        (None, "one"),
        ("Bearer one", "wrong"),
        ("Basic xyz", "one"),
    ],
)
def test_a_key_opens_from_either_header_and_authorization_wins(
    authorization: str | None, x_api_key: str | None
) -> None:
    assert RING.check(authorization, x_api_key) == hash_key("one")


@pytest.mark.parametrize(
    ("authorization", "x_api_key"), [("Bearer wrong", "one"), (None, "ONE"), ("Bearer \xff", None)]
)
def test_a_wrong_key_does_not(authorization: str | None, x_api_key: str | None) -> None:
    with pytest.raises(CredentialUnknown):
        RING.check(authorization, x_api_key)


@pytest.mark.parametrize(
    ("authorization", "x_api_key"), [(None, None), ("Bearer", None), ("", ""), ("Basic one", None)]
)
def test_no_key_is_told_from_a_wrong_one(authorization: str | None, x_api_key: str | None) -> None:
    with pytest.raises(CredentialMissing):
        RING.check(authorization, x_api_key)


def test_the_first_start_shows_a_key_and_keeps_its_hash_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key"
    hashed, key = first_start_key(path)
    assert key is not None
    assert hashed == hash_key(key)
    assert path.read_text() == hashed + "\n"
    assert key not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first_start_key(path) == (hashed, None)


def test_keys_differ_and_hold_192_bits() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {len("b3os_") + 32}
