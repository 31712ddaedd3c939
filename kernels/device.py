"""Where a launcher's work is done: by torch, or by the op's Triton kernel.

CUDA tensors go to Triton, CPU tensors to torch. Two more cases serve the proofs that need no GPU:
- TRITON_INTERPRET=1, set before this module is imported: CPU tensors go to Triton's interpreter.
- Tensors on the meta device inside `traced()`: launches are handed to a function instead of a device, which can
  compile them ahead of time or count them. What is compiled so is what serving launches, not a copy of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # no Triton for this platform: torch serves
    triton = tl = None

__all__ = [
    "INTERPRETED",
    "WIDE",
    "has_warpgroups",
    "jit",
    "launch",
    "tl",
    "traced",
    "triton",
    "up_to_power_of_2",
    "uses_triton",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# The interpreter gets bfloat16 products and sums wrong without an error, so there kernels take `wide=WIDE` and cast up
# what they load; on a device the tensor cores want bfloat16 as it is.
WIDE = INTERPRETED

Tracer = Callable[[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]], None]
_tracer: Tracer | None = None
_assumed = (9, 0)
# There four warps share one matrix product whose operands stay in shared memory, and a program may have 227 KB of it.
WARPGROUPS = {(9, 0), (10, 0), (10, 3)}


def uses_triton(x: Tensor) -> bool:
    """Whether a launcher given x runs its Triton kernel rather than torch."""
    return triton is not None and (x.is_cuda or x.is_meta or INTERPRETED)


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """triton.jit where there is Triton.

    Counts and strides that change from step to step belong in do_not_specialize, and tensors that may be slices in
    do_not_specialize_on_alignment: else the first odd value in service compiles the kernel again.
    """
    return (lambda kernel: kernel) if triton is None else lambda kernel: triton.jit(kernel, **options)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Run one kernel on the current device; an empty grid runs nothing.

    options: its constexprs, num_warps, num_stages.
    """
    if 0 in grid:
        return
    if _tracer is not None:
        _tracer(kernel, grid, arguments, options)
    else:
        kernel[grid](*arguments, **options)


@contextmanager
def traced(tracer: Tracer, capability: tuple[int, int] = (9, 0)) -> Iterator[None]:
    """Hand launches to tracer(kernel, grid, arguments, options) instead of running them, as on such a device."""
    global _tracer, _assumed
    before = _tracer, _assumed
    _tracer, _assumed = tracer, capability
    try:
        yield
    finally:
        _tracer, _assumed = before


def has_warpgroups(x: Tensor) -> bool:
    """Whether the device of x takes the large tiles; elsewhere they must fit in 99 KB and in the warps' registers."""
    return (_capability(x.device) if x.is_cuda else _assumed) in WARPGROUPS


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def up_to_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
