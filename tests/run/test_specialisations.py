"""Warm-up launches every form of every kernel that serving can launch: after it nothing is compiled.

Launches on the meta device are told apart by Triton's own key (types, integers that are 1 or a multiple of 16, aligned
pointers, constexprs and options), in the shapes of published models with one layer of each kind.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bench.gpu_check.bed import DEMO, QWEN3_5_9B
from bench.trace import META, MetaSource
from kernels.constants import PAGE
from kernels.device import INTERPRETED, traced, triton
from node.engine.plan import SamplingMetadata, StepPlan
from node.model.families import parse_config
from node.model.qwen import Qwen
from node.model.weights import assemble
from node.run.graph_runner import GraphRunner
from node.run.model_runner import ModelRunner
from node.run.warm import warm_all

pytestmark = pytest.mark.skipif(triton is None or INTERPRETED, reason="asks Triton's binder")

DENSE = {
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 32768,
    "vocab_size": 151936, "num_hidden_layers": 2, "tie_word_embeddings": True,
}  # fmt: skip
CONFIGS = {
    "demo": json.loads((DEMO / "config.json").read_text()),
    "9b": QWEN3_5_9B | {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]},
    "qwen3": DENSE | {
        "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128,
    },
    "qwen2.5": DENSE | {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
}  # fmt: skip
TOKENS = {248320: 248077, 151936: 151665}  # of the table's ids; the demo's are all tokens
SEQUENCES, STEP, MIXED, CONTEXT, POOL = 256, 8192, 512, 32768, 9000
PLANS = 80

Key = tuple[Any, ...]
Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]  # a kernel, its arguments, its options


class ToHost(TorchFunctionMode):
    """What the meta device cannot do: ids that are read are zeros."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.to and args[0].is_meta and "cpu" in args:
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        if func is Tensor.copy_ and args[1].is_meta and not args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


class Pointer:
    """What Triton's binder asks of a tensor; allocations are aligned by 512 bytes."""

    def __init__(self, x: Tensor) -> None:
        self.dtype = x.dtype
        self._offset = x.storage_offset() * x.itemsize

    def data_ptr(self) -> int:
        return (1 << 20) + self._offset


def keys_of(launches: list[Launch]) -> set[Key]:
    """Under what JITFunction.run looks each compiled kernel up."""
    backend = triton.compiler.make_backend(triton.backends.compiler.GPUTarget("cuda", 90, 32))
    bind = triton.runtime.jit.create_function_from_signature
    binders = {
        kernel: bind(kernel.signature, kernel.params, backend) for kernel in {one[0] for one in launches}
    }
    keys = set()
    for kernel, arguments, options in launches:
        _, specialisation, rest = binders[kernel](*arguments, **options)
        keys.add((kernel.fn.__name__, tuple(specialisation), tuple(sorted(rest.items()))))
    return keys


