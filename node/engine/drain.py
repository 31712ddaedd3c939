"""How fast the queue drains, and so when it is worth trying again."""

from __future__ import annotations

import math
from collections import deque

WINDOW = 64  # endings: a delta of short answers should not speak for the queue
LONGEST = 60  # seconds; clients give up on more
UNKNOWN = 2  # seconds, before two sequences have ended


class DrainRate:
    """Endings a second over the last few, and what waits over that. Times are time.monotonic() seconds."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=WINDOW)

    def ended(self, now: float) -> None:
        self._ends.append(now)

    def retry_after(self, waiting: int, now: float) -> int:
        """Whole seconds in which half of what waits will have begun."""
        if len(self._ends) < 2:
            return UNKNOWN
        rate = (len(self._ends) - 1) / max(now - self._ends[0], 1e-3)
        return min(LONGEST, max(1, math.ceil(waiting / 2 / rate)))
