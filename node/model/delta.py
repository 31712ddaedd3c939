"""The gated delta layer: attention whose past is one matrix a head."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.delta_decode import delta_decode
from kernels.delta_inputs import DeltaInputs
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
        inputs = DeltaInputs(qkv, a, b, w.conv_weight, w.a_log, w.dt_bias, states, conv_state)
        parts = []
        if (rows := batch.decode) is not None:
            own = inputs.of_tokens(rows.tokens)
            if cache.ring is None:
                parts.append(delta_decode(own, rows.state_slots))
            else:
                parts.append(delta_ring(own, rows.state_slots, cache.ring.layer(self._index)))
        if (rows := batch.prefill) is not None:
            parts.append(delta_prefill(inputs.of_tokens(rows.tokens), rows.state_slots, rows.cu_seqlens))
        o = parts[0] if len(parts) == 1 else torch.cat(parts)
        return w.out(gated_rms_norm(o, z, w.norm, self._eps))
