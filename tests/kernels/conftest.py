"""Every test draws the same numbers each time, and in the interpreter finds NaN wherever nothing was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels.device import INTERPRETED


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=INTERPRETED)
def poisoned_outputs() -> Iterator[None]:
    """Whatever a launcher allocates holds NaN until a kernel writes it."""
    torch.set_deterministic_debug_mode(
        "error"
    )  # use_deterministic_algorithms does this and imports torch._inductor
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(1).isnan()
    yield
    torch.set_deterministic_debug_mode("default")
