"""CUDA graphs of the decode step: one launch from the host in place of some four hundred."""

from __future__ import annotations

import torch

from node.run.decode import Decode, DecodeExecutor


class Graphs:
    """A DecodeExecutor that replays. Each bucket has two graphs, so that a step's masks may come between them.

    All graphs share one pool of memory, and the largest bucket is captured first: those after it fit in what it left.
    That is sound because a graph leaves nothing in the pool: it hands on through Decode's own tensors.
    """

    def __init__(self, decode: Decode, buckets: tuple[int, ...]) -> None:
        pool = torch.cuda.graph_pool_handle()
        self._forward: dict[int, torch.cuda.CUDAGraph] = {}
        self._sample: dict[int, torch.cuda.CUDAGraph] = {}
        for bucket in sorted(buckets, reverse=True):
            # Compiles and loads what the bucket needs: neither may happen while a stream is being captured.
            execute(decode, bucket)
            for graphs, half in ((self._forward, decode.forward), (self._sample, decode.sample)):
                graphs[bucket] = torch.cuda.CUDAGraph()
                # thread_local: other threads (the tokenizer's, the server's) may touch the device meanwhile.
                with torch.cuda.graph(graphs[bucket], pool=pool, capture_error_mode="thread_local"):
                    half(bucket)

    def forward(self, bucket: int) -> None:
        self._forward[bucket].replay()

    def sample(self, bucket: int) -> None:
        self._sample[bucket].replay()


def execute(executor: DecodeExecutor, bucket: int) -> None:
    """Both halves, over whatever the inputs hold."""
    executor.forward(bucket)
    executor.sample(bucket)
