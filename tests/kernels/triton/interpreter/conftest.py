"""These tests run where kernels were imported under TRITON_INTERPRET=1: see ../test_interpreter.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels.device import INTERPRETED

collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]


@pytest.fixture(autouse=True)
def poisoned_outputs() -> Iterator[None]:
    """Whatever a launcher allocates holds NaN until a kernel writes it."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)
