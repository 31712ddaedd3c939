"""Proofs that need a process of their own: the interpreter and the compiler of Triton exclude each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T, R = TypeVar("T"), TypeVar("R")
ROOT = Path(__file__).parents[2]
SHARED = {80: 163, 89: 99, 90: 227, 100: 227}  # KB of shared memory a program may have


def run(*command: str, interpret: bool = False) -> str:
    """What Python prints, given `command`; fails with its output where it fails."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # One thread: the programs of a launch run one after the other, on arrays too small to share.
    environment = {**clean, "OMP_NUM_THREADS": "1"} | ({"TRITON_INTERPRET": "1"} if interpret else {})
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


def interpret(folder: Path) -> None:
    """Run the tests of `folder` in Triton's interpreter."""
    run("-m", "pytest", "-x", "-p", "no:cacheprovider", "--durations=5", str(folder), interpret=True)


def two_at_a_time(call: Callable[[T], R], given: Iterable[T]) -> list[R]:
    """What `call` gives for each; for calls that wait for a process, since each of those has one thread."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(call, given))
