import stat
from pathlib import Path

import pytest

from node.access.keys import (
    CredentialMissing,
    CredentialUnknown,
    KeyFault,
    Keyring,
    check_configured,
    first_start_key,
    hash_key,
    make_key,
    recognisable,
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


@pytest.mark.parametrize(
    "text", ["", "\n", "abc", "0" * 63, "0" * 65, "G" * 64, "\xff", "0" * 64 + " " + "1" * 64]
)
def test_c22_a_file_that_holds_no_hash_is_refused_and_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(KeyFault) as caught:
        first_start_key(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == text.encode("latin-1")


def test_a_state_folder_that_cannot_be_used_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "key").mkdir(parents=True)
    for path in (tmp_path / "file" / "key", tmp_path / "folder" / "key"):
        with pytest.raises(KeyFault, match=str(path)):
            first_start_key(path)


def test_a_first_start_that_broke_off_leaves_no_key_behind(tmp_path: Path) -> None:
    (tmp_path / "key.new").write_text("half a ha")
    hashed, key = first_start_key(tmp_path / "key")
    assert key is not None and hashed == hash_key(key)
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("key", ["", " ", "a b", "a\n", "\ta", "schl\xfcssel", "a\x00", "a" * 1025])
def test_c22_a_key_that_no_header_can_carry_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(KeyFault) as caught:
        check_configured(key)
    assert len(key) < 3 or key not in str(caught.value)


@pytest.mark.parametrize("key", ["a", "sk-1", "!~", make_key(), "a" * 1024])
def test_any_other_key_is_taken_and_opens_from_a_header(key: str) -> None:
    check_configured(key)
    assert Keyring(frozenset({hash_key(key)})).check(f"Bearer {key}", None) == hash_key(key)


@pytest.mark.parametrize(
    ("key", "shown"), [("b3os_abcdefghijklmnop", "b3os_abcd…"), ("secret", "sec…"), ("a", "…"), ("", "…")]
)
def test_a_key_is_recognised_by_its_beginning(key: str, shown: str) -> None:
    assert recognisable(key) == shown


def test_keys_differ_and_hold_192_bits() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {len("b3os_") + 32}
