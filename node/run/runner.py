"""Runs plans on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.mask_logits import mask_logits
from kernels.sample import sample
from node.engine.plan import GetMasks, StepPlan, no_masks
from node.model.cache import Cache
from node.model.qwen import Qwen
from node.run.batch import batch_of, tensor


class Runner:
    """One model with its pools of pages and slots (the scratch ones counted)."""

    def __init__(self, model: Qwen, pages: int, slots: int, device: torch.device | str) -> None:
        # State that decayed for long turns denormal, and a CPU multiplies those ten times slower.
        torch.set_flush_denormal(True)
        self.model = model
        self._device = torch.device(device)
        self.cache = Cache.allocate(model.config, pages, slots, model.dtype, self._device)

    @torch.inference_mode()
    def run(self, plan: StepPlan, masks: GetMasks = no_masks) -> NDArray[np.int64]:
        """One step: the sampled ids, int64 [S], in the order of plan.sample_rows.

        `masks` is asked after the forward pass has been launched, so that they are built beside it.
        """
        hidden = self.forward(plan)
        if not len(plan.sample_rows):
            return np.empty(0, np.int64)
        logits = self.model.logits(hidden[tensor(plan.last_tokens[plan.sample_rows], self._device)])
        if (masked := masks()) is not None:
            bits = torch.from_numpy(masked.bits.view(np.int32)).to(self._device)
            mask_logits(logits, tensor(masked.rows, self._device), bits)
        return self.sample(plan, logits).cpu().numpy()

    @torch.inference_mode()
    def forward(self, plan: StepPlan) -> Tensor:
        """Hidden states of all tokens, [N, H]. Rows that begin a sequence start from an empty slot."""
        if self.model.config.delta is not None and len(fresh := plan.fresh_rows):
            self.cache.clear_slots(tensor(plan.slots[fresh], self._device))
        return self.model.forward(batch_of(plan, self._device), self.cache)

    @torch.inference_mode()
    def sample(self, plan: StepPlan, logits: Tensor) -> Tensor:
        """Token ids, int64 [S], from logits [S, V] of the plan's sampled rows."""
        device = self._device
        return sample(
            logits,
            torch.from_numpy(plan.temperature).to(device),
            tensor(plan.top_k, device),
            torch.from_numpy(plan.top_p).to(device),
            tensor(plan.seeds.view(np.int64), device),
            tensor(plan.sample_positions, device),
            self.model.vocabulary,
        )
