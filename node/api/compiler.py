"""Schemas of strangers are compiled beside everything else: on a thread of their own, and only so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

from node.api.errors import ApiError

T = TypeVar("T")


class Compiler:
    """One thread: nobody may buy more of the machine with more schemas."""

    def __init__(self, most_waiting: int) -> None:
        """`most_waiting` bytes of requests."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compile")
        self._most_waiting = most_waiting
        self._waiting = 0

    async def run(self, work: Callable[[], T], size: int) -> T:
        """`work()`, of a request of `size` bytes; raises ApiError when too many wait before it."""
        if self._waiting and self._waiting + size > self._most_waiting:
            raise ApiError("overloaded", "too many schemas wait to be compiled; try again")
        self._waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)
