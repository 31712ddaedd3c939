"""What no test may leave behind for the next."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def denormals_of_this_thread_are_as_python_has_them() -> Iterator[None]:
    """A step of a runner has its thread flush denormal numbers; hypothesis, in the same thread, then refuses floats."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_flush_denormal(False)
