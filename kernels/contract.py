"""Checks of what launchers are given. A wrong shape must fail here, not read past the end on a device."""

from __future__ import annotations

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
INDEX = (torch.int64,)
FLOAT32 = (torch.float32,)


def check(
    name: str, value: Tensor, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...], strided: bool = False
) -> None:
    """Raise ValueError naming the argument unless value has this shape, one of these dtypes and dense memory.

    strided: a slice of wider rows is welcome too, as long as the last dimension is dense.
    """
    if value.shape != shape:
        raise ValueError(f"{name}: shape {list(value.shape)}, expected {list(shape)}")
    if value.dtype not in dtypes:
        raise ValueError(f"{name}: {value.dtype}, expected {' or '.join(map(str, dtypes))}")
    if strided:
        if value.shape[-1] > 1 and value.stride(-1) != 1:
            raise ValueError(f"{name}: the last dimension has stride {value.stride(-1)}, expected 1")
    elif not value.is_contiguous():
        raise ValueError(f"{name}: strides {value.stride()} are not contiguous")


def check_rank(name: str, value: Tensor, letters: str) -> None:
    """Raise ValueError unless value has one dimension a letter."""
    if value.dim() != len(letters):
        raise ValueError(f"{name}: shape {list(value.shape)}, expected [{', '.join(letters)}]")
