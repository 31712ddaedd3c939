"""The formulas of traffic, held to what Triton's interpreter loads and stores."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.traffic import Launch, Values
from kernels.device import triton
from tests.kernels.processes import interpret


@pytest.mark.skipif(triton is None, reason="runs Triton's interpreter, and there is no Triton here")
def test_formulas_equal_the_interpreters_count() -> None:
    interpret(Path(__file__).parent / "interpreter")


def test_a_kernel_without_a_formula_is_named() -> None:
    kernel = SimpleNamespace(fn=SimpleNamespace(__name__="new_kernel"), arg_names=["x"])
    launch = Launch.of(kernel, (1,), (None,), {}, Values(context=1))
    with pytest.raises(LookupError, match=r"new_kernel: bench/traffic\.py"):
        assert launch.bytes
