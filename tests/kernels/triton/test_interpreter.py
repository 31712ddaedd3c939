"""Every kernel's numbers, shown by Triton's interpreter in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_kernels_equal_their_formulas_in_the_interpreter() -> None:
    folder = Path(__file__).parent / "interpreter"
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--durations=5", str(folder)]
    # One thread: the programs of a launch run one after the other, on arrays too small to share.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, env=environment, cwd=folder.parents[3], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
