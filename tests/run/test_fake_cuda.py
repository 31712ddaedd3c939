"""No step of serving holds the host, and what is captured never meets it: shown on a CUDA device that is not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.constants import PAGE
from kernels.device import INTERPRETED, triton
from node.engine.plan import SamplingMetadata, StepPlan
from node.model.families import parse_config
from node.model.qwen import Qwen
from node.model.weights import assemble
from node.run.graph_runner import GraphRunner
from node.run.model_runner import ModelRunner
from node.run.warm import scratch_plan
from tests.model import tiny
from tests.run.fake_cuda import CUDA, Captured, FakeCuda, Waits, fake_cuda

pytestmark = pytest.mark.skipif(triton is None or INTERPRETED, reason="hands on Triton's launches")

# Triton's kernels want heads whose width is a power of two.
WIDTHS = {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
CONFIGS = {
    "qwen3_5": {**tiny.CONFIGS["qwen3_5"], "text_config": {**tiny.HYBRID, **WIDTHS}},
    "qwen3": tiny.CONFIGS["qwen3"],
    "qwen2": tiny.CONFIGS["qwen2"],
}
NONE: dict[str, Any] = {
    "sample_rows": np.zeros(0, np.int64),
    **{name: np.zeros(0, np.float32) for name in ("temperature", "top_p", "min_p")},
    "top_k": np.zeros(0, np.int64),
    "seeds": np.zeros(0, np.uint64),
}


@pytest.fixture
def launches() -> list[str]:
    """Names of the kernels launched by the host."""
    return []


@pytest.fixture
def cuda(launches: list[str]) -> Iterator[FakeCuda]:
    with fake_cuda(lambda kernel, *launched: launches.append(kernel.fn.__name__)) as device:
        yield device


@pytest.fixture(params=[*((kind, False) for kind in sorted(CONFIGS)), ("qwen3_5", True)], ids=str)
def static(request: pytest.FixtureRequest, cuda: FakeCuda) -> GraphRunner:
    kind, deferred = request.param
    config = parse_config(CONFIGS[kind])
    model = Qwen(config, assemble(config, cuda.source(config), bool(config.tied), torch.bfloat16))
    return GraphRunner(ModelRunner(model, 9, 9, CUDA, deferred), 16 * PAGE, (8, 16))


def metadata_of(rows: int) -> SamplingMetadata:
    """Row 0 is masked, and each row has seen one id."""
    every = np.arange(rows)
    seen = np.stack([every, every, every])
    bits = np.ones((1, tiny.VOCAB // 32), np.uint32)
    return SamplingMetadata(np.array([0]), bits, seen, np.ones((3, rows), np.float32))


def rich(rows: int, lengths: tuple[int, ...]) -> StepPlan:
    """Rows that go on from a step before, are restored and saved, that ask for min_p, and whose pages are shared."""
    plan = scratch_plan(rows, lengths, min_p=0.1)
    pairs = np.array([[1, 2], [3, 4]])
    future_tokens = np.stack([np.arange(rows), np.arange(rows)], axis=1)
    return dataclasses.replace(
        plan,
        restores=pairs,
        saves=pairs,
        future_tokens=future_tokens,
        skip_kv_write=np.array([plan.tokens - 1]),
    )


def test_what_is_captured_never_meets_the_host(
    cuda: FakeCuda, static: GraphRunner, launches: list[str]
) -> None:
    """Afterwards a decode step is two replays; its plan crosses the bus in one copy, its ids in another."""
    plan = dataclasses.replace(scratch_plan(6, ()), positions=np.full(6, 3))
    with cuda.only("serving"):
        static.capture()
        static.run(plan)
        assert launches.count("sample_draw_kernel") == 2 * len(static.buckets)
        launches.clear()
        copies = cuda.copies
        static.run(dataclasses.replace(plan, future_tokens=np.stack([np.arange(6)] * 2, axis=1)))
    assert launches == []
    assert cuda.copies - copies == 2


def test_no_step_holds_the_host(cuda: FakeCuda, static: GraphRunner) -> None:
    """Decode, mixed and prompt steps that follow each other as they do in service, free and constrained."""
    plans = [
        scratch_plan(5, (70, 3)),
        scratch_plan(7, ()),
        rich(7, ()),
        rich(6, (65, 2)),
        rich(0, (9,)),
        rich(1, ()),
    ]
    with cuda.only("serving"):
        for plan in plans:
            for metadata in (None, metadata_of(plan.rows)):
                handle = static.launch(plan)
                handle.sample(lambda metadata=metadata: metadata)  # type: ignore[misc]
                assert len(handle.ids()) == len(plan.sample_rows)
        unsampled = dataclasses.replace(scratch_plan(1, (30,)), **NONE)
        assert len(static.run(unsampled)) == 0


WAITING: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "truth": lambda x: bool((x > 0).all()),
    "list": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "mask written": lambda x: x.__setitem__(x > 0, 1),
    "list as index": lambda x: x[[0, 1]],
    "repeats": lambda x: x.repeat_interleave(x),
    "to the host": lambda x: x.cpu(),
    "from the host": lambda x: torch.zeros(4).to(CUDA),
    "not pinned": lambda x: torch.zeros(4).to(CUDA, non_blocking=True),
    "pinned, blocking": lambda x: torch.zeros(4).pin_memory().to(CUDA),
    "a list": lambda x: torch.tensor([1, 2], device=CUDA),
    "mixed": lambda x: x + torch.zeros(4),
}


@pytest.mark.parametrize("name", sorted(WAITING))
def test_what_waits_is_refused(cuda: FakeCuda, name: str) -> None:
    x = torch.ones(4, dtype=torch.int64, device=CUDA)
    with cuda.only("serving"), pytest.raises((Waits, RuntimeError)):
        WAITING[name](x)


def test_pinned_copies_are_welcome_but_while_capturing(cuda: FakeCuda) -> None:
    host, device = torch.zeros(4, pin_memory=True), torch.zeros(4, device=CUDA)

    def there_and_back() -> None:
        device.copy_(host[:4], non_blocking=True)
        host[1:].copy_(device[1:], non_blocking=True)

    with cuda.only("serving"):
        there_and_back()
        with cuda.only("capturing"), pytest.raises(Captured):
            there_and_back()
    assert cuda.copies == 3
