"""What steps and graphs take of a device's memory, found by running them: pages and slots get what is left."""

from __future__ import annotations

import gc

import torch

from kernels.constants import BUCKETS
from node.model.model import Model
from node.run.graph_runner import GraphRunner
from node.run.model_runner import ModelRunner
from node.run.warm import warm_all


def measured_workspace(
    model: Model,
    context: int,
    step_tokens: int,
    sequences: int,
    deferred: bool = False,
    buckets: tuple[int, ...] = BUCKETS,
) -> int:
    """Bytes beside weights, pages and slots, on a CUDA device: the worst moment of a whole warm-up over pools that hold
    the scratch page and slot alone. It is thrown away, for graphs remember where the pools were; a second warm-up,
    over the pools that serve, finds everything compiled.
    """
    device = model.device
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    free, reserved = torch.cuda.mem_get_info(device)[0], torch.cuda.memory_reserved(device)
    static = GraphRunner(ModelRunner(model, 1, 1, device, deferred), context, buckets)
    warm_all(static, step_tokens, sequences)
    torch.cuda.synchronize(device)
    inside = torch.cuda.max_memory_reserved(device) - reserved
    # Kernels' code, cuBLAS's own and the graphs themselves are not of torch's allocator.
    taken = free - torch.cuda.mem_get_info(device)[0]
    outside = taken - (torch.cuda.memory_reserved(device) - reserved)
    del static
    gc.collect()
    torch.cuda.empty_cache()
    return inside + max(outside, 0)
