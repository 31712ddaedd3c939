"""What a sequence may sample next, where not everything is allowed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """Follows one sequence. Called from one thread at a time, never from two."""

    def mask(self, ids: tuple[int, ...]) -> NDArray[np.uint32] | None:
        """After `ids`, sampled since the last call: bits as in SamplingMetadata; None where everything is allowed."""
        ...
