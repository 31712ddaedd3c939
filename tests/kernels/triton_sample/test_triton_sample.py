"""The sampler's kernels compile ahead of time, in a process of their own."""

from __future__ import annotations

import json

import pytest

from tests.kernels.processes import SHARED, run

COMPILE = """
import json, sys
from kernels.aot import compile_launches
from kernels.sample_cases import sample_cases
arch, *widths = map(int, sys.argv[1:])
compiled = [c for op, call in sample_cases(*widths) for c in compile_launches(op, call, arch)]
print(json.dumps([(c.kernel, c.spills, c.shared) for c in compiled]))
"""
KERNELS = {"mask_logits", "penalties", "bias", "min_p", "sample_parts", "sample_draw", "logprobs"}


def compiles(arch: int, *widths: int) -> None:
    kernels = json.loads(run("-c", COMPILE, str(arch), *map(str, widths)))
    assert {kernel.removesuffix("_kernel") for kernel, *_ in kernels} == KERNELS
    for kernel, spills, shared in kernels:
        assert spills == 0, kernel
        assert shared <= SHARED[arch] * 1024, kernel


@pytest.mark.real
@pytest.mark.parametrize("arch", [80, 89, 90, 100])
@pytest.mark.parametrize("widths", [(248320, 248077), (151936, 151669), (2048, 2048)])
def test_kernels_of_every_vocabulary_compile(widths: tuple[int, int], arch: int) -> None:
    compiles(arch, *widths)
