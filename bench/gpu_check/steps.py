"""Decode and prompt steps: that captured ones give what others give, and how long they take beside their floor."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from bench.gpu_check.bed import Bed
from bench.gpu_check.findings import Finding
from bench.roofline import work_of
from kernels.constants import PAGE
from node.engine.engine import OverlappedRunner
from node.engine.plan import StepPlan
from node.engine.roofline import Device, decode_plan, prefill_plan
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.run.graph_runner import GraphRunner
from node.run.warm import warm_all

TARGETS = {1: 4.9, 8: 5.3, 32: 6.5, 64: 8.1, 128: 11.5, 256: 18.0}  # ms, of the 9B on an H200 at 2k tokens
PROMPT_TARGET = 33_000  # tokens a second, the same
COPIED = 2**30
PRODUCT = 8192


def warm(bed: Bed) -> Iterator[Finding]:
    before = _held(bed)
    started = time.monotonic()
    warm_all(bed.static, bed.size.step_tokens, bed.size.sequences)
    bed.wait()
    yield Finding("warm-up and capture", time.monotonic() - started, "s")
    yield Finding("memory that warm-up and graphs keep", (_held(bed) - before) / 2**30, "GiB")
    yield Finding("compiled while warming up", bed.compiles.total, "kernels")
    bed.compiles.ready()


def same_tokens(bed: Bed) -> Iterator[Finding]:
    """Graphs, the same halves called, and the plain runner, plain and planned ahead."""
    called = GraphRunner(bed.runner, bed.size.context, bed.size.buckets)
    for count in (max(bed.size.buckets[:4]), 5):  # one fills its bucket, one is padded
        graph = outputs(bed, bed.static, count, ahead=False)
        others: list[tuple[str, OverlappedRunner, bool]] = [
            ("the halves called", called, False),
            ("graphs planned ahead", bed.static, True),
        ]
        if count in bed.size.buckets:  # elsewhere products have other shapes, and their last bits may differ
            others.append(("the plain runner", bed.runner, False))
        for name, runner, ahead in others:
            yield agreement(f"graph = {name}, {count} rows", graph, outputs(bed, runner, count, ahead))


def alone_and_beside_others(bed: Bed) -> Iterator[Finding]:
    """A measurement: bfloat16 products of other shapes round otherwise, and random weights have near ties."""
    beside = outputs(bed, bed.static, min(64, bed.size.sequences), ahead=False)
    alone = outputs(bed, bed.static, 1, ahead=False)
    yield agreement("alone = beside others", beside[:1], alone, exact=False)


def agreement(name: str, ours: list[list[int]], theirs: list[list[int]], exact: bool = True) -> Finding:
    """How many tokens differ; exact where none may."""
    pairs = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    differ = sum(one != other for one, other in pairs)
    return Finding(name, differ, f"of {len(pairs)} tokens differ", 0, differ == 0 if exact else None)


def outputs(bed: Bed, runner: OverlappedRunner, count: int, ahead: bool) -> list[list[int]]:
    """Greedy and seeded sequences of one length, so that all decode together from the first step to the last."""
    size, plan = bed.size, bed.plan
    budget = Budget(tokens=size.step_tokens, mixed_tokens=size.step_tokens).with_sequences(size.sequences)
    scheduler = Scheduler(plan.pages, plan.state_slots, size.context, budget, bed.config.delta is not None)
    asked = [_asked(bed, n) for n in range(count)]
    for sequence in asked:
        scheduler.add(sequence)
    flight = None
    while scheduler.has_work:
        step = scheduler.plan()
        launched = None if step is None else (step, runner.launch(step.plan))
        if not ahead and launched is not None:
            launched[1].sample(lambda: None)
            flight, launched = launched, None
        if flight is not None:
            scheduler.retire(flight[0], flight[1].ids())
        if launched is not None:
            launched[1].sample(lambda: None)
        flight = launched
    return [sequence.output for sequence in asked]


def _asked(bed: Bed, number: int) -> Sequence:
    prompt = np.random.default_rng(number).integers(0, bed.model.vocabulary, 40)
    sampling = Sampling(0.9 * (number % 2), 0.9, 20, number)
    return Sequence("s", prompt, bed.size.tokens, sampling, frozenset())


def measured(bed: Bed) -> Device:
    """The device as a copy and a large product find it in this run."""
    dtype = getattr(torch, bed.size.dtype)
    small = bed.device.type != "cuda"
    data = torch.empty(COPIED // (64 if small else 1), dtype=torch.uint8, device=bed.device)
    twin = torch.empty_like(data)
    side = PRODUCT // (16 if small else 1)
    a = torch.randn(side, side, dtype=dtype, device=bed.device)  # zeros and ones draw less power
    return Device(
        "measured",
        bandwidth=2 * len(data) / seconds(bed, lambda: twin.copy_(data), 10),
        rate=2 * side**3 / seconds(bed, lambda: a @ a, 10),
    )


def seconds(bed: Bed, run: Callable[[], object], times: int) -> float:
    """Of one of `times` runs in a row, the first left out."""
    run()
    bed.wait()
    started = time.perf_counter()
    for _ in range(times):
        run()
    bed.wait()
    return (time.perf_counter() - started) / times


def decode_times(bed: Bed, device: Device) -> Iterator[Finding]:
    size, work = bed.size, work_of(bed.config, bed.model.dtype.itemsize)
    yield Finding("bandwidth of a copy", device.bandwidth / 1e12, "TB/s")
    yield Finding("rate of a large product", device.rate / 1e12, "TFLOP/s")
    for rows in size.decode_rows:
        context = bed.decode_context(rows)
        plan = paged(bed, decode_plan(rows, context), context)
        ms = seconds(bed, lambda plan=plan: launched(bed.static, plan), size.repeats) * 1e3  # type: ignore[misc]
        floor = work.step_seconds(plan, device) * 1e3
        target = TARGETS.get(rows) if bed.promised else None
        note = f"{floor / ms:.0%} of the floor's speed"
        note += f"; target {target} ms" if target else ""
        yield Finding(
            f"decode of {rows} rows, {context} tokens",
            ms,
            "ms",
            floor,
            None if target is None else ms <= target,
            note,
        )
        eager = seconds(bed, lambda plan=plan: launched(bed.runner, plan), 3) * 1e3  # type: ignore[misc]
        yield Finding(f"  the same, eagerly, {rows} rows", eager, "ms", floor)


def launched(runner: OverlappedRunner, plan: StepPlan) -> None:
    runner.launch(plan).sample(lambda: None)


def paged(bed: Bed, plan: StepPlan, context: int) -> StepPlan:
    """Rows with pages and slots of their own."""
    width = -(-context // PAGE)
    pages = 1 + np.random.default_rng(0).permutation(bed.plan.pages)[: plan.rows * width]
    slots = 1 + np.arange(plan.rows) % max(bed.plan.state_slots, 1)
    return dataclasses.replace(plan, page_table=pages.reshape(plan.rows, width), state_slots=slots)


def prompt_times(bed: Bed, device: Device) -> Iterator[Finding]:
    size, work = bed.size, work_of(bed.config, bed.model.dtype.itemsize)
    for tokens in size.prompts:
        whole = prefill_plan(tokens)
        chunks = [
            _chunk(bed, start, min(start + size.step_tokens, tokens))
            for start in range(0, tokens, size.step_tokens)
        ]

        def run(chunks: list[StepPlan] = chunks) -> None:
            for chunk in chunks:
                launched(bed.runner, chunk)

        took = seconds(bed, run, 2)
        floor, rate = work.step_seconds(whole, device), tokens / took
        ok = rate >= PROMPT_TARGET if bed.promised else None
        note = f"{took * 1e3:.1f} ms, floor {floor * 1e3:.1f} ms"
        yield Finding(f"prompt of {tokens} tokens", rate, "tokens/s", tokens / floor, ok, note)


def _chunk(bed: Bed, start: int, end: int) -> StepPlan:
    """Tokens `start` to `end` of a prompt."""
    plan = prefill_plan(end - start)
    plan = dataclasses.replace(plan, positions=np.arange(start, end))
    return paged(bed, plan, end)


def _held(bed: Bed) -> int:
    return torch.cuda.memory_reserved(bed.device) if bed.device.type == "cuda" else 0


def forget(bed: Bed) -> None:
    """From here on the peak of memory is that of serving."""
    if bed.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(bed.device)


def memory(bed: Bed) -> Iterator[Finding]:
    """What was held at the worst moment beside what was planned."""
    if bed.device.type != "cuda":
        return
    peak, plan = torch.cuda.max_memory_reserved(bed.device), bed.plan
    yield Finding("workspace, measured", plan.workspace / 2**30, "GiB", bed.reckoned.workspace / 2**30)
    within = peak <= plan.total
    yield Finding("peak memory beside the plan", peak / 2**30, "GiB", plan.total / 2**30, within)
    yield Finding("left on the device", torch.cuda.mem_get_info(bed.device)[0] / 2**30, "GiB")


def compiles(bed: Bed) -> Iterator[Finding]:
    late = bed.compiles.after_ready
    yield Finding("compiles_after_ready", late, "kernels", 0, late == 0)
