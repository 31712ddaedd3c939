"""Builds the metadata of each step's sampling."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from node.engine.plan import GetSamplingMetadata, SamplingMetadata
from node.engine.sequence import Sequence

log = logging.getLogger("node.engine")

Bits = NDArray[np.uint32]


class SamplingMetadataBuilder:
    """Masks are built on a thread of their own while the forward pass runs: rows without one do not wait."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="masks")

    def begin(self, sampling: tuple[Sequence, ...]) -> GetSamplingMetadata:
        """Start on a step whose sampled rows are `sampling`; the result waits for the masks."""
        masks = [
            (row, self._pool.submit(_mask, sequence))
            for row, sequence in enumerate(sampling)
            if sequence.constraint is not None and sequence.finish_reason is None
        ]
        seen = [
            (row, sequence.seen.after(sequence.output))
            for row, sequence in enumerate(sampling)
            if sequence.seen is not None
        ]
        return lambda: _gather(sampling, masks, seen)

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _mask(sequence: Sequence) -> Bits | None:
    constraint = sequence.constraint
    if constraint is None:
        return None
    ids = tuple(sequence.output[sequence.constrained :])
    sequence.constrained = len(sequence.output)
    try:
        return constraint.mask(ids)
    except BaseException:  # ours, or a panic of llguidance, which is no Exception
        # The answer goes on without the constraint rather than not at all.
        log.exception("%s: its constraint failed and is dropped", sequence.id)
        sequence.constraint = None
        return None


def _gather(
    sampling: tuple[Sequence, ...],
    jobs: list[tuple[int, Future[Bits | None]]],
    seen: list[tuple[int, NDArray[np.int64]]],
) -> SamplingMetadata | None:
    masks = {row: bits for row, job in jobs if (bits := job.result()) is not None}
    if not masks and not seen:
        return None
    none = np.zeros((0, 0), dtype=np.uint32)
    pairs = [np.vstack([np.full(ids.shape[1], row), ids]) for row, ids in seen]
    return SamplingMetadata(
        masked=np.array(list(masks), dtype=np.int64),
        bits=np.stack(list(masks.values())) if masks else none,
        seen=np.hstack([np.zeros((3, 0), dtype=np.int64), *pairs]),
        penalties=np.array([sequence.sampling.penalties for sequence in sampling], dtype=np.float32).T.copy(),
    )
