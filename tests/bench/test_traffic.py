"""The formulas of traffic; the tests in interpreter/ hold them to what is loaded and stored."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.traffic import Launch, Values


def test_a_kernel_without_a_formula_is_named() -> None:
    kernel = SimpleNamespace(fn=SimpleNamespace(__name__="new_kernel"), arg_names=["x"])
    launch = Launch.of(kernel, (1,), (None,), {}, Values(context=1))
    with pytest.raises(LookupError, match=r"new_kernel: bench/traffic\.py"):
        assert launch.bytes
