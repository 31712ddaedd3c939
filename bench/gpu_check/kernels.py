"""Every kernel against its torch reference, on the device, in the shapes of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from bench.gpu_check.findings import Finding
from kernels import (
    attention_prologue,
    copy_slots,
    delta_decode,
    delta_prefill,
    delta_ring,
    gated_rms_norm,
    logprobs,
    mask_logits,
    min_p,
    output_gate,
    paged_decode_attention,
    paged_prefill_attention,
    penalties,
    rms_norm,
    sample,
    small_gemm,
    swiglu,
)
from kernels.constants import PAGE
from kernels.delta_inputs import DeltaInputs
from node.model.config import ModelConfig

ROUNDED = 2e-2  # of the largest entry: a bfloat16 has 8 bits, and sums are in another order
EXACT = 1e-5
OTHER = 0.02  # of sampled ids may be a neighbour: see kernels.sample


@dataclass(frozen=True, slots=True)
class Case:
    """given: what both are called with; they may change it, and what they leave there is compared too."""

    name: str
    run: Callable[..., Any]
    reference: Callable[..., Any]
    given: tuple[Any, ...]
    tolerance: float = ROUNDED


class Make:
    """Draws tensors of one model on one device."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        self.config, self.dtype, self.device = config, dtype, device
        self._draw = torch.Generator(device).manual_seed(2)

    def normal(self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(shape, generator=self._draw, device=self.device) * scale
        return drawn.to(dtype or self.dtype)

    def wide(self, *shape: int, scale: float = 1.0) -> Tensor:
        return self.normal(*shape, dtype=torch.float32, scale=scale)

    def whole(self, *values: int) -> Tensor:
        return torch.tensor(values, device=self.device)

    def below(self, most: int, *shape: int) -> Tensor:
        return torch.randint(most, shape, generator=self._draw, device=self.device)


def compared(cases: Iterator[Case]) -> Iterator[Finding]:
    for case in cases:
        try:
            worst = difference(case)
        except Exception as error:
            yield Finding(
                f"kernel {case.name}", 1, "error", 0, False, f"{type(error).__name__}: {error}"[:200]
            )
        else:
            yield Finding(
                f"kernel {case.name}", worst, "of the largest", case.tolerance, worst <= case.tolerance
            )


def difference(case: Case) -> float:
    """The worst difference of what the two return or change, beside the largest entry; of ids, what share differs."""
    twin = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, case.given)
    pairs = zip(
        *(
            tree_flatten((run(*given), given))[0]
            for run, given in ((case.run, case.given), (case.reference, twin))
        ),
        strict=True,
    )
    worst = 0.0
    for ours, theirs in pairs:
        if not isinstance(ours, Tensor) or not ours.numel():
            continue
        if not ours.is_floating_point():
            worst = max(worst, float((ours != theirs).float().mean()))
            continue
        ours, theirs = (torch.nan_to_num(x.float(), nan=1e9, neginf=-1e6) for x in (ours, theirs))
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-6)))
    return worst


def pointwise(make: Make) -> Iterator[Case]:
    c = make.config
    x, weight = make.normal(37, c.hidden_size), make.normal(c.hidden_size, scale=0.2)
    norm = (weight, c.norm_eps, c.zero_centred)
    yield Case("rms_norm", rms_norm.rms_norm, rms_norm.reference, (x, make.normal(37, c.hidden_size), *norm))
    yield Case("rms_norm, first", rms_norm.rms_norm, rms_norm.reference, (x, None, *norm))
    yield Case("swiglu", swiglu.swiglu, swiglu.reference, (make.normal(37, 2 * c.intermediate_size),))
    given = (make.normal(7, c.hidden_size), make.normal(c.intermediate_size, c.hidden_size, scale=0.02))
    yield Case("small_gemm", small_gemm.small_gemm, small_gemm.reference, given)
    if c.output_gate:
        given = (make.normal(37, c.query_width), make.normal(37, c.query_width))
        yield Case("output_gate", output_gate.output_gate, output_gate.reference, given)


def attention(make: Make) -> Iterator[Case]:
    c = make.config
    pages = [make.normal(40, PAGE, c.kv_heads, c.head_dim) for _ in range(2)]
    columns = c.query_width * (2 if c.output_gate else 1) + 2 * c.kv_width
    norms = (make.normal(c.head_dim), make.normal(c.head_dim)) if c.qk_norm else None
    turns = (make.wide(9, c.rope.width), make.wide(9, c.rope.width))
    slot_mapping = make.whole(*range(130, 139))
    form = (norms, c.norm_eps, c.zero_centred, *turns, *pages, slot_mapping, c.heads)
    yield Case(
        "attention_prologue",
        attention_prologue.attention_prologue,
        attention_prologue.reference,
        (make.normal(9, columns), *form),
    )
    lengths = [1, 64, 65, 400, 640]
    table = (torch.randperm(39, device=make.device) + 1)[:30].view(3, 10).repeat(2, 1)[:5].contiguous()
    scale = c.head_dim**-0.5
    q = make.normal(5, c.heads, c.head_dim)
    decode = paged_decode_attention
    given = (q, *pages, table, make.whole(*lengths), scale)
    yield Case("paged_decode_attention", decode.paged_decode_attention, decode.reference, given)
    prefill = paged_prefill_attention
    q = make.normal(301, c.heads, c.head_dim)
    given = (q, *pages, table[:3], make.whole(300, 1, 640), make.whole(0, 200, 201, 301), scale)
    yield Case("paged_prefill_attention", prefill.paged_prefill_attention, prefill.reference, given)


