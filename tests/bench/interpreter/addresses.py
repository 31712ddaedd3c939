"""What a kernel really loads and stores in Triton's interpreter, by argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from triton.runtime.interpreter import InterpreterBuilder

from bench.traffic import Launch

Addresses = list[NDArray[np.uint64]]
Touched = dict[str, tuple[float, float]]  # by argument: entries in all, distinct ones


@contextmanager
def recorded() -> Iterator[tuple[Addresses, Addresses]]:
    """(loads, stores): the addresses that masks let through, an array an operation."""
    loads, stores = [], []
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def note(kept: Addresses, pointers: Any, mask: Any) -> None:
        addresses, inside = np.broadcast_arrays(pointers.data, mask.data)
        kept.append(addresses[inside])

    def noted_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        note(loads, pointers, mask)
        return load(self, pointers, mask, *rest)

    def noted_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        note(stores, pointers, mask)
        return store(self, pointers, value, mask, *rest)

    InterpreterBuilder.create_masked_load = noted_load
    InterpreterBuilder.create_masked_store = noted_store
    try:
        yield loads, stores
    finally:
        InterpreterBuilder.create_masked_load = load
        InterpreterBuilder.create_masked_store = store


def run(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> Touched:
    """Run one launch and return what it touched. Fails where an address is no argument's."""
    with recorded() as both:
        kernel[grid](*arguments, **options)
    tensors = {name: x for name, x in zip(kernel.arg_names, arguments, strict=False) if isinstance(x, Tensor)}
    entries: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for kind in both:
        left = np.concatenate([*kind, np.empty(0, np.uint64)]).astype(np.int64)
        for name, x in tensors.items():
            inside = _of(x, left)
            entries[name] += int(inside.sum())
            distinct[name] += len(np.unique(left[inside]))
            left = left[~inside]
        assert not len(left), f"{kernel.fn.__name__} touches what it was not given"
    return {name: (entries[name], distinct[name]) for name in tensors if entries[name]}


def _of(x: Tensor, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which addresses are entries of x, whose rows may be slices of wider ones."""
    at = addresses - x.data_ptr()
    rows, column = np.divmod(at, max(x.stride(0), 1) * x.itemsize)
    return (at >= 0) & (rows < x.shape[0]) & (column < x[0].numel() * x.itemsize)


def expected(launch: Launch) -> Touched:
    """The same by the formula."""
    entries: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for access in launch.accesses:
        entries[access.argument] += access.entries
        distinct[access.argument] += access.distinct
    return {
        name: (entries[name], distinct[name])
        for name in entries
        if entries[name] and launch[name] is not None
    }
