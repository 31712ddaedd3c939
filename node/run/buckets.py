"""Which steps are captured, and at which sizes."""

from __future__ import annotations

import numpy as np

from kernels.constants import BUCKETS
from node.engine.plan import StepPlan


def bucket_of(rows: int, buckets: tuple[int, ...] = BUCKETS) -> int | None:
    """The smallest bucket that holds so many rows, or None."""
    return next((bucket for bucket in buckets if bucket >= rows), None)


def only_decodes(plan: StepPlan) -> bool:
    """Whether every row runs one token and samples the next, in order: what nearly all steps do.

    A row that runs one token and samples none is the last of a state that is computed again: rare, and run eagerly,
    as are positions on three axes, of which the static inputs have one.
    """
    plain = plan.rows == plan.tokens and not plan.rope_positions.size
    return plain and np.array_equal(plan.sample_rows, np.arange(plan.rows))
