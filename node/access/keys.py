"""Keys: made here, shown once, kept only as hashes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

PREFIX = "b3os_"
KEY_BYTES = 24  # 192 random bits: a plain SHA-256 of it cannot be searched
HEADER_SAFE = re.compile(r"[!-~]{1,1024}")  # what a header's value holds when spaces around it are taken away
HASH = re.compile(r"[0-9a-f]{64}")
SHOWN = 9  # characters: the prefix and four more, of which a made key has 28 left


class KeyFault(Exception):
    """A key, or the file that keeps its hash, is of no use. The message says which and what to do, without the key."""


class CredentialMissing(Exception):
    """The request carries no credential."""


class CredentialUnknown(Exception):
    """It carries one that no key of this node matches.

    header  where that one stood
    unread  another that came too, after which nobody looked
    """

    def __init__(self, header: str, unread: str | None) -> None:
        self.header = header
        self.unread = unread
        super().__init__(f"no key matches what {header} holds")


def make_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def check_configured(key: str) -> None:
    """Raise KeyFault for a key that no header can carry as it is: every request would be refused."""
    if not HEADER_SAFE.fullmatch(key):
        raise KeyFault("a key is made of printable ASCII characters without spaces, 1 to 1,024 of them")


def recognisable(key: str) -> str:
    """As much of a key as tells people which one it is, and nobody what it is."""
    return key[: min(SHOWN, len(key) // 2)] + "…"


def hash_key(key: str) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class Keyring:
    """The keys that open this node, as hashes."""

    def __init__(self, hashes: frozenset[str]) -> None:
        self._hashes = hashes

    def check(self, authorization: str | None, x_api_key: str | None) -> str:
        """The hash of the key that the request carries.

        Where both headers come, `Authorization` wins: SDKs that send both put the newer credential there.
        Raises CredentialMissing or CredentialUnknown. Hashes are compared by set lookup: what its time could
        tell of a hash helps nobody to find a key.
        """
        scheme, _, token = (authorization or "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        plain = (x_api_key or "").strip()
        if not (bearer or plain):
            raise CredentialMissing
        if (hashed := hash_key(bearer or plain)) in self._hashes:
            return hashed
        if bearer:
            raise CredentialUnknown("Authorization", unread="x-api-key" if plain else None)
        raise CredentialUnknown("x-api-key", unread=None)


def state_folder() -> Path:
    """Where the node keeps what outlives it, by the XDG base directory rules."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "b3os-node"


def first_start_key(path: Path) -> tuple[str, str | None]:
    """(hash, key) of the key of a node that has none configured.

    The first start makes it, leaves its hash at `path` and returns the key, which is shown once and kept
    nowhere; later starts find the hash and return None for the key. Raises KeyFault where the file cannot be
    read or written, or holds no hash: no key would open the node.
    """
    try:
        hashed = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return _first_key(path)
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFault(f"{path}: {_why(error)}") from error
    if not HASH.fullmatch(hashed):
        raise KeyFault(
            f"{path}: found {len(hashed)} characters, expected the hash of a key; remove it for a new key"
        )
    return hashed, None


def _first_key(path: Path) -> tuple[str, str]:
    key = make_key()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")  # renamed when it is whole: a full disk must not leave half a hash
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(hash_key(key) + "\n")
        new.replace(path)
    except OSError as error:
        raise KeyFault(f"{path}: {_why(error)}") from error
    return hash_key(key), key


def _why(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "found bytes that are no ASCII, expected the hash of a key; remove it for a new key"
    return error.strerror or str(error)
