"""What is measured: a row has a name, a way to run it and a limit that the machine sets in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of results.

    achieved  samples of the same thing, in `unit`
    limit     what the machine would allow, in `unit`, measured in the same run
    """

    name: str
    unit: str
    achieved: tuple[float, ...]
    limit: float

    @property
    def median(self) -> float:
        ordered = sorted(self.achieved)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def line(self) -> str:
        low, high = min(self.achieved), max(self.achieved)
        return (
            f"{self.name:<28} {self.median:>9.1f} {self.unit:<9} ({low:.1f} to {high:.1f})"
            f"  limit {self.limit:>9.1f}  achieved / limit {self.median / self.limit:.2f}"
        )


class Unavailable(Exception):
    """A row cannot run here; the message says what it needs."""


Row = Callable[[], Iterator[Measure]]
ROWS: dict[str, Row] = {}


def row(function: Row) -> Row:
    """Register a row under its function's name."""
    ROWS[function.__name__] = function
    return function
