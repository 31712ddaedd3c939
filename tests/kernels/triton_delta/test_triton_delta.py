"""The delta kernels, shown by the interpreter and compiled ahead of time, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRODUCTS = {"delta_solve_kernel", "delta_scan_kernel", "delta_output_kernel"}
MATRIX = {80: "mma.sync", 89: "mma.sync", 90: "wgmma.mma_async", 100: "tcgen05.mma"}
COMPILE = """
import json, sys
from kernels.aot import compile_launches
from kernels.delta_rule_cases import delta_cases
arch, *heads = map(int, sys.argv[1:])
compiled = [c for op, call in delta_cases(*heads) for c in compile_launches(op, call, arch)]
print(json.dumps([(c.kernel, c.spills, c.shared, c.matrix, c.registers * c.warps * 32) for c in compiled]))
"""
SHARED = {80: 163, 89: 99, 90: 227, 100: 227}  # KB a program


def run(*command: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # One thread: the programs of a launch run one after the other, on arrays too small to share.
    settings = {**clean, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [sys.executable, *command], env=settings, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


def test_kernels_equal_the_recurrence_in_the_interpreter() -> None:
    folder = str(Path(__file__).parent / "interpreter")
    run("-m", "pytest", "-x", "-p", "no:cacheprovider", "--durations=5", folder, TRITON_INTERPRET="1")


def compiles(arch: int, *heads: int) -> None:
    kernels = json.loads(run("-c", COMPILE, str(arch), *map(str, heads)))
    assert {kernel for kernel, *_ in kernels} > PRODUCTS
    for kernel, spills, shared, matrix, registers in kernels:
        assert spills == 0, kernel
        assert shared <= SHARED[arch] * 1024, kernel
        assert matrix == ([MATRIX[arch]] if kernel in PRODUCTS else []), kernel
        # Rows or chunks by the hundred: two programs a multiprocessor, so that one loads while the other counts.
        assert kernel in PRODUCTS or registers <= 32 * 1024, kernel


@pytest.mark.real
@pytest.mark.parametrize("arch", [80, 89, 90, 100])
@pytest.mark.parametrize("heads", [(16, 16), (16, 32), (16, 48), (4, 4, 64)])
def test_kernels_of_every_model_compile(heads: tuple[int, ...], arch: int) -> None:
    compiles(arch, *heads)
