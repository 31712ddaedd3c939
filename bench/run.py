"""Run the registry: `python -m bench.run [ROW ...]`. Prints a table and keeps it under bench/results."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import bench.engine_rows
import bench.rows  # noqa: F401  (both register their rows)
from bench.registry import ROWS, Measure, Unavailable

RESULTS = Path(__file__).parent / "results"
VERSIONS = ("torch", "triton", "numpy", "tokenizers", "h11", "uvloop")


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        sys.exit(f"no row named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    measures: list[Measure] = []
    for name in names or ROWS:
        try:
            for measure in ROWS[name]():
                print(measure.line, flush=True)
                measures.append(measure)
        except Unavailable as error:
            print(f"{name:<28} skipped: {error}")
    if measures:
        keep(measures)


def keep(measures: list[Measure]) -> None:
    now = datetime.now(UTC)
    result = {
        "date": now.isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {processor()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in VERSIONS},
        "rows": [asdict(measure) for measure in measures],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-cpu.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def processor() -> str:
    """As the kernel calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


if __name__ == "__main__":
    main(sys.argv[1:])
