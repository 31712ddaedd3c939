"""What sequences leave behind on the device: pages of keys and values, slots of recurrent state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.constants import PAGE
from kernels.copy_slots import copy_slots
from kernels.delta_ring import Ring, flush
from node.model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Cache:
    """The two pools. Page 0 and slot 0 are scratch and belong to no sequence.

    k_pages, v_pages  [full layers, pages, 64, Nk, D]       the model's type
    states            [delta layers, slots, Hv, Dk, Dv]     float32
    conv_state        [delta layers, slots, K − 1, C]       the model's type, oldest first
    ring              what decoding has not yet written to states, where it defers that
    """

    k_pages: Tensor
    v_pages: Tensor
    states: Tensor
    conv_state: Tensor
    ring: Ring | None = None

    @classmethod
    def allocate(
        cls, config: ModelConfig, pages: int, state_slots: int, dtype: torch.dtype, device: torch.device
    ) -> Cache:
        """Zeros for a number of pages and slots, the scratch ones included."""
        kv = (len(config.full_layers), pages, PAGE, config.kv_heads, config.head_dim)
        states, conv_state = (0, state_slots, 1, 1, 1), (0, state_slots, 1, 1)
        if config.delta is not None:
            d, layers = config.delta, len(config.delta_layers)
            states = (layers, state_slots, d.value_heads, d.key_dim, d.value_dim)
            conv_state = (layers, state_slots, d.conv_kernel - 1, d.conv_width)
        return cls(
            k_pages=torch.zeros(kv, dtype=dtype, device=device),
            v_pages=torch.zeros(kv, dtype=dtype, device=device),
            states=torch.zeros(states, dtype=torch.float32, device=device),
            conv_state=torch.zeros(conv_state, dtype=dtype, device=device),
        )

    def deferring(self) -> Cache:
        """The same pools, with a ring beside the states."""
        *_, value_heads, key_dim, value_dim = self.states.shape
        keys = self.conv_state.shape[-1] - value_heads * value_dim
        return replace(self, ring=Ring.allocate(self.states, keys // (2 * key_dim)))

    @property
    def pools(self) -> tuple[Tensor, ...]:
        ring = () if self.ring is None else (self.ring.k, self.ring.e, self.ring.g)
        return self.k_pages, self.v_pages, self.states, self.conv_state, *ring

    @property
    def bytes(self) -> int:
        return sum(pool.nbytes for pool in self.pools)

    def settle(self, state_slots: Tensor) -> None:
        """Bring the states of these slots (int64 [F], each once) up to date: the ring may hold their last tokens."""
        if self.ring is not None:
            flush(self.states, self.ring, state_slots)

    def clear_slots(self, state_slots: Tensor) -> None:
        """Zero the state in these slots (int64 [F]), so that a new sequence starts from nothing."""
        self.states.index_fill_(1, state_slots, 0)
        self.conv_state.index_fill_(1, state_slots, 0)
        if self.ring is not None:
            self.ring.forget(state_slots)

    def copy_slots(self, pairs: Tensor) -> None:
        """State and conv_state from settled slot to slot, int64 [K, 2], no slot of which is both."""
        for pool in (self.states, self.conv_state):
            copy_slots(pool, pairs)
        if self.ring is not None:
            self.ring.forget(pairs[:, 1])