def delta(make: Make) -> Iterator[Case]:
    d = make.config.delta
    if d is None:
        return

    def inputs(tokens: int, slots: int = 6) -> DeltaInputs:
        qkv, a, b = make.normal(tokens, d.conv_width), *(make.normal(tokens, d.value_heads) for _ in range(2))
        gates = make.wide(d.value_heads).abs().add(0.05).log(), make.wide(d.value_heads)
        states = make.wide(slots, d.value_heads, d.key_dim, d.value_dim, scale=0.1)
        conv_state = make.normal(slots, d.conv_kernel - 1, d.conv_width)
        conv_weight = make.wide(d.conv_kernel, d.conv_width, scale=0.5)
        return DeltaInputs(qkv, a, b, conv_weight, *gates, states, conv_state)

    slots = make.whole(4, 1, 5)
    yield Case("delta_decode", delta_decode.delta_decode, delta_decode.reference, (inputs(3), slots))
    starts = make.whole(0, 1, 130, 333)
    yield Case(
        "delta_prefill", delta_prefill.delta_prefill, delta_prefill.reference, (inputs(333), slots, starts)
    )
    shape = (2, 6, d.value_heads, d.key_dim, d.value_dim)
    ring = delta_ring.Ring.allocate(make.wide(*shape), d.key_heads)
    parts = (make.normal(*ring.k.shape, dtype=torch.float32, scale=0.1), make.wide(*ring.e.shape, scale=0.1))
    decays = -make.wide(*ring.g.shape).abs().cumsum(2)
    held = (*parts, decays, make.whole(0, 2, 0, 0, 3, 7))

    # A copy of the ring: entries that mean nothing may differ, and states and outputs tell of the others.
    def copied(parts: tuple[Tensor, ...]) -> delta_ring.Ring:
        return delta_ring.Ring(*(x.clone() for x in parts))

    def token(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *rest: run(*rest[:-4], copied(rest[-4:]).layer(1))

    def flushed(run: Callable[..., None]) -> Callable[..., None]:
        return lambda states, slots, *rest: run(states, copied(rest), slots)

    given_token = (inputs(3), slots, *held)
    yield Case("delta_ring", token(delta_ring.delta_ring), token(delta_ring.reference), given_token)
    given_states = (make.wide(*shape, scale=0.1), make.whole(5, 1, 4, 2), *held)
    ours, theirs = flushed(delta_ring.flush), flushed(delta_ring.reference_flush)
    yield Case("delta_ring.flush", ours, theirs, given_states)
    pairs = make.whole(5, 1, 4, 2).view(2, 2)
    for pool in (make.wide(*shape), make.normal(2, 6, d.conv_kernel - 1, d.conv_width)):
        yield Case("copy_slots", copy_slots.copy_slots, copy_slots.reference, (pool, pairs), 0.0)
    o, z = make.wide(37, d.value_heads, d.value_dim), make.normal(37, d.value_width)
    norm = (make.wide(d.value_dim), make.config.norm_eps)
    yield Case("gated_rms_norm", gated_rms_norm.gated_rms_norm, gated_rms_norm.reference, (o, z, *norm))


def sampling(make: Make) -> Iterator[Case]:
    rows, vocabulary = 64, make.config.vocab_size
    logits = make.wide(rows, vocabulary, scale=3.0)
    pairs = make.below(rows, 300).sort().values
    ids = torch.randperm(vocabulary, device=make.device)[:300]
    given = (logits.clone(), pairs, ids, make.below(4, 300), make.wide(3, rows).abs() + 0.5)
    yield Case("penalise", penalties.penalise, penalties.reference, given, EXACT)
    yield Case("add_bias", penalties.add_bias, penalties.reference_bias, (*given[:3], make.wide(300)), EXACT)
    words = -(-vocabulary // 32)
    bits = make.below(2**31 - 1, 5, words).to(torch.int32)
    given = (logits.clone(), make.whole(3, -1, 9, 63, 0), bits)
    yield Case("mask_logits", mask_logits.mask_logits, mask_logits.reference, given, EXACT)
    ones = torch.ones(rows, device=make.device)
    yield Case(
        "apply_min_p", min_p.apply_min_p, min_p.reference, (logits.clone(), ones * 0.7, ones * 0.05), EXACT
    )
    given = (logits, make.below(vocabulary, rows), 20, vocabulary)
    yield Case("logprobs", logprobs.logprobs, logprobs.reference, given, ROUNDED)
    seeds = make.below(2**40, rows), make.below(5000, rows)
    for name, temperature, k, p in (
        ("greedy", 0.0, 0, 1.0),
        ("temperature", 1.0, 0, 1.0),
        ("top_k", 0.8, 20, 1.0),
        ("top_p", 0.8, 0, 0.9),
        ("top_k and top_p", 0.7, 20, 0.8),
    ):
        settings = (ones * temperature, make.whole(*[k] * rows), ones * p)
        given = (logits, *settings, *seeds, vocabulary)
        yield Case(f"sample, {name}", sample.sample, sample.reference, given, OTHER)


def all_cases(make: Make) -> Iterator[Case]:
    for part in (pointwise, attention, delta, sampling):
        yield from part(make)
