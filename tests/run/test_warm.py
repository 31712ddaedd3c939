"""Warm-up reaches everything that serving runs, and what is compiled after it is counted."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from kernels.aot import compile_launches
from kernels.device import INTERPRETED, triton
from kernels.swiglu import swiglu
from node.model.cache import Cache
from node.model.families import parse_config
from node.model.qwen import Qwen
from node.model.weights import assemble
from node.run.compiles import Compiles
from node.run.graph_runner import GraphRunner
from node.run.load import load_model
from node.run.measure import measured_workspace
from node.run.model_runner import ModelRunner
from node.run.warm import scratch_plan, warm_all
from tests.model import tiny
from tests.run.fake_cuda import CUDA, fake_cuda

SMALL = (1, 2, 4, 8)


@pytest.mark.parametrize("kind", sorted(tiny.CONFIGS))
def test_warm_up_plays_every_bucket_in_the_scratch_page_and_slot(tmp_path: Path, kind: str) -> None:
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS[kind]), torch.bfloat16, "cpu")
    static = GraphRunner(ModelRunner(model, pages=1, state_slots=1, device="cpu"), 1024, SMALL)
    forwards: set[int] = set()
    forward = static.decode.forward
    static.decode.forward = lambda bucket: (forwards.add(bucket), forward(bucket))[1]  # type: ignore
    warm_all(static, step_tokens=512, sequences=8)
    assert forwards == set(SMALL)
    assert not static.decode.logits.isnan().any()


def test_warm_up_restores_and_saves_states_and_hands_ids_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eagerly and over static tensors; all of it in the scratch slot."""
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS["qwen3_5"]), torch.float32, "cpu")
    static = GraphRunner(ModelRunner(model, pages=1, state_slots=1, device="cpu"), 1024, SMALL)
    copied, received = [], []
    copy, receive = Cache.copy_slots, static._receive
    monkeypatch.setattr(Cache, "copy_slots", lambda *pair: (copied.append(pair[1].tolist()), copy(*pair))[1])
    static._receive = lambda: (received.append(len(static.runner.last_ids)), receive())[1]  # type: ignore
    warm_all(static, step_tokens=64, sequences=8)
    assert copied == [[[0, 0]]] * 6
    assert received == [2]


@pytest.mark.skipif(triton is None or INTERPRETED, reason="hands on Triton's launches")
def test_after_capture_eager_steps_take_their_memory_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that is not there: capture stands between the same steps, the largest among them."""
    with fake_cuda() as cuda:
        config = parse_config(tiny.CONFIGS["qwen3"])
        model = Qwen(config, assemble(config, cuda.source(config), bool(config.tied), torch.bfloat16))
        static = GraphRunner(ModelRunner(model, 1, 1, CUDA), 1024, (1, 2))
        told: list[object] = []
        run = static.runner.run
        monkeypatch.setattr(static, "capture", lambda: told.append("capture"))
        monkeypatch.setattr(static.runner, "run", lambda plan: (told.append(plan.tokens), run(plan))[1])
        with cuda.only("serving"):
            warm_all(static, step_tokens=96, sequences=4)
    at = told.index("capture")
    assert told[:at] == told[at + 1 :]
    assert max(told[:at]) == 96  # type: ignore[type-var]


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
    assert measured_workspace(model, 128, 64, 4, buckets=SMALL) == 350
