"""The rows of products: every weight's shape, at every number of rows."""

from __future__ import annotations

import torch

from bench.gpu_check.bed import QWEN3_5_9B, TINY, Bed, config_of
from bench.gpu_check.products import ROWS, shapes, times
from node.engine.roofline import Device
from node.model.families import parse_config


def test_shapes_are_those_of_the_merged_weights() -> None:
    found = shapes(parse_config(QWEN3_5_9B))
    attention, delta, mlp, head = (10_240, 4096), (12_352, 4096), (24_576, 4096), (248_320, 4096)
    assert found == [attention, (4096, 4096), delta, mlp, (4096, 12_288), head]


def test_each_shape_has_its_rows_and_its_floor() -> None:
    config = config_of(tiny=True)
    bed = Bed(config, TINY, torch.device("cpu"), config.vocab_size)
    found = list(times(bed, Device("slow", bandwidth=1e6, rate=1.0)))
    names = [f"small_gemm, {rows} x [{o}, {i}]" for o, i in shapes(config) for rows in ROWS]
    assert [finding.name for finding in found] == names
    assert all(finding.value > 0 and finding.limit > 0 and finding.ok is None for finding in found)
    outputs, inner = shapes(config)[0]
    moved = 4 * (outputs * inner + outputs + inner)  # float32, of which 1e6 bytes take a second
    assert found[0].note.endswith(f"floor {moved:.1f} us")
