"""Runs all that serving will run, once, in the scratch page and slot, so that no request waits for a first time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kernels.constants import PAGE
from node.engine.plan import SCRATCH, SamplingMetadata, StepPlan
from node.run.graph_runner import GraphRunner
from node.run.model_runner import ModelRunner

# (rows that decode, tokens of each other row). Counts and strides do not specialise the kernels, but the split of
# decode attention follows the number of rows, and cuBLAS picks its code by the number of tokens.
MIXED = (
    (0, (2,)),
    (0, (PAGE,)),
    (0, (17, 65)),
    (1, (PAGE + 1,)),
    (2, (33, 2)),
    (4, (128,)),
    (8, (100, 100, 56)),
    (16, (256,)),
    (32, (512,)),
    (64, (512,)),
    (128, (512,)),
    (255, (512,)),
)
WHOLE = (1024, 2048, 4096, 8192)  # prompts that have a step for themselves


def warm_all(runner: GraphRunner, step_tokens: int, sequences: int) -> None:
    """Mixed steps of up to this size, then decode of every bucket, greedy and sampled, free and constrained; then, on
    CUDA, capture, which may neither compile nor load a kernel."""
    runs: ModelRunner = runner.runner
    steps = [scratch_plan(rows, lengths) for rows, lengths in _steps(step_tokens, sequences)]
    for plan in steps:
        runs.run(plan)
    vocabulary = runs.model.config.vocab_size
    for bucket in reversed(runner.buckets):
        for min_p in (0.0, 0.1):
            plan = scratch_plan(bucket, (), min_p)
            runner.run(plan)
            runner.run(plan, lambda rows=bucket: _neutral_metadata(rows, vocabulary))  # type: ignore[misc]
    for lengths in ((2,), (), (2,)):  # from captured to eager and back: ids go another way each time
        runner.run(_joined(scratch_plan(1, lengths)))
    if runs.device.type == "cuda":
        runner.capture()
        for bucket in runner.buckets:
            runner.run(scratch_plan(bucket, ()))
        # Before a capture torch gives back all memory that it keeps, pinned memory too. Now it takes what steps want
        # beside the graphs: no request should wait for that, and what it comes to is what serving takes at worst.
        for plan in steps:
            runs.run(plan)


def _steps(step_tokens: int, sequences: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    for rows, lengths in MIXED:
        if rows + len(lengths) <= sequences and rows + sum(lengths) <= step_tokens:
            yield rows, lengths
    yield from ((0, (tokens,)) for tokens in sorted({*WHOLE, step_tokens}) if 2 <= tokens <= step_tokens)
    rows = 1
    while rows <= sequences:  # decode rows beside a chunk, in every split of their attention
        yield rows, ()
        rows *= 2


def scratch_plan(rows: int, lengths: tuple[int, ...], min_p: float = 0.0) -> StepPlan:
    """`rows` decode rows and a chunk of each of these lengths, all of whose pages and slots are the scratch ones."""
    counts = np.array([*[1] * rows, *lengths])
    total = len(counts)
    return StepPlan(
        token_ids=np.zeros(counts.sum(), np.int64),
        positions=np.concatenate([np.arange(count) for count in counts]),
        cu_seqlens=np.concatenate([[0], np.cumsum(counts)]),
        page_table=np.full((total, -(-int(counts.max()) // PAGE)), SCRATCH),
        state_slots=np.full(total, SCRATCH),
        sample_rows=np.arange(total),
        temperature=np.resize(np.array([0.0, 1.0, 0.7, 0.8], np.float32), total),
        top_p=np.resize(np.array([1.0, 1.0, 0.95, 0.8], np.float32), total),
        top_k=np.resize(np.array([0, 0, 0, 20]), total),
        seeds=np.zeros(total, np.uint64),
        min_p=np.full(total, min_p, np.float32),
    )


def _joined(plan: StepPlan) -> StepPlan:
    """The same, going on from the step before, with a state restored before it and one saved after."""
    pair = np.full((1, 2), SCRATCH)
    return replace(plan, restores=pair, saves=pair, future_tokens=np.zeros((1, 2), np.int64))


def _neutral_metadata(rows: int, vocabulary: int) -> SamplingMetadata:
    """Masks that allow everything, and penalties that change nothing."""
    return SamplingMetadata(
        masked=np.arange(rows),
        bits=np.full((rows, -(-vocabulary // 32)), 2**32 - 1, np.uint32),
        seen=np.stack([np.arange(rows), np.zeros(rows, np.int64), np.ones(rows, np.int64)]),
        penalties=np.stack([np.ones(rows), np.zeros(rows), np.zeros(rows)]).astype(np.float32),
    )
