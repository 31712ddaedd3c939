"""The two halves of a decode step over static tensors: what is captured on CUDA, and called as it is elsewhere."""

from __future__ import annotations

from typing import Protocol

import torch

from kernels.sample import sample
from node.model.cache import Cache
from node.model.model import Model
from node.run.inputs import Inputs


class DecodeExecutor(Protocol):
    """Runs the halves at one of the buckets: by calling them, or by replaying what was captured of them."""

    def forward(self, bucket: int) -> None: ...

    def sample(self, bucket: int) -> None: ...


class Decode:
    """Reads `inputs`, `ids` and the cache; writes the cache, then `logits`, then `ids`. No call waits for the device.

    logits  float32 [B, V]  between the halves, so that penalties and masks can change them there
    ids     int64   [B]     sampled last; the next step's future_tokens read them
    """

    def __init__(self, model: Model, cache: Cache, inputs: Inputs) -> None:
        device, rows = model.device, inputs.rows
        self.inputs = inputs
        # One buffer for all buckets: a graph's own would each be kept, 1.6 GB for a vocabulary of 248k.
        self.logits = torch.zeros(rows, model.config.vocab_size, dtype=torch.float32, device=device)
        self.ids = torch.zeros(rows, dtype=torch.int64, device=device)
        self._model = model
        self._cache = cache

    @torch.inference_mode()
    def forward(self, bucket: int) -> None:
        hidden = self._model.forward(self.inputs.batch(bucket, self.ids), self._cache)
        self._model.logits(hidden, self.logits[:bucket])  # one pass casts and copies

    @torch.inference_mode()
    def sample(self, bucket: int) -> None:
        names = ("temperature", "top_k", "top_p", "seeds", "context_lengths")
        temperature, top_k, top_p, seeds, positions = (self.inputs.field(name, bucket) for name in names)
        ids = sample(
            self.logits[:bucket], temperature, top_k, top_p, seeds, positions, self._model.vocabulary
        )
        self.ids[:bucket].copy_(ids)
