"""Floors are the published calculation; what a decode step moves stands beside the least of each of its jobs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench.devices import DEVICES
from bench.gpu_check.bed import QWEN3_5_9B
from bench.least import Step, least
from bench.roofline import CONTEXT, main, work_of
from bench.trace import launches_a_layer, trace_decode
from kernels.constants import PAGE
from kernels.device import triton
from node.engine.roofline import H200, decode_plan
from node.model.families import parse_config

NINE = parse_config(QWEN3_5_9B)
EIGHT: dict[str, Any] = {  # Qwen3-8B
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
}
# Jobs of the 9B that move more than 1.05 of their least: all that is loaded and stored, and the distinct bytes of it.
# Weights of norms, angles and conv_weight are read again by every program, from a cache. What is left is the partial
# sums of a row's splits, and logits written twice.
ABOVE = {
    1: {
        "attention": (1.156, 1.125),
        "prologue": (1.274, 1.010),
        "inputs": (8.574, 8.574),
    },
    64: {
        "norms": (1.252, 1.004),
        "prologue": (1.325, 1.010),
        "inputs": (8.149, 8.149),
    },
    256: {
        "head": (1.111, 1.111),
        "norms": (1.256, 1.004),
        "prologue": (1.326, 1.010),
        "inputs": (8.144, 8.144),
    },
}
needs_triton = pytest.mark.skipif(
    triton is None, reason="counts Triton launches, and there is no Triton here"
)


def test_the_floor_is_the_published_calculation() -> None:
    work = work_of(NINE)
    floors = {rows: work.step_seconds(decode_plan(rows, CONTEXT), H200) * 1e3 for rows in (1, 64, 256)}
    assert floors == pytest.approx({1: 3.73, 64: 6.22, 256: 13.82}, abs=0.01)


@pytest.mark.parametrize("tied", [True, False, None])
def test_a_head_is_read_once_however_it_is_kept(tied: bool | None) -> None:
    given = {key: value for key, value in EIGHT.items() if key != "tie_word_embeddings"}
    config = parse_config(given if tied is None else given | {"tie_word_embeddings": tied})
    assert work_of(config).weight_bytes == pytest.approx(15.14e9, rel=1e-3)


def test_speeds_of_other_devices_keep_the_measured_share() -> None:
    assert DEVICES["H100"].bandwidth == pytest.approx(3.0e12, rel=1e-3)
    assert DEVICES["4090"].bandwidth == pytest.approx(0.903e12, rel=1e-3)
    assert DEVICES["L4"].rate == pytest.approx(96.6e12, rel=1e-3)


def test_the_command_takes_a_configuration_a_device_and_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(EIGHT))
    main([str(path), "--bandwidth", "4.8", "--rows", "32", "--context", "2048"])
    printed = capsys.readouterr().out
    assert "4.80 TB/s, 790 TFLOP/s" in printed
    assert "24.81 GB     0.523 TFLOP     5.17 ms" in printed  # 5.77 ms at the measured 4.3 TB/s
    assert ("one decode step of 32 rows" in printed) == (triton is not None)


def test_without_rows_the_least_is_the_weights() -> None:
    """The floor takes two bytes for each parameter; some of a delta layer have four."""
    delta = NINE.delta
    assert delta is not None
    wide = delta.conv_kernel * delta.conv_width + 2 * delta.value_heads + delta.value_dim
    weights = work_of(NINE).weight_bytes + 2 * wide * len(NINE.delta_layers)
    assert sum(least(Step(NINE, 0, CONTEXT)).values()) == weights


def test_a_page_more_is_its_keys_and_values_and_its_number() -> None:
    short, long = (sum(least(Step(NINE, 3, context)).values()) for context in (CONTEXT, CONTEXT + PAGE))
    assert long - short == 3 * (PAGE * NINE.kv_bytes_per_token(2) + 8 * len(NINE.full_layers))


def test_a_row_more_reads_and_writes_its_slot() -> None:
    none, one = (least(Step(NINE, rows, CONTEXT))["delta rule"] for rows in (0, 1))
    columns, gates, outputs, slot = 8192 * 2, 2 * 32 * 2, 4096 * 4, 8
    assert one - none == 2 * NINE.slot_bytes(2) + 24 * (columns + gates + outputs + slot)


@needs_triton
def test_launches_of_a_layer() -> None:
    assert launches_a_layer(NINE, 8) == {"full_attention": 11, "linear_attention": 9}


@needs_triton
@pytest.mark.parametrize(
    ("rows", "beside_jobs", "beside_floor"), [(1, 1.001, 1.002), (64, 1.015, 1.047), (256, 1.027, 1.084)]
)
def test_bytes_of_a_decode_step(rows: int, beside_jobs: float, beside_floor: float) -> None:
    """The floor counts weights, keys, values and states and no activation."""
    step = Step(NINE, rows, CONTEXT)
    moved = trace_decode(step).total().moved
    assert moved / sum(least(step).values()) == pytest.approx(beside_jobs, abs=5e-4)
    assert moved / work_of(NINE).step_bytes(decode_plan(rows, CONTEXT)) == pytest.approx(
        beside_floor, abs=5e-4
    )


@needs_triton
@pytest.mark.parametrize("rows", ABOVE)
def test_jobs_that_move_more_than_a_twentieth_above_their_least(rows: int) -> None:
    step = Step(NINE, rows, CONTEXT)
    trace = trace_decode(step)
    assert set(trace.jobs) == set(least(step))
    ratios = {
        job: (round(trace.total(job).moved / bytes, 3), round(trace.total(job).distinct / bytes, 3))
        for job, bytes in least(step).items()
    }
    assert {job: found for job, found in ratios.items() if found[0] > 1.05} == ABOVE[rows]
    assert all(distinct >= 1 for _, distinct in ratios.values())


@needs_triton
def test_deferred_writes_move_three_fifths() -> None:
    plain = Step(NINE, 64, CONTEXT)
    deferred = dataclasses.replace(plain, deferred=True)
    before, after = (trace_decode(step).total("delta rule") for step in (plain, deferred))
    assert after.distinct / before.distinct == pytest.approx(0.601, abs=5e-4)
    assert after.moved / before.moved == pytest.approx(
        0.633, abs=5e-4
    )  # entries are read again where a state is written
    for step, found in ((plain, before), (deferred, after)):
        assert found.distinct == pytest.approx(least(step)["delta rule"], rel=1e-4)
