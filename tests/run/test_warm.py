"""Warm-up reaches everything that serving runs, and what is compiled after it is counted."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from kernels.aot import compile_launches
from kernels.device import INTERPRETED, triton
from kernels.swiglu import swiglu
from node.run.compiles import Compiles
from node.run.load import load_model
from node.run.measure import measured_workspace
from node.run.runner import Runner
from node.run.static import StaticRunner
from node.run.warm import scratch_plan, warm_all
from tests.model import tiny

SMALL = (1, 2, 4, 8)


@pytest.mark.parametrize("kind", sorted(tiny.CONFIGS))
def test_warm_up_plays_every_bucket_in_the_scratch_page_and_slot(tmp_path: Path, kind: str) -> None:
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS[kind]), torch.bfloat16, "cpu")
    static = StaticRunner(Runner(model, pages=1, slots=1, device="cpu"), 1024, SMALL)
    forwards: set[int] = set()
    play = static.decode.forward
    static.decode.forward = lambda bucket: (forwards.add(bucket), play(bucket))[1]  # type: ignore
    warm_all(static, step_tokens=512, sequences=8)
    assert forwards == set(SMALL)
    assert not static.decode.logits.isnan().any()


def test_a_scratch_plan_is_what_it_says() -> None:
    plan = scratch_plan(3, (70, 5), 0.2)
    assert plan.row_lengths.tolist() == [1, 1, 1, 70, 5]
    assert (plan.decode_rows, plan.page_table.shape) == (3, (5, 2))


@pytest.mark.skipif(triton is None or INTERPRETED, reason="counts what Triton compiles, and here it does not")
def test_what_is_compiled_after_ready_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(triton.knobs.compilation, "listener", lambda **more: told.append(more["src"]))
    compiles = Compiles()

    def compiled(width: int) -> tuple[int, int]:
        list(compile_launches("swiglu", partial(swiglu, torch.empty(3, 2 * width, device="meta")), 90))
        return compiles.total, compiles.after_ready

    assert compiled(1031) == (1, 0)
    compiles.ready()
    assert compiled(1031) == (1, 0)
    assert compiled(1033) == (2, 1)
    assert len(told) == 2


def test_workspace_is_the_worst_moment_and_what_lies_outside_the_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the device: 1,000 bytes, of which warm-up takes 300 at worst, keeps 200, and 50 elsewhere."""
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS["qwen3_5"]), torch.float32, "cpu")
    free, reserved = iter([(1000, 1000), (750, 1000)]), iter([100, 300])
    for name, value in (
        ("empty_cache", lambda: None),
        ("synchronize", lambda device: None),
        ("reset_peak_memory_stats", lambda device: None),
        ("mem_get_info", lambda device: next(free)),
        ("memory_reserved", lambda device: next(reserved)),
        ("max_memory_reserved", lambda device: 400),
    ):
        monkeypatch.setattr(torch.cuda, name, value)
    assert measured_workspace(model, 128, 64, 4, SMALL) == 350
