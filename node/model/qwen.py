"""The network: embedding, layers, final norm, head."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.linear import linear
from kernels.rms_norm import rms_norm
from node.model.attention import Attention
from node.model.batch import Batch
from node.model.cache import Cache
from node.model.config import ModelConfig
from node.model.delta import Delta
from node.model.mlp import Mlp
from node.model.rope import Rope
from node.model.stops import real_vocabulary
from node.model.weight_files import read_weights
from node.model.weights import AttentionWeights, LayerWeights, Weights


class Qwen:
    """Implements Model for the Qwen families."""

    def __init__(self, config: ModelConfig, weights: Weights, vocabulary: int | None = None) -> None:
        self.config = config
        self.vocabulary = vocabulary or config.vocab_size
        self._weights = weights
        self._rope = Rope(config.rope, self.device)
        self._mixers = [_mixer(config, layer, n) for n, layer in enumerate(weights.layers)]
        self._mlps = [Mlp(layer.mlp) for layer in weights.layers]

    @classmethod
    def load(cls, folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Qwen:
        """Of a checkpoint folder. Raises CheckpointError."""
        return cls(config, read_weights(folder, config, dtype, device), real_vocabulary(folder))

    @property
    def dtype(self) -> torch.dtype:
        return self._weights.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self._weights.embedding.device

    def allocate_cache(self, pages: int, state_slots: int, deferred: bool = False) -> Cache:
        cache = Cache.allocate(self.config, pages, state_slots, self.dtype, self.device)
        return cache.deferring() if deferred and self.config.delta is not None else cache

    @torch.inference_mode()
    def forward(self, batch: Batch, cache: Cache) -> Tensor:
        """Hidden states after the final norm."""
        config, weights = self.config, self._weights
        form = (config.norm_eps, config.zero_centred)
        tables = self._rope.tables(batch.positions)
        x = F.embedding(batch.token_ids, weights.embedding)
        residual = None
        for layer, mixer, mlp in zip(weights.layers, self._mixers, self._mlps, strict=True):
            x, residual = rms_norm(x, residual, layer.input_norm, *form)
            if isinstance(mixer, Attention):
                x = mixer.forward(x, batch, cache, tables)
            else:
                x = mixer.forward(x, batch, cache)
            x, residual = rms_norm(x, residual, layer.mlp_norm, *form)
            x = mlp.forward(x)
        if cache.ring is not None and batch.decode is not None:
            cache.ring.advance(batch.decode.state_slots)
        return rms_norm(x, residual, weights.norm, *form)[0]

    @torch.inference_mode()
    def logits(self, hidden: Tensor, out: Tensor | None = None) -> Tensor:
        logits = linear(hidden, self._weights.head)
        return logits.float() if out is None else out.copy_(logits)


def _mixer(config: ModelConfig, layer: LayerWeights, number: int) -> Attention | Delta:
    if isinstance(layer.mixer, AttentionWeights):
        return Attention(config, layer.mixer, config.full_layers.index(number))
    assert config.delta is not None
    return Delta(config.delta, config.norm_eps, layer.mixer, config.delta_layers.index(number))
