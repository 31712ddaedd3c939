"""Request ids: a ULID behind a prefix, so that ids sort by time and need no coordination."""

import os
import time

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
ULID_LENGTH = 26  # 128 bits at 5 bits a character, rounded up
RANDOM_BITS = 80


def encode_ulid(milliseconds: int, randomness: int) -> str:
    """Writes 48 bits of time and 80 bits of randomness as 26 lower-case Crockford characters."""
    value = milliseconds << RANDOM_BITS | randomness
    shifts = range(5 * (ULID_LENGTH - 1), -1, -5)
    return "".join([CROCKFORD[value >> shift & 31] for shift in shifts])


def new_request_id() -> str:
    """A fresh id such as `req_01k2m3...`."""
    randomness = int.from_bytes(os.urandom(RANDOM_BITS // 8))
    return "req_" + encode_ulid(time.time_ns() // 1_000_000, randomness)
