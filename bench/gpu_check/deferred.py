"""Decode with deferred state writes (kernels.delta_ring), over the same pools, beside decode without."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch

from bench.gpu_check import steps
from bench.gpu_check.bed import Bed
from bench.gpu_check.findings import Finding
from bench.roofline import deferred_work, work_of
from kernels.constants import RING
from node.engine.roofline import Device, decode_plan
from node.run.graph_runner import GraphRunner
from node.run.model_runner import ModelRunner
from node.run.warm import scratch_plan

TARGETS = {256: 15.0}  # ms, of the 9B on an H200 at 2k tokens
REPEATS = 3 * RING  # each row passes every phase as often


def deferred(bed: Bed, device: Device) -> Iterator[Finding]:
    if bed.config.delta is None:
        return
    runner = _deferring(bed.runner)
    static = GraphRunner(runner, bed.size.context, tuple(sorted({4, *bed.size.decode_rows})))
    for bucket in static.buckets:
        static.run(scratch_plan(bucket, ()))
    if bed.device.type == "cuda":
        static.capture()
    yield steps.agreement(
        "deferred = each token, 4 rows",
        steps.outputs(bed, static, 4, ahead=False),
        steps.outputs(bed, bed.static, 4, ahead=False),
        exact=bed.model.dtype == torch.float32,  # elsewhere the last bits of near ties differ
    )
    work = deferred_work(work_of(bed.config, bed.model.dtype.itemsize), bed.config)
    for rows in bed.size.decode_rows:
        plan = steps.paged(bed, decode_plan(rows, bed.decode_context(rows)), bed.decode_context(rows))
        assert runner.cache.ring is not None
        pending = runner.cache.ring.pending
        pending.copy_(torch.arange(len(pending), device=bed.device) % RING)
        ms = steps.seconds(bed, lambda plan=plan: steps.launched(static, plan), REPEATS) * 1e3  # type: ignore[misc]
        target = TARGETS.get(rows) if bed.promised else None
        note = f"target {target} ms" if target else ""
        floor = work.step_seconds(plan, device) * 1e3
        kept = None if target is None else ms <= target
        yield Finding(f"decode of {rows} rows, deferred writes", ms, "ms", floor, kept, note)


def _deferring(runner: ModelRunner) -> ModelRunner:
    """A second runner over the same pools: there is no memory for others."""
    twin = copy.copy(runner)
    twin.cache = runner.cache.deferring()
    return twin
