"""What the check finds, for people and for bench/results."""

from __future__ import annotations

import json
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSIONS = ("torch", "triton", "numpy", "tokenizers", "h11", "uvloop")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. limit: the most that `value` may be where `ok` says so, or what it is measured beside.

    ok  None for a measurement that promises nothing
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    ok: bool | None = None
    note: str = ""

    @property
    def line(self) -> str:
        mark = {True: "ok  ", False: "FAIL", None: "    "}[self.ok]
        beside = "" if self.limit is None else f" / {self.limit:,.4g}"
        return f"{mark} {self.name:<44} {self.value:>12,.4g}{beside} {self.unit}  {self.note}".rstrip()


Part = Callable[[], Iterator[Finding]]


class Findings:
    """Kept as they come, because a later part may die: on a device that nobody here has seen, one will."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.all: list[Finding] = []
        self._started = time.monotonic()

    def add(self, name: str, part: Part) -> None:
        """Run a part; what it raises is a finding too."""
        started = time.monotonic()
        try:
            for finding in part():
                self._keep(finding)
        except Exception as error:
            traceback.print_exc()
            self._keep(Finding(name, 1, "error", 0, False, f"{type(error).__name__}: {error}"[:300]))
        self._keep(Finding(f"{name}: time", time.monotonic() - started, "s"))

    def whole(self, most: float) -> Iterator[Finding]:
        took = time.monotonic() - self._started
        yield Finding("seconds in all", took, "s", most, took < most)

    def _keep(self, finding: Finding) -> None:
        print(finding.line, flush=True)
        self.all.append(finding)

    @property
    def faults(self) -> int:
        return sum(finding.ok is False for finding in self.all)

    def write(self, folder: Path) -> Path:
        now = datetime.now(UTC)
        result = {
            "date": now.isoformat(timespec="seconds"),
            "device": self.device,
            "python": platform.python_version(),
            "versions": {name: _version(name) for name in VERSIONS},
            "seconds": time.monotonic() - self._started,
            "faults": self.faults,
            "findings": [asdict(finding) for finding in self.all],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{now:%Y-%m-%d}-{'-'.join(self.device.split())}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        return path


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a device machine may have less than a node needs
        return "absent"
