"""The check for a device runs to its end where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench.gpu_check.__main__ import main
from bench.gpu_check.bed import config_of
from bench.gpu_check.findings import Finding, Findings
from bench.roofline import deferred_work, work_of
from kernels.device import triton
from node.engine.roofline import H200, decode_plan


@pytest.fixture(autouse=True)
def listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check leaves its counter in place; here it must go again."""
    if triton is not None:
        monkeypatch.setattr(triton.knobs.compilation, "listener", None)


def test_the_check_runs_to_its_end(tmp_path: Path) -> None:
    assert main(["--tiny", "--results", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    found = {finding["name"]: finding for finding in json.loads(path.read_text())["findings"]}
    kept = ("kernel delta_prefill", "graph = the plain runner, 8 rows", "compiles_after_ready")
    for name in (*kept, "kernel delta_ring.flush", "deferred = each token, 4 rows"):
        assert found[name]["ok"]
    assert found["HTTP, 4 clients: not answered"]["value"] == 0
    if not torch.cuda.is_available():  # there, products of other shapes may round otherwise
        assert found["alone = beside others"]["value"] == 0
    for name in ("decode of 8 rows, 100 tokens", "decode of 8 rows, deferred writes"):
        assert found[name]["value"] > 0


def test_the_floor_of_deferred_writes_is_the_published_calculation() -> None:
    """The 9B on an H200 at 2k tokens, in ms; published to two digits, with the ring reckoned a little smaller."""
    config = config_of(tiny=False)
    work = deferred_work(work_of(config), config)
    found = [work.step_seconds(decode_plan(rows, 2048), H200) * 1e3 for rows in (1, 8, 32, 64, 128, 256)]
    assert found == pytest.approx([3.72, 3.93, 4.64, 5.59, 7.49, 11.29], rel=0.006)


def test_a_part_that_dies_is_a_fault_and_not_the_end() -> None:
    findings = Findings("none")
    findings.add("dies", lambda: iter([Finding("first", 1, "s"), 1 / 0]) if True else iter(()))  # type: ignore
    findings.add("lives", lambda: iter([Finding("second", 1, "s", 2, True)]))
    assert findings.faults == 1
    assert "second" in [finding.name for finding in findings.all]
