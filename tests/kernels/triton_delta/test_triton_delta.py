"""The delta kernels compile ahead of time, in a process of their own."""

from __future__ import annotations

import json

import pytest

from tests.kernels.processes import SHARED, run

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
