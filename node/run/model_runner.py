"""Runs plans on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.mask_logits import mask_logits
from kernels.min_p import apply_min_p
from kernels.penalties import penalise
from kernels.sample import sample
from node.engine.plan import GetSamplingMetadata, SamplingMetadata, StepPlan, no_sampling_metadata
from node.model.model import Model
from node.run.batch import batch_of, tensor


class StepHandle:
    """A step on its way through the device: the forward pass has been handle, sampling has not."""

    def __init__(self, runner: ModelRunner, plan: StepPlan, hidden: Tensor) -> None:
        self._runner = runner
        self._plan = plan
        self._hidden = hidden
        self._ids = torch.empty(0, dtype=torch.int64)
        self._done: torch.cuda.Event | None = None

    @torch.inference_mode()
    def sample(self, get_metadata: GetSamplingMetadata) -> None:
        """Launch the sampling. `get_metadata` is asked here, so that it is built beside the forward pass."""
        plan, runner = self._plan, self._runner
        if len(plan.sample_rows):
            logits = runner.model.logits(
                self._hidden[tensor(plan.last_tokens[plan.sample_rows], runner.device)]
            )
            if (metadata := get_metadata()) is not None:
                runner.constrain(logits, metadata)
            runner.last_ids = runner.sample(plan, logits)
            self._ids = runner.last_ids.to("cpu", non_blocking=True)
        self._hidden = torch.empty(0)  # of a long prompt 67 MB, and the handle lives until its ids are read
        self._done = runner.mark()

    def ids(self) -> NDArray[np.int64]:
        """Sampled ids, int64 [S], in the order of plan.sample_rows; waits for them."""
        if self._done is not None:
            self._done.synchronize()
        return self._ids.numpy()


class ModelRunner:
    """One model with its pools of pages and slots (the scratch ones counted).

    deferred: decoding writes states on every 8th token, not on each (kernels.delta_ring).
    """

    def __init__(
        self, model: Model, pages: int, state_slots: int, device: torch.device | str, deferred: bool = False
    ) -> None:
        self.model = model
        self.device = torch.device(device)
        self.cache = model.allocate_cache(pages, state_slots, deferred)
        self.last_ids = torch.empty(0, dtype=torch.int64, device=self.device)  # of the last step that sampled

    def run(
        self, plan: StepPlan, get_metadata: GetSamplingMetadata = no_sampling_metadata
    ) -> NDArray[np.int64]:
        """One step: the sampled ids, int64 [S], in the order of plan.sample_rows."""
        handle = self.launch(plan)
        handle.sample(get_metadata)
        return handle.ids()

    def launch(self, plan: StepPlan) -> StepHandle:
        """Begin a step, after those before it. On a device with a queue this returns before it has run."""
        return StepHandle(self, plan, self.forward(plan))

    @torch.inference_mode()
    def forward(self, plan: StepPlan) -> Tensor:
        """Hidden states of all tokens, [N, H]. Rows that begin a sequence start from an empty slot."""
        # State that decayed for long turns denormal, and a CPU multiplies those ten times slower. A flag of the thread.
        torch.set_flush_denormal(True)
        self.before(plan)
        hidden = self.model.forward(batch_of(plan, self.device, self.last_ids), self.cache)
        self.after(plan)
        return hidden

    def before(self, plan: StepPlan) -> None:
        """Slots as the forward pass wants to find them."""
        if self.model.config.delta is not None:
            if len(plan.restores):
                self.cache.copy_slots(tensor(plan.restores, self.device))
            if len(fresh := plan.fresh_rows):
                self.cache.clear_slots(tensor(plan.state_slots[fresh], self.device))
            if self.cache.ring is not None and plan.decode_rows < plan.rows:
                self.cache.settle(tensor(plan.state_slots[plan.decode_rows :], self.device))

    def after(self, plan: StepPlan) -> None:
        """Slots that the forward pass has left, kept as cached states."""
        if len(plan.saves):
            pairs = tensor(plan.saves, self.device)
            self.cache.settle(pairs[:, 0].contiguous())
            self.cache.copy_slots(pairs)

    def constrain(self, logits: Tensor, metadata: SamplingMetadata) -> None:
        """Penalties and masks, on logits [S, V] in place."""
        if metadata.seen.size:
            rows, ids, counts = tensor(metadata.seen, self.device).unbind(0)
            penalise(logits, rows, ids, counts, tensor(metadata.penalties, self.device))
        if len(metadata.masked):
            bits = tensor(metadata.bits.view(np.int32), self.device)
            mask_logits(logits, tensor(metadata.masked, self.device), bits)

    def restrict(self, plan: StepPlan, logits: Tensor) -> None:
        """min_p where a row asks for it, on logits [S, V] in place."""
        if plan.min_p.any():
            temperature, min_p = tensor(plan.temperature, self.device), tensor(plan.min_p, self.device)
            apply_min_p(logits, temperature, min_p)

    @torch.inference_mode()
    def sample(self, plan: StepPlan, logits: Tensor) -> Tensor:
        """Token ids, int64 [S], from logits [S, V] of the plan's sampled rows; may change them."""
        device = self.device
        self.restrict(plan, logits)
        return sample(
            logits,
            tensor(plan.temperature, device),
            tensor(plan.top_k, device),
            tensor(plan.top_p, device),
            tensor(plan.seeds.view(np.int64), device),
            tensor(plan.sample_positions, device),
            self.model.vocabulary,
        )

    def mark(self) -> torch.cuda.Event | None:
        """What to wait for until all that was launched so far is done; None where launching is doing."""
        if self.device.type != "cuda":
            return None
        event = torch.cuda.Event()
        event.record()
        return event
