"""The small product beside the library's, in the shapes of the model's weights: which is to serve, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bench.gpu_check.bed import Bed
from bench.gpu_check.findings import Finding
from bench.gpu_check.steps import seconds
from bench.least import matrices
from kernels.linear import linear
from kernels.small_gemm import small_gemm
from node.engine.roofline import Device
from node.model.config import ModelConfig

ROWS = (1, 2, 4, 8, 16)
ROTATED = 200 * 2**20  # bytes of weights in turn: four times what the cache of an H200 keeps
TURNS = 20  # products of one captured graph
REPLAYS = 5


def times(bed: Bed, device: Device) -> Iterator[Finding]:
    """Microseconds of one product, beside the library's. It compiles kernels and takes as much memory as the head."""
    for outputs, inner in shapes(bed.config):
        weights = _weights(bed, outputs, inner)
        for rows in ROWS:
            x = torch.empty(rows, inner, dtype=bed.model.dtype, device=bed.device).normal_()
            moved = (outputs * inner + rows * (outputs + inner)) * x.itemsize
            ours, library = (_seconds(bed, run, x, weights) for run in (small_gemm, linear))
            speeds = " and ".join(f"{moved / took / 1e9:,.0f}" for took in (ours, library))
            note = f"{speeds} GB/s; floor {moved / device.bandwidth * 1e6:.1f} us"
            yield Finding(
                f"small_gemm, {rows} x [{outputs}, {inner}]", ours * 1e6, "us", library * 1e6, None, note
            )


def shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """(outputs, inner) of each product of a step, equal ones once."""
    head = (config.vocab_size, config.hidden_size)
    return list(dict.fromkeys([*((outputs, inner) for outputs, inner, _ in matrices(config)), head]))


def _weights(bed: Bed, outputs: int, inner: int) -> list[Tensor]:
    """Copies to take in turn: in a step, too, no weight is still in a cache when its turn comes again."""
    first = torch.empty(outputs, inner, dtype=bed.model.dtype, device=bed.device).normal_(std=inner**-0.5)
    copies = -(-ROTATED // first.nbytes) if bed.device.type == "cuda" else 1
    return [first, *(first.clone() for _ in range(copies - 1))]


def _seconds(bed: Bed, run: Callable[[Tensor, Tensor], Tensor], x: Tensor, weights: list[Tensor]) -> float:
    """Of one product. Captured, as in a decode step: a launch from Python takes longer than most of them."""

    def turns() -> None:
        for n in range(TURNS):
            run(x, weights[n % len(weights)])

    if bed.device.type != "cuda":
        return seconds(bed, turns, 1) / TURNS
    run(x, weights[0])  # nothing may be compiled or loaded while a stream is being captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        turns()
    return seconds(bed, graph.replay, REPLAYS) / TURNS
