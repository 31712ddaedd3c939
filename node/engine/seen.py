"""The ids that a sequence has seen, for its penalties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Seen:
    """How often the output holds each id; 0 for ids of the prompt alone."""

    def __init__(self, prompt: NDArray[np.int64]) -> None:
        self._counts: dict[int, int] = dict.fromkeys(prompt.tolist(), 0)
        self._counted = 0  # of the output

    def after(self, output: list[int]) -> NDArray[np.int64]:
        """int64 [2, K]: ids and counts, once `output` is all that has been sampled."""
        for token in output[self._counted :]:
            self._counts[token] = self._counts.get(token, 0) + 1
        self._counted = len(output)
        count = len(self._counts)
        ids = np.fromiter(self._counts.keys(), dtype=np.int64, count=count)
        return np.stack([ids, np.fromiter(self._counts.values(), dtype=np.int64, count=count)])
