"""Runs plans that only decode over static tensors, as CUDA graphs: the fast way beside ModelRunner's plain one."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.constants import BUCKETS, PAGE
from node.engine.plan import GetSamplingMetadata, StepPlan, no_sampling_metadata
from node.run.buckets import bucket_of, only_decodes
from node.run.decode import Decode, DecodeExecutor
from node.run.graphs import Graphs
from node.run.inputs import Inputs
from node.run.model_runner import ModelRunner, StepHandle
from node.run.pinned_buffers import PinnedBuffer, PinnedBufferRing


class GraphStepHandle:
    """A decode step on its way through the device, as model_runner.StepHandle."""

    def __init__(self, runner: GraphRunner, plan: StepPlan, bucket: int, buffer: PinnedBuffer) -> None:
        self._runner = runner
        self._plan = plan
        self._bucket = bucket
        self._buffer = buffer

    def sample(self, get_metadata: GetSamplingMetadata) -> None:
        self._runner.sample(self._plan, self._bucket, self._buffer, get_metadata)

    def ids(self) -> NDArray[np.int64]:
        """As StepHandle.ids; to be asked before its buffer comes round."""
        self._buffer.wait()
        return self._buffer.ids[: self._plan.rows].numpy().copy()


class GraphRunner:
    """A runner whose decode steps run at fixed sizes, over the pools of a ModelRunner, which runs all other steps.

    Until `capture`, and for ever on a CPU, the halves of a step are called; afterwards they are replayed.
    """

    def __init__(self, runner: ModelRunner, context: int, buckets: tuple[int, ...] = BUCKETS) -> None:
        self.runner = runner
        self.buckets = buckets
        self.inputs = Inputs(max(buckets), context, runner.device)
        self.decode = Decode(runner.model, runner.cache, self.inputs)
        self._executor: DecodeExecutor = self.decode
        self._buffers = PinnedBufferRing(self.inputs.words, self.inputs.rows, runner.device)

    def capture(self) -> None:
        """Of every bucket; only where there is CUDA."""
        self._executor = Graphs(self.decode, self.buckets)

    def run(
        self, plan: StepPlan, get_metadata: GetSamplingMetadata = no_sampling_metadata
    ) -> NDArray[np.int64]:
        handle = self.launch(plan)
        handle.sample(get_metadata)
        return handle.ids()

    def launch(self, plan: StepPlan) -> StepHandle | GraphStepHandle:
        """Begin a step, after those before it; on CUDA this returns before it has run."""
        bucket = self.bucket_of(plan)
        return self.runner.launch(plan) if bucket is None else self._launch(plan, bucket)

    def bucket_of(self, plan: StepPlan) -> int | None:
        """None for a step that runs eagerly."""
        fits = plan.context_lengths.max(initial=0) <= self.inputs.width * PAGE
        fits = fits and len(self.runner.last_ids) <= self.inputs.rows
        return bucket_of(plan.rows, self.buckets) if fits and only_decodes(plan) else None

    @torch.inference_mode()
    def _launch(self, plan: StepPlan, bucket: int) -> GraphStepHandle:
        runner, buffer = self.runner, self._buffers.take()
        runner.before(plan)
        if len(plan.future_tokens):
            self._receive()
        self.inputs.load(plan, bucket, buffer.words)
        buffer.mark()
        self._executor.forward(bucket)
        runner.after(plan)
        return GraphStepHandle(self, plan, bucket, buffer)

    def _receive(self) -> None:
        """Ids that an eager step sampled come to where the static ones read them."""
        last = self.runner.last_ids
        if not len(last):
            raise ValueError("future_tokens: no step before has sampled")
        if last.data_ptr() != self.decode.ids.data_ptr():
            self.decode.ids[: len(last)].copy_(last)

    @torch.inference_mode()
    def sample(
        self, plan: StepPlan, bucket: int, buffer: PinnedBuffer, get_metadata: GetSamplingMetadata
    ) -> None:
        """Launch the second half. What `get_metadata` and min_p ask of some rows is done eagerly, before it."""
        rows, runner = plan.rows, self.runner
        logits = self.decode.logits[:rows]
        if (metadata := get_metadata()) is not None:
            runner.constrain(logits, metadata)
        runner.restrict(plan, logits)
        self._executor.sample(bucket)
        runner.last_ids = self.decode.ids[:rows]
        buffer.ids[:rows].copy_(runner.last_ids, non_blocking=True)
        buffer.mark()
