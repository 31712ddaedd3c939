"""Every kernel of a decode step loads and stores what bench/traffic.py says, argument by argument."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.gpu_check.bed import RandomSource
from bench.traffic import FORMULAS, Launch, Values
from kernels import attention_prologue, gated_rms_norm, paged_decode_attention
from kernels.constants import PAGE
from kernels.device import traced
from kernels.sample_parts import PART, PEAK
from node.engine.roofline import decode_plan
from node.model.cache import Cache
from node.model.config import ModelConfig
from node.model.families import parse_config
from node.model.qwen import Qwen
from node.model.weights import assemble
from node.run.decode import Decode
from node.run.inputs import Inputs
from tests.bench.interpreter.addresses import Touched, expected, run

CPU = torch.device("cpu")
ROWS, CONTEXT, TOP_K = 5, 130, 5
VOCABULARY = 8990  # of 9000: the last part is not whole, and the ids are too many to be candidates all
# Widths that their tiles do not divide: a mask hides a part of each kernel's last program where that can be.
HYBRID: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "vocab_size": 9000,
    "hidden_size": 72,
    "intermediate_size": 1100,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 1024,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
}
DENSE: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 9000,
    "hidden_size": 192,
    "intermediate_size": 80,
    "num_hidden_layers": 1,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "rope_theta": 1e4,
}


def launched(config: ModelConfig, pending: tuple[int, ...] = ()) -> list[tuple[Launch, Touched]]:
    """Every launch of one decode step of float16 over float32 states, with what it touched; pending: of rings."""
    model = Qwen(config, assemble(config, RandomSource(config, CPU), False, torch.float16), VOCABULARY)
    pages = -(-CONTEXT // PAGE)
    cache = Cache.allocate(config, 1 + ROWS * pages, 1 + ROWS, torch.float16, CPU)
    if pending:
        cache = cache.deferring()
        assert cache.ring is not None
        cache.ring.pending[1:] = torch.tensor(pending)
    inputs = Inputs(ROWS, 2 * CONTEXT, CPU)
    plan = dataclasses.replace(
        decode_plan(ROWS, CONTEXT),
        page_table=1 + np.arange(ROWS * pages).reshape(ROWS, pages),
        state_slots=1 + np.arange(ROWS),
        temperature=np.full(ROWS, 0.8, np.float32),
        top_k=np.full(ROWS, TOP_K),
    )
    inputs.load(plan, ROWS, torch.zeros(inputs.words, dtype=torch.int64))
    decode, found = Decode(model, cache, inputs), []

    def tracer(
        kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        values = Values(CONTEXT, *drawn(decode.logits[:ROWS]), pending or (0,))
        found.append(
            (Launch.of(kernel, grid, arguments, options, values), run(kernel, grid, arguments, options))
        )

    with traced(tracer):
        decode.forward(ROWS)
        decode.sample(ROWS)
    return found


def drawn(logits: Tensor) -> tuple[int, int, int]:
    """(parts with a candidate, ids below high peaks, candidates): as likely as the k-th highest peak, by numpy."""
    parts = looked = candidates = 0
    for row in logits[:, :VOCABULARY].numpy():
        groups = [row[at : at + PEAK] for at in range(0, VOCABULARY, PEAK)]
        least = np.sort([group.max() for group in groups])[-TOP_K]
        candidates += int((row >= least).sum())
        looked += sum(len(group) for group in groups if group.max() >= least)
        parts += sum(row[at : at + PART].max() >= least for at in range(0, VOCABULARY, PART))
    return parts, looked, candidates


DELTA = HYBRID | {"num_hidden_layers": 1, "layer_types": ["linear_attention"]}
OF_FULL = {"prologue_kernel", "decode_attention_kernel", "merge_splits_kernel"}
OF_HYBRIDS = {"gated_rms_norm_kernel", "output_gate_kernel", "delta_decode_kernel", "delta_ring_kernel"}


@pytest.mark.parametrize(
    ("config", "pending", "splits", "left_out"),
    [
        (HYBRID, (), 4, {"delta_ring_kernel"}),  # three splits of a page, one of none
        (DELTA, (0, 1, 3, 7, 7), 4, {"delta_decode_kernel", "output_gate_kernel", *OF_FULL}),
        (DENSE, (), 2, OF_HYBRIDS),  # a split of two pages, one of one
    ],
    ids=["hybrid", "deferred", "dense"],
)
def test_formulas_are_what_kernels_load_and_store(
    config: dict[str, Any],
    pending: tuple[int, ...],
    splits: int,
    left_out: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paged_decode_attention, "MOST_SPLITS", splits)
    # Two heads a program, so that several share a row, and an odd head is alone.
    monkeypatch.setattr(attention_prologue, "VALUES", 64)
    monkeypatch.setattr(gated_rms_norm, "VALUES", 256)
    found = launched(parse_config(config), pending)
    assert {launch.name for launch, _ in found} == set(FORMULAS) - left_out
    for launch, touched in found:
        assert touched == expected(launch), launch.name
