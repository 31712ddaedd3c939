"""The gated delta layer: attention whose past is one matrix a head."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.delta_decode import delta_decode
from kernels.delta_prefill import delta_prefill
from kernels.delta_ring import delta_ring
from kernels.gated_rms_norm import gated_rms_norm
from node.model.batch import Batch
from node.model.cache import Cache
from node.model.config import DeltaConfig
from node.model.weights import DeltaWeights


class Delta:
    """One gated delta mixer; index counts the delta layers below it."""

    def __init__(self, config: DeltaConfig, eps: float, weights: DeltaWeights, index: int) -> None:
        self._sizes = [config.conv_width, config.value_width, config.value_heads, config.value_heads]
        self._eps = eps
        self._weights = weights
        self._index = index

    def forward(self, x: Tensor, batch: Batch, cache: Cache) -> Tensor:
        """[N, H] to [N, H]; changes the rows' slots of this layer. Slots of rows that run a prompt must be settled."""
        w = self._weights
        qkv, z, b, a = w.projection(x).split(self._sizes, dim=-1)
        states, conv_state = cache.states[self._index], cache.conv_state[self._index]
        small = (w.conv_weight, w.a_log, w.dt_bias, states, conv_state)
        parts = []
        if (rows := batch.decode) is not None:
            at = rows.tokens
            given = (qkv[at], a[at], b[at], *small, rows.state_slots)
            ring = cache.ring
            parts.append(
                delta_decode(*given) if ring is None else delta_ring(*given, ring.layer(self._index))
            )
        if (rows := batch.prefill) is not None:
            at = rows.tokens
            parts.append(delta_prefill(qkv[at], a[at], b[at], *small, rows.state_slots, rows.cu_seqlens))
        o = parts[0] if len(parts) == 1 else torch.cat(parts)
        return w.out(gated_rms_norm(o, z, w.norm, self._eps))