@contextmanager
def collected() -> Iterator[list[Launch]]:
    launches: list[Launch] = []

    def launched(kernel: Any, grid: object, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = tuple(Pointer(x) if isinstance(x, Tensor) else x for x in arguments)
        launches.append((kernel, given, options))

    with traced(launched), ToHost():
        yield launches


@pytest.fixture(scope="module", params=[*((kind, False) for kind in CONFIGS), ("9b", True)], ids=str)
def static(request: pytest.FixtureRequest) -> GraphRunner:
    kind, deferred = request.param
    config = parse_config(CONFIGS[kind])
    weights = assemble(config, MetaSource(config), bool(config.tied), torch.bfloat16)
    model = Qwen(config, weights, TOKENS.get(config.vocab_size))
    return GraphRunner(ModelRunner(model, POOL, 400, META, deferred), CONTEXT)


@pytest.fixture(scope="module")
def warmed(static: GraphRunner) -> list[Launch]:
    with collected() as launches:
        warm_all(static, STEP, SEQUENCES)
    return launches


@pytest.fixture(scope="module")
def served(static: GraphRunner) -> list[Launch]:
    vocabulary, sampled = static.runner.model.config.vocab_size, 0
    draw = Draw(1)
    with collected() as launches:
        for _ in range(PLANS):
            plan = draw.future_tokens(sampled, draw.plan())
            metadata = draw.metadata(len(plan.sample_rows), vocabulary)
            static.run(plan, lambda metadata=metadata: metadata)  # type: ignore[misc]
            sampled = len(static.runner.last_ids)
    return launches


class Draw:
    """Steps as serving composes them, of any size, with any of what a step can ask for."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def below(self, most: int) -> int:
        """From 0 to `most`, small ones as likely as large ones."""
        return min(most, int((most + 1) ** self._draw.random()) - int(self._draw.random() < 0.3))

    def plan(self) -> StepPlan:
        draw = self._draw
        rows = max(0, self.below(SEQUENCES))
        prompts = int(draw.choice([0, 1, 2, 3, 16, 32]))  # counts that would each be a form of their own
        prompts = min(prompts, SEQUENCES - rows) if rows else max(1, prompts)
        most = (MIXED if rows else STEP) // max(1, prompts)
        lengths = [2 + max(0, self.below(most - 2)) for _ in range(prompts)]
        counts = np.array([*[1] * rows, *lengths])
        total = len(counts)
        begins = np.array([max(0, self.below(CONTEXT - count)) for count in counts])
        starts = np.concatenate([[0], np.cumsum(counts)])
        width = -(-int((begins + counts).max()) // PAGE)
        samples = np.arange(total)
        if draw.random() < 0.5:
            samples = np.flatnonzero((np.arange(total) < rows) | (draw.random(total) < 0.5))
        if draw.random() < 0.1:
            samples = samples[: int(draw.integers(0, len(samples) + 1))]
        count = len(samples)
        return StepPlan(
            token_ids=np.zeros(starts[-1], np.int64),
            positions=np.arange(starts[-1]) + np.repeat(begins - starts[:-1], counts),
            cu_seqlens=starts,
            page_table=np.zeros((total, width), np.int64),
            state_slots=np.arange(total) + 1,
            sample_rows=samples,
            temperature=np.zeros(count, np.float32),
            top_p=np.ones(count, np.float32),
            top_k=np.zeros(count, np.int64),
            seeds=np.zeros(count, np.uint64),
            restores=self._pairs(total),
            saves=self._pairs(total),
            skip_kv_write=np.arange(self.below(int(starts[-1]))),
            min_p=np.full(count, float(draw.integers(0, 2)), np.float32),
        )

    def _pairs(self, rows: int) -> Any:
        return np.zeros((max(0, self.below(rows)) if self._draw.random() < 0.3 else 0, 2), np.int64)

    def metadata(self, rows: int, vocabulary: int) -> SamplingMetadata | None:
        masked, seen = (max(0, self.below(most)) for most in (rows, 3000))
        if not rows or self._draw.random() < 0.3:
            return None
        return SamplingMetadata(
            masked=np.arange(masked),
            bits=np.zeros((masked, -(-vocabulary // 32)), np.uint32),
            seen=np.zeros((3, seen if self._draw.random() < 0.7 else 0), np.int64),
            penalties=np.ones((3, rows), np.float32),
        )

    def future_tokens(self, before: int, plan: StepPlan) -> StepPlan:
        """Some rows go on from what `before` rows sampled."""
        count = min(before, plan.decode_rows)
        return dataclasses.replace(plan, future_tokens=np.stack([np.arange(count)] * 2, axis=1))


def test_serving_launches_nothing_that_warm_up_did_not(warmed: list[Launch], served: list[Launch]) -> None:
    assert keys_of(served) - keys_of(warmed) == set()


def test_it_would_without_the_marks_of_the_kernels(
    warmed: list[Launch], served: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the steps above are unlike enough to show what the marks are for."""
    for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
        for param in {id(p): p for kernel, _, _ in warmed for p in kernel.params}.values():
            monkeypatch.setattr(param, name, False)
    assert {"penalties_kernel"} <= {key[0] for key in keys_of(served) - keys_of(warmed)}
