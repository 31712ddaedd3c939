"""Keys: made here, shown once, kept only as hashes."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

PREFIX = "b3os_"
KEY_BYTES = 24  # 192 random bits: a plain SHA-256 of it cannot be searched


class CredentialMissing(Exception):
    """The request carries no credential."""


class CredentialUnknown(Exception):
    """It carries one that no key of this node matches."""


def make_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


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
        key = token.strip() if scheme.lower() == "bearer" else ""
        key = key or (x_api_key or "").strip()
        if not key:
            raise CredentialMissing
        if (hashed := hash_key(key)) not in self._hashes:
            raise CredentialUnknown
        return hashed


def state_folder() -> Path:
    """Where the node keeps what outlives it, by the XDG base directory rules."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "b3os-node"


def first_start_key(path: Path) -> tuple[str, str | None]:
    """(hash, key) of the key of a node that has none configured.

    The first start makes it, leaves its hash at `path` and returns the key, which is shown once and kept
    nowhere; later starts find the hash and return None for the key.
    """
    try:
        return path.read_text().strip(), None
    except FileNotFoundError:
        key = make_key()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(hash_key(key) + "\n")
        return hash_key(key), key
