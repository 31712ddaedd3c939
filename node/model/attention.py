"""Full attention over pages, with an output gate where the model has one."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.attention_prologue import attention_prologue
from kernels.output_gate import output_gate
from kernels.paged_decode_attention import paged_decode_attention
from kernels.paged_prefill_attention import paged_prefill_attention
from node.model.batch import Batch
from node.model.cache import Cache
from node.model.config import ModelConfig
from node.model.weights import AttentionWeights


class Attention:
    """One full-attention mixer; index counts the full layers below it."""

    def __init__(self, config: ModelConfig, weights: AttentionWeights, index: int) -> None:
        self._config = config
        self._weights = weights
        self._index = index
        self._scale = config.head_dim**-0.5

    def forward(self, x: Tensor, batch: Batch, cache: Cache, tables: tuple[Tensor, Tensor]) -> Tensor:
        """[N, H] to [N, H]; writes N slots of this layer's pages. tables: see Rope.tables."""
        config, weights = self._config, self._weights
        k_pages, v_pages = cache.k_pages[self._index], cache.v_pages[self._index]
        q, gate = attention_prologue(
            weights.projection(x),
            weights.norms,
            config.norm_eps,
            config.zero_centred,
            *tables,
            k_pages,
            v_pages,
            batch.slot_mapping,
            config.heads,
        )
        parts = []
        if (rows := batch.decode) is not None:
            parts.append(
                paged_decode_attention(
                    q[rows.tokens], k_pages, v_pages, rows.page_table, rows.context_lengths, self._scale
                )
            )
        if (rows := batch.prefill) is not None:
            parts.append(
                paged_prefill_attention(
                    q[rows.tokens],
                    k_pages,
                    v_pages,
                    rows.page_table,
                    rows.context_lengths,
                    rows.cu_seqlens,
                    self._scale,
                )
            )
        o = (parts[0] if len(parts) == 1 else torch.cat(parts)).flatten(1)
        return weights.out(o if gate is None else output_gate(o, gate))
