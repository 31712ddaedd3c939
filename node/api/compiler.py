"""Schemas of strangers are compiled beside everything else: on threads of their own, and only so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from node.api.errors import ApiError

MOST_WAITING = 16  # the worst schema that is let through takes a second: more would be too long to wait for
T = TypeVar("T")


class Compiler:
    """One thread: grammars hold the GIL little, and nobody may buy more of the machine with more schemas."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="compile")
        self._waiting = 0

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """`work(*given)`; raises ApiError when too many wait."""
        if self._waiting >= MOST_WAITING:
            raise ApiError("overloaded", "too many schemas wait to be compiled; try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)
