"""What a sequence may sample next, where not everything is allowed."""

from __future__ import annotations

import logging
from collections.abc import Sequence as Rows
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import GetMasks, Masks
from node.engine.sequence import Sequence

log = logging.getLogger("node.engine")


class Constraint(Protocol):
    """Follows one sequence. Called from one thread at a time, never from two."""

    def mask(self, ids: tuple[int, ...]) -> NDArray[np.uint32] | None:
        """After `ids`, sampled since the last call: bits as in Masks; None where everything is allowed."""
        ...


class MaskBuilder:
    """Builds masks on threads of its own while the forward pass runs: rows without one do not wait."""

    def __init__(self, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="masks")

    def begin(self, sampling: Rows[Sequence]) -> GetMasks:
        """Start the masks of a step, whose sampled rows are `sampling`; the result waits for them."""
        jobs = [
            (row, self._pool.submit(_mask, sequence))
            for row, sequence in enumerate(sampling)
            if sequence.constraint is not None and sequence.finish is None
        ]
        return lambda: _gather(jobs)

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _mask(sequence: Sequence) -> NDArray[np.uint32] | None:
    constraint = sequence.constraint
    if constraint is None:
        return None
    ids = tuple(sequence.output[sequence.constrained :])
    sequence.constrained = len(sequence.output)
    try:
        return constraint.mask(ids)
    except Exception:  # ours; the answer goes on without the guarantee rather than not at all
        log.exception("%s: its constraint failed and is dropped", sequence.id)
        sequence.constraint = None
        return None


def _gather(jobs: list[tuple[int, Future[NDArray[np.uint32] | None]]]) -> Masks | None:
    masks = {row: bits for row, job in jobs if (bits := job.result()) is not None}
    if not masks:
        return None
    return Masks(np.array(list(masks), dtype=np.int64), np.stack(list(masks.values())))
