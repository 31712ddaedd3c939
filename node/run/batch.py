"""From a StepPlan to tensors on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.constants import PAGE
from node.engine.plan import SCRATCH, StepPlan
from node.model.batch import Batch, Rows


def batch_of(plan: StepPlan, device: torch.device, last_ids: Tensor | None = None) -> Batch:
    """The plan's tensors; its future_tokens are of `last_ids`, which the step before sampled.

    Raises ValueError where a row of one token follows a longer one or is empty.
    """
    lengths = plan.row_lengths
    split = plan.decode_rows
    if (lengths[:split] != 1).any() or (lengths < 1).any():
        raise ValueError(f"cu_seqlens: rows of one token must come first and none may be empty: {lengths}")
    token_ids = tensor(plan.token_ids, device)
    if len(plan.future_tokens):
        if last_ids is None:
            raise ValueError("future_tokens: no step before has sampled")
        index, source = tensor(plan.future_tokens, device).unbind(1)
        token_ids = token_ids.index_copy(0, index, last_ids[source])
    return Batch(
        token_ids=token_ids,
        positions=tensor(plan.rope_positions if plan.rope_positions.size else plan.positions, device),
        slot_mapping=tensor(slot_mapping_of(plan), device),
        decode=_rows(plan, 0, split, device),
        prefill=_rows(plan, split, plan.rows, device),
    )


def slot_mapping_of(plan: StepPlan) -> NDArray[np.int64]:
    """int64 [N]: page · 64 + offset, where the key and value of each token go."""
    row_of_token = np.repeat(np.arange(plan.rows), plan.row_lengths)
    pages = plan.page_table[row_of_token, plan.positions // PAGE]
    pages[plan.skip_kv_write] = SCRATCH
    return pages * PAGE + plan.positions % PAGE


def tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy on the device. To CUDA it goes by way of pinned memory, so that it waits in the queue and Python does not:
    a plain copy would hold the host until the step before has run, and steps could not overlap."""
    host = torch.from_numpy(np.ascontiguousarray(array))
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)


def _rows(plan: StepPlan, first: int, end: int, device: torch.device) -> Rows | None:
    if first == end:
        return None
    starts = plan.cu_seqlens[first : end + 1]
    return Rows(
        tokens=slice(int(starts[0]), int(starts[-1])),
        page_table=tensor(plan.page_table[first:end], device),
        context_lengths=tensor(plan.context_lengths[first:end], device),
        state_slots=tensor(plan.state_slots[first:end], device),
        cu_seqlens=tensor(starts - starts[0], device),
    )
