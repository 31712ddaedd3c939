"""Calls of the sampler's launchers with meta tensors: what kernels.aot compiles ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from kernels.logprobs import logprobs
from kernels.mask_logits import mask_logits
from kernels.min_p import apply_min_p
from kernels.penalties import add_bias, penalise
from kernels.sample import sample

Case = tuple[str, Callable[[], Any]]


def sample_cases(width: int = 248320, vocabulary: int = 248077, rows: int = 3) -> Iterator[Case]:
    """(op, call) of every launcher over logits of this width; each has one form, whatever the rows."""
    single = partial(torch.empty, device="meta", dtype=torch.float32)
    whole = partial(torch.empty, device="meta", dtype=torch.int64)
    logits, pairs = single(rows, width), whole(40)
    bits = torch.empty(rows, -(-width // 32), device="meta", dtype=torch.int32)
    settings = (single(rows), whole(rows), single(rows), whole(rows), whole(rows))
    yield "mask_logits", partial(mask_logits, logits, whole(rows), bits)
    yield "penalise", partial(penalise, logits, pairs, pairs, pairs, single(3, rows))
    yield "add_bias", partial(add_bias, logits, pairs, pairs, single(40))
    yield "apply_min_p", partial(apply_min_p, logits, single(rows), single(rows))
    yield "sample", partial(sample, logits, *settings, vocabulary)
    yield "logprobs", partial(logprobs, logits, whole(rows), 20, vocabulary)
