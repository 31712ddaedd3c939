"""The launches that serve each published model, as calls of the launchers with meta tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kernels.attention_prologue import attention_prologue
from kernels.constants import BUCKETS, PAGE
from kernels.delta_rule_cases import delta_cases
from kernels.gated_rms_norm import gated_rms_norm
from kernels.output_gate import output_gate
from kernels.paged_decode_attention import paged_decode_attention
from kernels.paged_prefill_attention import paged_prefill_attention
from kernels.rms_norm import rms_norm
from kernels.sample_cases import sample_cases
from kernels.small_gemm import small_gemm
from kernels.swiglu import swiglu

WIDER, OLDER = (248320, 248077), (151936, 151669)  # rows of the head, and those that are tokens


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a kernel sees of a model. turned: entries of a head that rope turns; delta: (Hk, Hv) of 128, or None."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    width: int
    turned: int
    normed: bool
    delta: tuple[int, int] | None = None

    @property
    def zero_centred(self) -> bool:
        return self.delta is not None

    @property
    def gated(self) -> bool:
        return self.delta is not None


MODELS = {
    "Qwen3.5-0.8B": Shapes(1024, 3584, 8, 2, 256, 64, True, (16, 16)),
    "Qwen3.5-2B": Shapes(2048, 6144, 8, 2, 256, 64, True, (16, 16)),
    "Qwen3.5-4B": Shapes(2560, 9216, 16, 4, 256, 64, True, (16, 32)),
    "Qwen3.5-9B": Shapes(4096, 12288, 16, 4, 256, 64, True, (16, 32)),
    "Qwen3.5-27B": Shapes(5120, 17408, 24, 4, 256, 64, True, (16, 48)),
    "Qwen3-0.6B": Shapes(1024, 3072, 16, 8, 128, 128, True),
    "Qwen3-4B": Shapes(2560, 9728, 32, 8, 128, 128, True),
    "Qwen3-8B": Shapes(4096, 12288, 32, 8, 128, 128, True),
    "Qwen3-14B": Shapes(5120, 17408, 40, 8, 128, 128, True),
    "Qwen3-32B": Shapes(5120, 25600, 64, 8, 128, 128, True),
    "Qwen2.5-0.5B": Shapes(896, 4864, 14, 2, 64, 64, False),
    "Qwen2.5-1.5B": Shapes(1536, 8960, 12, 2, 128, 128, False),
    "Qwen2.5-7B": Shapes(3584, 18944, 28, 4, 128, 128, False),
    "Qwen2.5-14B": Shapes(5120, 13824, 40, 8, 128, 128, False),
    "Qwen2.5-32B": Shapes(5120, 27648, 40, 8, 128, 128, False),
}

empty = partial(torch.empty, device="meta", dtype=torch.bfloat16)
whole = partial(torch.empty, device="meta", dtype=torch.int64)
single = partial(torch.empty, device="meta", dtype=torch.float32)

Case = tuple[str, Callable[[], Any]]


def cases(shapes: Shapes) -> Iterator[Case]:
    """(op, call) of every launcher, in every form that the model's buckets give it."""
    yield from pointwise(shapes)
    yield from attention(shapes)
    if shapes.delta is not None:
        yield from delta_cases(*shapes.delta)
    yield from sample_cases(*(WIDER if shapes.delta is not None else OLDER))
    for outputs in (shapes.hidden, 2 * shapes.intermediate):
        yield "small_gemm", partial(small_gemm, empty(8, shapes.hidden), empty(outputs, shapes.hidden))


def pointwise(s: Shapes, tokens: int = 48) -> Iterator[Case]:
    x, weight = empty(tokens, s.hidden), empty(s.hidden)
    yield "rms_norm", partial(rms_norm, x, None, weight, 1e-6, s.zero_centred)
    yield "rms_norm", partial(rms_norm, x, x, weight, 1e-6, s.zero_centred)
    yield "swiglu", partial(swiglu, empty(tokens, 2 * s.intermediate))
    if s.delta is not None:
        keys, values = (128 * n for n in s.delta)
        merged = empty(tokens, 2 * keys + 2 * values + 2 * s.delta[1])
        z = merged[:, 2 * keys + values : 2 * keys + 2 * values]
        o = single(tokens, s.delta[1], 128)
        yield "gated_rms_norm", partial(gated_rms_norm, o, z, single(128), 1e-6)


def attention(s: Shapes, tokens: int = 48) -> Iterator[Case]:
    pages = empty(10, PAGE, s.kv_heads, s.width)
    queries = s.heads * s.width
    x = empty(tokens, (s.heads + 2 * s.kv_heads) * s.width + (queries if s.gated else 0))
    norms = (empty(s.width), empty(s.width)) if s.normed else None
    turns = single(tokens, s.turned)
    slot_mapping = whole(tokens)
    yield (
        "attention_prologue",
        partial(
            attention_prologue,
            x,
            norms,
            1e-6,
            s.zero_centred,
            turns,
            turns,
            pages,
            pages,
            slot_mapping,
            s.heads,
        ),
    )
    if s.gated:
        yield "output_gate", partial(output_gate, empty(tokens, queries), x[:, -queries:])
    for rows in BUCKETS:
        q: Tensor = empty(rows, s.heads, s.width)
        table, lengths = whole(rows, 32), whole(rows)
        yield (
            "paged_decode_attention",
            partial(paged_decode_attention, q, pages, pages, table, lengths, s.width**-0.5),
        )
    q = empty(tokens, s.heads, s.width)
    table, lengths, starts = whole(2, 32), whole(2), whole(3)
    yield (
        "paged_prefill_attention",
        partial(paged_prefill_attention, q, pages, pages, table, lengths, starts, s.width**-0.5),
    )
