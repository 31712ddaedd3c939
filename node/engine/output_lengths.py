"""How long answers turn out to be."""

from __future__ import annotations

import numpy as np

REMEMBERED = 512  # answers: a few minutes of a busy node, so that the estimate follows the hour
QUANTILE = 0.9  # one in ten outgrows it: a preemption is rarer, for others end early meanwhile
UNKNOWN = 512  # tokens, before anything has ended: near the mean output of chat traces


class OutputLengths:
    """The lengths of the last answers. It begins with a guess, which the first answers outweigh."""

    def __init__(self, guess: int = UNKNOWN) -> None:
        self._lengths = np.full(REMEMBERED, guess, dtype=np.int64)
        self._seen = 0
        self._likely: int | None = guess

    def add(self, length: int) -> None:
        self._lengths[self._seen % REMEMBERED] = length
        self._seen += 1
        self._likely = None

    @property
    def likely(self) -> int:
        """Tokens that QUANTILE of the answers do not exceed."""
        if self._likely is None:
            known = self._lengths[: min(REMEMBERED, self._seen + 1)]  # one guess stays until all are known
            self._likely = int(np.quantile(known, QUANTILE))
        return self._likely
