"""The rows. Each measures beside its limit, in one run, because machines differ and drift."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from bench.registry import Measure, Unavailable, row
from kernels.constants import PAGE
from node.engine.plan import StepPlan
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import Sequence
from node.model.families import read_config
from node.run.load import load_model, warm_up
from node.run.model_runner import ModelRunner

SAMPLES = 5
DECODE_STEPS = 8  # a sample
BATCHES = (1, 4, 16)
PROMPT = 512
CONTEXT = 128  # tokens already in the context of each decoding sequence
READ_BYTES = 2**29
GEMM = 2048


def real_model() -> Path:
    folder = os.environ.get("B3OS_REAL_MODEL")
    if not folder:
        raise Unavailable("set B3OS_REAL_MODEL to the folder of a checkpoint, such as Qwen2.5-Coder-0.5B")
    return Path(folder)


def best(run: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of `times` runs: a limit is what the machine can do at its best."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def read_bandwidth() -> float:
    """Bytes a second that all threads read together."""
    data = torch.ones(READ_BYTES // 4)
    return READ_BYTES / best(data.sum, 7)


def matrix_rate() -> float:
    """FLOP a second of a large bfloat16 product."""
    a = torch.ones(GEMM, GEMM, dtype=torch.bfloat16)
    return 2 * GEMM**3 / best(lambda: a @ a, 7)


class Bed:
    """A model with a scheduler, stepped by hand."""

    def __init__(self, folder: Path) -> None:
        self.config = read_config(folder)
        pages = max(BATCHES) * (CONTEXT + PROMPT) // PAGE + 64
        self.runner = ModelRunner(load_model(folder, torch.bfloat16, "cpu"), pages + 1, 33, "cpu")
        warm_up(self.runner)
        self.added = 0
        recurrent = self.config.delta is not None
        self.scheduler = Scheduler(pages, 32, 4096, Budget(32, 4096, 4096), recurrent)

    def add(self, length: int, limit: int) -> Sequence:
        self.added += 1  # no prompt is like another: nothing may be reused
        prompt = np.random.default_rng(self.added).integers(1000, 2000, length)
        sequence = Sequence("bench", prompt, limit, Sampling(temperature=0.0), frozenset())
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> StepPlan:
        step = self.scheduler.plan()
        assert step is not None
        self.scheduler.retire(step, self.runner.run(step.plan))
        return step.plan

    def clear(self) -> None:
        for sequence in list(self.scheduler.running):
            self.scheduler.cancel(sequence)


@row
def cpu_decode() -> Iterator[Measure]:
    """Tokens a second of sequences that decode; the limit reads the weights and their KV once a step."""
    bed, bandwidth = Bed(real_model()), read_bandwidth()
    for batch in BATCHES:
        for _ in range(batch):
            bed.add(CONTEXT, 1000)
        bed.step()
        rates = []
        for _ in range(SAMPLES):
            started = time.perf_counter()
            for _ in range(DECODE_STEPS):
                bed.step()
            rates.append(batch * DECODE_STEPS / (time.perf_counter() - started))
        bed.clear()
        kv = batch * CONTEXT * bed.config.kv_bytes_per_token(2) + batch * 2 * bed.config.slot_bytes(2)
        limit = batch * bandwidth / (bed.config.parameters * 2 + kv)
        yield Measure(f"cpu_decode {batch} sequences", "tokens/s", tuple(rates), limit)


@row
def cpu_prompt() -> Iterator[Measure]:
    """Tokens a second of one prompt; the limit is the slower of reading the weights and multiplying by them."""
    bed = Bed(real_model())
    bandwidth, rate = read_bandwidth(), matrix_rate()
    rates = []
    for _ in range(SAMPLES):
        bed.add(PROMPT, 1)
        started = time.perf_counter()
        assert bed.step().tokens == PROMPT
        rates.append(PROMPT / (time.perf_counter() - started))
    table = bed.config.vocab_size * bed.config.hidden_size  # read for one row only, whether tied or not
    multiplied = bed.config.parameters - table
    seconds = max(bed.config.parameters * 2 / bandwidth, PROMPT * 2 * multiplied / rate)
    yield Measure(f"cpu_prompt {PROMPT} tokens", "tokens/s", tuple(rates), PROMPT / seconds)
