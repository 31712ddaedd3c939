"""Every kernel compiles for devices that are not here: it spills nothing, fits, and has its matrix instructions.

In a process of its own: the driver that stands in for a device can not launch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.aot_cases import MODELS

ROOT = Path(__file__).parents[3]


def table(model: str, *archs: int) -> str:
    command = [sys.executable, "-m", "kernels.aot", model, "--arch", *map(str, archs)]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-4000:]
    return run.stdout


def test_kernels_of_the_9b_compile_for_sm_89_and_sm_90() -> None:
    printed = table("Qwen3.5-9B", 89, 90)
    lines = [line.split() for line in printed.splitlines()]
    for op in ("rms_norm", "gated_rms_norm", "swiglu", "attention_prologue", "output_gate"):
        assert {line[2] for line in lines if line[0] == op} == {"89", "90"}, op
    prompt = {line[2]: line[7].rstrip(",") for line in lines if line[0] == "paged_prompt_attention"}
    assert prompt == {"89": "mma.sync", "90": "wgmma.mma_async"}


@pytest.mark.real
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("arch", [80, 89, 90, 100])
def test_kernels_of_every_model_compile(model: str, arch: int) -> None:
    assert f" {arch} " in table(model, arch)
