"""What sequences leave behind on the device: pages of keys and values, slots of recurrent state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from node.model.config import ModelConfig

PAGE = 64  # tokens of a page


@dataclass(frozen=True, slots=True)
class Cache:
    """The two pools. Page 0 and slot 0 are scratch and belong to no sequence.

    k_pages, v_pages  [full layers, pages, 64, Nk, D]       the model's type
    states            [delta layers, slots, Hv, Dk, Dv]     float32
    conv_columns      [delta layers, slots, K − 1, C]       the model's type, oldest first
    """

    k_pages: Tensor
    v_pages: Tensor
    states: Tensor
    conv_columns: Tensor

    @classmethod
    def allocate(
        cls, config: ModelConfig, pages: int, slots: int, dtype: torch.dtype, device: torch.device
    ) -> Cache:
        """Zeros for a number of pages and slots, the scratch ones included."""
        kv = (len(config.full_layers), pages, PAGE, config.kv_heads, config.head_dim)
        states, columns = (0, slots, 1, 1, 1), (0, slots, 1, 1)
        if config.delta is not None:
            d, layers = config.delta, len(config.delta_layers)
            states = (layers, slots, d.value_heads, d.key_dim, d.value_dim)
            columns = (layers, slots, d.conv_kernel - 1, d.conv_width)
        return cls(
            k_pages=torch.zeros(kv, dtype=dtype, device=device),
            v_pages=torch.zeros(kv, dtype=dtype, device=device),
            states=torch.zeros(states, dtype=torch.float32, device=device),
            conv_columns=torch.zeros(columns, dtype=dtype, device=device),
        )

    @property
    def bytes(self) -> int:
        return sum(pool.nbytes for pool in (self.k_pages, self.v_pages, self.states, self.conv_columns))

    def clear_slots(self, slots: Tensor) -> None:
        """Zero the state in these slots (int64 [F]), so that a new sequence starts from nothing."""
        self.states.index_fill_(1, slots, 0)
        self.conv_columns.index_fill_(1, slots, 0)

    def copy_slots(self, pairs: Tensor) -> None:
        """State and conv columns from slot to slot, int64 [K, 2]; all are read before the first is written."""
        source, target = pairs.unbind(1)
        for pool in (self.states, self.conv_columns):
            pool.index_copy_(1, target, pool.index_select(1, source))
