"""The check for a device runs to its end where there is none, and the tracing run counts what it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench.gpu_check.__main__ import main
from bench.gpu_check.bed import QWEN3_5_9B
from bench.gpu_check.findings import Finding, Findings
from bench.roofline import CONTEXT, launches_a_layer, trace_decode, work_of
from kernels.device import triton
from node.engine.roofline import H200, decode_plan
from node.model.config import ModelConfig

NINE = ModelConfig.parse(QWEN3_5_9B)
needs_triton = pytest.mark.skipif(
    triton is None, reason="counts Triton launches, and there is no Triton here"
)


@pytest.fixture(autouse=True)
def listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check leaves its counter in place; here it must go again."""
    if triton is not None:
        monkeypatch.setattr(triton.knobs.compilation, "listener", None)


def test_the_check_runs_to_its_end(tmp_path: Path) -> None:
    assert main(["--tiny", "--results", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    found = {finding["name"]: finding for finding in json.loads(path.read_text())["findings"]}
    for name in ("kernel delta_prompt", "graph = the plain runner, 8 rows", "compiles_after_ready"):
        assert found[name]["ok"]
    assert found["HTTP, 4 clients: not answered"]["value"] == 0
    if not torch.cuda.is_available():  # there, products of other shapes may round otherwise
        assert found["alone = beside others"]["value"] == 0
    assert found["decode of 8 rows, 100 tokens"]["value"] > 0


def test_a_part_that_dies_is_a_fault_and_not_the_end() -> None:
    findings = Findings("none")
    findings.add("dies", lambda: iter([Finding("first", 1, "s"), 1 / 0]) if True else iter(()))  # type: ignore
    findings.add("lives", lambda: iter([Finding("second", 1, "s", 2, True)]))
    assert findings.faults == 1
    assert "second" in [finding.name for finding in findings.all]


def test_the_floor_is_the_published_calculation() -> None:
    """ENGINE.md 2.2, row A."""
    work = work_of(NINE)
    floors = {rows: work.step_seconds(decode_plan(rows, CONTEXT), H200) * 1e3 for rows in (1, 64, 256)}
    assert floors == pytest.approx({1: 3.73, 64: 6.22, 256: 13.82}, abs=0.01)


@needs_triton
def test_launches_of_a_decode_step() -> None:
    assert launches_a_layer(NINE, 8) == {"full_attention": 11, "linear_attention": 9}


@needs_triton
@pytest.mark.parametrize(("rows", "most"), [(1, 1.01), (64, 1.05), (256, 1.08)])
def test_bytes_of_a_decode_step(rows: int, most: float) -> None:
    """Beside the floor, which counts weights, keys, values and states and no activation."""
    least = work_of(NINE).step_bytes(decode_plan(rows, CONTEXT))
    moved = sum(trace_decode(NINE, rows).moved.values())
    assert 1.0 < moved / least < most
