"""Every kernel's numbers, shown by Triton's interpreter in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tests.kernels.processes import interpret


def test_kernels_equal_their_formulas_in_the_interpreter() -> None:
    interpret(Path(__file__).parent / "interpreter")
