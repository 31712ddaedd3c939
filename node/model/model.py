"""What the runner needs of a network."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from node.model.batch import Batch
from node.model.cache import Cache
from node.model.config import ModelConfig


class Model(Protocol):
    """A network over paged keys and values and slots of recurrent state, with its weights on one device.

    vocabulary: how many ids of the table are tokens; the rest is padding, which sampling must not choose.
    """

    @property
    def config(self) -> ModelConfig: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def allocate_cache(self, pages: int, state_slots: int, deferred: bool = False) -> Cache:
        """Zeros for so many pages and slots, the scratch ones included; with a ring beside the states where their
        writes are deferred and the model has states."""

    def forward(self, batch: Batch, cache: Cache) -> Tensor:
        """Hidden states [N, H] of the batch's N tokens, in the model's type; the cache takes keys and states."""

    def logits(self, hidden: Tensor, out: Tensor | None = None) -> Tensor:
        """float32 [S, V] from hidden states [S, H], padding ids included; written to `out` where that is given."""
