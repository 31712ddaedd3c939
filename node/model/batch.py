"""What the layers are told of one step, as tensors on the device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """R neighbouring rows of a step that one kind of kernel takes, and their M tokens.

    tokens           where the rows' tokens lie among the N of the step
    page_table       int64 [R, P]
    context_lengths  int64 [R]      tokens in the pages once this step is done
    state_slots      int64 [R]
    cu_seqlens       int64 [R + 1]  from 0 to M
    """

    tokens: slice
    page_table: Tensor
    context_lengths: Tensor
    state_slots: Tensor
    cu_seqlens: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One step over N tokens: rows of one token first, then rows of several.

    token_ids     int64 [N]
    positions     int64 [N]  by which the heads turn; [3, N] where time, height and width differ
    slot_mapping  int64 [N]  page · 64 + offset, where its key and value go
    decode        rows of one token, or None
    prefill       rows of several tokens, or None
    """

    token_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    decode: Rows | None
    prefill: Rows | None
