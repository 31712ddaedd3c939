"""Where the published configurations and the oracle's numbers lie, if they do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the repository that holds them, or B3OS_SHARED."""
    default = Path(__file__).resolve().parents[3] / "shared"
    folder = Path(os.environ.get("B3OS_SHARED", default))
    if not (folder / "qwen").is_dir():
        pytest.skip("no oracle here: set B3OS_SHARED to the folder that holds qwen/")
    return folder
