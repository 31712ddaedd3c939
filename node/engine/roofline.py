"""How long a step takes at best: its bytes over a bandwidth, its FLOP over a rate, whichever is more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from node.engine.plan import StepPlan


@dataclass(frozen=True, slots=True)
class Device:
    """name       for people
    bandwidth  bytes a second, as measured by a copy and not as a datasheet has it
    rate       FLOP a second of large bfloat16 products
    overhead   seconds of a step that neither explains: launches, sampling
    """

    name: str
    bandwidth: float
    rate: float
    overhead: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a model reads and multiplies.

    weight_bytes     read by every step
    kv_bytes         a token
    state_bytes      a sequence
    state_moves      how often a step moves the state bytes of each row: read once, written once
    token_flop       of all products with weights, the head's left out
    head_flop        a sampled token
    attention_flop   a pair of a new token and one that it sees
    """

    name: str
    weight_bytes: float
    kv_bytes: float
    state_bytes: float
    token_flop: float
    head_flop: float
    attention_flop: float
    state_moves: float = 2.0

    def step_bytes(self, plan: StepPlan) -> float:
        """Weights once; of each row the keys and values it sees, those it adds, its state; slots copied."""
        seen = float(plan.context_lengths.sum())
        states = self.state_moves * plan.rows + 2 * (len(plan.restores) + len(plan.saves))
        return self.weight_bytes + (seen + plan.tokens) * self.kv_bytes + states * self.state_bytes

    def step_flop(self, plan: StepPlan) -> float:
        pairs = float((plan.positions + 1).sum())
        head = len(plan.sample_rows) * self.head_flop
        return plan.tokens * self.token_flop + head + pairs * self.attention_flop

    def step_seconds(self, plan: StepPlan, device: Device) -> float:
        moving, computing = self.step_bytes(plan) / device.bandwidth, self.step_flop(plan) / device.rate
        return max(moving, computing) + device.overhead


# Bytes and FLOP of the published configurations; bandwidth and rate as copies and large products reach them.
H200 = Device("H200", bandwidth=4.3e12, rate=790e12)
QWEN3_5_9B = Work(
    "Qwen3.5-9B, bfloat16, float32 state",
    weight_bytes=15.87e9,
    kv_bytes=32 * 1024,
    state_bytes=51.5e6,
    token_flop=13.84e9 + 0.14e9,  # and the delta rule's own, in chunks of 64
    head_flop=2 * 4096 * 248_320,
    attention_flop=4 * 16 * 256 * 8,
)


def decode_plan(rows: int, context: int) -> StepPlan:
    """A step of `rows` sequences that each have `context` tokens, the one it runs included."""
    ones = np.ones(rows, dtype=np.int64)
    return _plan(np.arange(rows + 1), (context - 1) * ones, np.arange(rows))


def prefill_plan(tokens: int) -> StepPlan:
    """A step that runs a whole prompt."""
    return _plan(np.array([0, tokens]), np.arange(tokens), np.zeros(1, dtype=np.int64))


def _plan(cu_seqlens: np.ndarray, positions: np.ndarray, sample_rows: np.ndarray) -> StepPlan:
    rows, samples = len(cu_seqlens) - 1, len(sample_rows)
    return StepPlan(
        token_ids=np.zeros_like(positions),
        positions=positions,
        cu_seqlens=cu_seqlens,
        page_table=np.zeros((rows, 1), dtype=np.int64),
        state_slots=np.zeros(rows, dtype=np.int64),
        sample_rows=sample_rows,
        temperature=np.zeros(samples, dtype=np.float32),
        top_p=np.ones(samples, dtype=np.float32),
        top_k=np.zeros(samples, dtype=np.int64),
        seeds=np.zeros(samples, dtype=np.uint64),
    )
