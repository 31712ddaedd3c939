"""Every kernel's numbers, and what it loads and stores, shown by Triton's interpreter in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.device import triton
from tests.kernels.processes import interpret, two_at_a_time

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(triton is None, reason="runs Triton's interpreter, and there is no Triton here")
def test_kernels_do_in_the_interpreter_what_they_should() -> None:
    folders = sorted(TESTS.glob("*/**/interpreter"))
    assert len(folders) == 4
    two_at_a_time(interpret, folders)
