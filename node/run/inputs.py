"""The inputs of a captured step: tensors that stay where they are, filled by one copy from the host."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kernels.constants import PAGE
from node.engine.plan import StepPlan
from node.model.batch import Batch, Rows
from node.run.batch import slot_mapping_of

PADDING = {
    "token_ids": 0,
    "future_tokens": -1,  # index among the ids sampled before; −1 for a token that the host knows
    "positions": 0,
    "slot_mapping": 0,  # the scratch page, as are the page table and the slot
    "state_slots": 0,
    "context_lengths": 1,
    "top_k": 0,
    "seeds": 0,
    "temperature": 0.0,  # greedy: the cheapest choice
    "top_p": 1.0,
}
FIELDS = {name: n for n, name in enumerate(PADDING)}
ALIGNED = 16  # rows: every field begins where Triton's specialisation of aligned pointers wants it


class Inputs:
    """For up to B rows over contexts of up to P pages. Buckets read the first rows of the same tensors.

    `landing` holds the fields, [F, B] int64 (floats in the first half of their field), then a page table, packed to
    the bucket's rows and to as many columns as its longest row has pages. One copy brings all of it; the table is
    spread to `table`, [B, P], inside the device. So the captured stride is that of the longest context, while what
    crosses the bus is what the step uses: 256 rows of 2k tokens are 84 KiB, not the 8 MiB of a 262k context. Kernels
    read only the pages below a row's length, and stale columns beyond them are never looked at.
    """

    def __init__(self, rows: int, context: int, device: torch.device) -> None:
        self.rows = -(-rows // ALIGNED) * ALIGNED
        self.width = -(-context // PAGE)
        self.words = self.rows * (len(FIELDS) + self.width)
        self._landing = torch.zeros(self.words, dtype=torch.int64, device=device)
        self._table = torch.zeros(self.rows, self.width, dtype=torch.int64, device=device)
        self._starts = torch.arange(self.rows + 1, device=device)
        for name, value in PADDING.items():
            self.field(name).fill_(value)

    def field(self, name: str, rows: int | None = None) -> Tensor:
        """int64 or float32 [rows]."""
        at = FIELDS[name] * self.rows
        words = self._landing[at : at + self.rows]
        floats = isinstance(PADDING[name], float)
        return (words.view(torch.float32) if floats else words)[: self.rows if rows is None else rows]

    def load(self, plan: StepPlan, bucket: int, staging: Tensor) -> None:
        """Fill the first `bucket` rows with the plan's and padding, by way of `staging`, int64 [words] on the host.

        Where staging is pinned this returns before the copy is done; until then it must stay as it is.
        """
        rows, used = plan.rows, min(plan.page_table.shape[1], self.width)
        values = {
            "token_ids": plan.token_ids,
            "positions": plan.positions,
            "slot_mapping": slot_mapping_of(plan),
            "state_slots": plan.state_slots,
            "context_lengths": plan.context_lengths,
            "top_k": plan.top_k,
            "seeds": plan.seeds.view(np.int64),
            "temperature": plan.temperature,
            "top_p": plan.top_p,
        }
        host = staging.numpy()
        fields = host[: self.rows * len(FIELDS)].reshape(len(FIELDS), self.rows)
        for name, padding in PADDING.items():
            field = fields[FIELDS[name]]
            field = field.view(np.float32) if isinstance(padding, float) else field
            field[:bucket] = padding
            if name in values:
                field[:rows] = values[name]
        index, source = plan.future_tokens.T
        fields[FIELDS["future_tokens"], index] = source
        end = fields.size + bucket * used
        table = host[fields.size : end].reshape(bucket, used)
        table[rows:] = 0
        table[:rows] = plan.page_table[:, :used]
        self._landing[:end].copy_(staging[:end], non_blocking=True)
        self._table[:bucket, :used].copy_(self._landing[fields.size : end].view(bucket, used))

    def batch(self, bucket: int, last_ids: Tensor) -> Batch:
        """The step's tensors. last_ids [B] int64: what the step before sampled, for future_tokens."""
        future_tokens = self.field("future_tokens", bucket)
        sampled = last_ids[future_tokens.clamp(min=0)]
        decode = Rows(
            tokens=slice(0, bucket),
            page_table=self._table[:bucket],
            context_lengths=self.field("context_lengths", bucket),
            state_slots=self.field("state_slots", bucket),
            cu_seqlens=self._starts[: bucket + 1],
        )
        return Batch(
            token_ids=torch.where(future_tokens < 0, self.field("token_ids", bucket), sampled),
            positions=self.field("positions", bucket),
            slot_mapping=self.field("slot_mapping", bucket),
            decode=decode,
            prefill=None,
        )
