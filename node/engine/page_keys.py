"""Keys of full pages: equal keys mean equal prefixes of one organization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE

KEY_BYTES = 16  # of BLAKE2b: 2**64 pages before two are likely to share a key, and nobody can aim for it


@dataclass(frozen=True, slots=True)
class PromptItem:
    """Tokens `start` to `end` of a prompt whose ids do not tell what the model reads there: an image's, say.

    digest  of what it reads, by a hash that nobody can aim
    """

    start: int
    end: int
    digest: bytes

    def told_to(self, page: int) -> bytes:
        """What a key has to know of it beside the ids of the page: nothing where it lies elsewhere."""
        if self.end <= page * PAGE or self.start >= (page + 1) * PAGE:
            return b""
        ends = np.array([self.start, self.end], dtype=np.int64) - page * PAGE
        return ends.tobytes() + key_of(self.digest)


def key_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=KEY_BYTES).digest()


def chain(
    key: bytes, ids: NDArray[np.int64], first: int, items: tuple[PromptItem, ...] = ()
) -> Iterator[bytes]:
    """The key of each page of `ids` (int64 [k · PAGE], from page `first` on); `key` is the one before them.

    A key is a digest of the key before it, of the page's ids, and of the items that reach into the page.
    """
    data, step = ids.astype(np.int32).tobytes(), PAGE * 4
    for page, at in enumerate(range(0, len(data), step), first):
        told = b"".join(item.told_to(page) for item in items)
        key = key_of(key + data[at : at + step] + told)
        yield key
