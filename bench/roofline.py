"""What a step costs at best, and what of that the code does: `python -m bench.roofline [config.json]`.

The floor is node/engine/roofline.py's, for any configuration. Launches and bytes are counted by running one decode step
over tensors on the meta device, which have shapes and no memory: every kernel and every torch operation is seen.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernels.device import traced
from node.engine.plan import PAGE
from node.engine.roofline import H200, QWEN3_5_9B, Device, Work, decode_plan, prompt_plan
from node.model.cache import Cache
from node.model.config import DELTA, FULL, ModelConfig
from node.model.qwen import Qwen
from node.model.weights import assemble, published_shapes
from node.run.decode import Decode
from node.run.inputs import Inputs

ROWS = (1, 8, 32, 64, 128, 256)
CONTEXT = 2048  # tokens of each decoding sequence
PROMPTS = (1024, 2048, 8192, 32_768)
CHUNK_FLOP = 11  # an entry of the state, a token: the delta rule's products, in chunks of 64
META = torch.device("meta")


def work_of(config: ModelConfig, width: int = 2) -> Work:
    """The work of a configuration whose weights, keys and values take `width` bytes."""
    table = config.vocab_size * config.hidden_size
    layers = config.parameters - table * (1 if config.tied else 2)
    delta = config.delta
    entries = delta.value_heads * delta.key_dim * delta.value_dim if delta is not None else 0
    return Work(
        f"{config.kind}, {config.parameters / 1e9:.1f} billion parameters of {width} bytes",
        weight_bytes=float((layers + table) * width),
        kv_bytes=float(config.kv_bytes_per_token(width)),
        state_bytes=float(config.slot_bytes(width)),
        token_flop=float(2 * layers + CHUNK_FLOP * entries * len(config.delta_layers)),
        head_flop=float(2 * table),
        attention_flop=float(4 * config.heads * config.head_dim * len(config.full_layers)),
    )


def table(work: Work, device: Device) -> str:
    moved = f"{device.bandwidth / 1e12:.1f} TB/s, {device.rate / 1e12:.0f} TFLOP/s"
    lines = [f"{work.name} on {device.name}: {moved}", f"  decode at {CONTEXT:,} tokens of context"]
    for rows in ROWS:
        plan = decode_plan(rows, CONTEXT)
        seconds = work.step_seconds(plan, device)
        moving = work.step_bytes(plan) / device.bandwidth
        lines.append(
            f"  {rows:>6} rows   {seconds * 1e3:>7.2f} ms  {rows / seconds:>8,.0f} tokens/s"
            f"  {moving / seconds:>4.0%} of it moving bytes"
        )
    lines.append("  prompts")
    for tokens in PROMPTS:
        seconds = work.step_seconds(prompt_plan(tokens), device)
        lines.append(f"  {tokens:>6} tokens {seconds * 1e3:>7.1f} ms  {tokens / seconds:>8,.0f} tokens/s")
    return "\n".join(lines)


class Trace(TorchDispatchMode):
    """What a device would be given: launches by name, and the bytes of each name.

    A launch moves each of its tensors once, but of a pool (tensors in `share`) only what the step's rows hold there.
    """

    def __init__(self, share: dict[int, float]) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()
        self._share = share

    def kernel(self, kernel: Any, grid: object, arguments: tuple[Any, ...], options: object) -> None:
        self._count(kernel.fn.__name__, arguments)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        copied = name == "to" and result is not args[0]
        if copied or (not func.is_view and "empty" not in name and name not in ("detach", "_unsafe_view")):
            given = tree_leaves((args, kwargs or {}))
            if name in ("embedding", "index"):  # of the table they read as much as they return
                given = [*given[1:], result]
            self._count(name, [*given, result])
        return result

    def _count(self, name: str, tensors: Sequence[Any]) -> None:
        self.launches[name] += 1
        seen = {id(x): x for x in tensors if isinstance(x, Tensor)}
        self.moved[name] += sum(x.nbytes * self._share.get(_rows(x), 1.0) for x in seen.values())


def _rows(x: Tensor) -> int:
    return x.shape[0] if x.dim() else 0


class MetaSource:
    """A checkpoint without memory."""

    def __init__(self, config: ModelConfig) -> None:
        self._shapes = published_shapes(config, tied=bool(config.tied))

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        return torch.empty(self._shapes[name], dtype=dtype, device=META)


def trace_decode(config: ModelConfig, rows: int, context: int = CONTEXT) -> Trace:
    """One captured step of `rows` sequences that each have `context` tokens, both halves of it."""
    # Pools of odd sizes that no other tensor has: by their first dimension the trace knows them.
    pages, slots = 1_000_003, 999_983
    model = Qwen(config, assemble(config, MetaSource(config), bool(config.tied), torch.bfloat16))
    cache = Cache.allocate(config, pages, slots, torch.bfloat16, META)
    decode = Decode(model, cache, Inputs(rows, context, META))
    reads = rows * (context / PAGE) / pages
    trace = Trace({pages: reads, slots: 2 * rows / slots})
    with torch.inference_mode(), traced(trace.kernel), trace:
        decode.forward(rows)
        decode.sample(rows)
    # The prologue is given the pages too, and writes one place of each row.
    if trace.moved["prologue_kernel"]:
        per_launch = rows * config.kv_bytes_per_token(2) / len(config.full_layers)
        all_pages = pages * PAGE * per_launch / rows
        trace.moved["prologue_kernel"] -= int(len(config.full_layers) * (all_pages * reads - per_launch))
    return trace


def launches_a_layer(config: ModelConfig, rows: int) -> dict[str, int]:
    """How many launches one more layer of each kind costs."""

    def count(*layers: str) -> int:
        return sum(trace_decode(dataclasses.replace(config, layer_types=layers), rows).launches.values())

    kinds = sorted({FULL, DELTA} & set(config.layer_types))
    return {kind: count(kind, kind) - count(kind) for kind in kinds}


def counted(config: ModelConfig, work: Work, rows: int) -> str:
    """For people."""
    trace = trace_decode(config, rows)
    least, moved = work.step_bytes(decode_plan(rows, CONTEXT)), sum(trace.moved.values())
    lines = [f"  one decode step of {rows} rows: {sum(trace.launches.values())} launches"]
    lines[0] += f", {moved / 1e9:.2f} GB, {moved / least:.3f} of the least"
    for name, launches in trace.launches.most_common():
        lines.append(f"    {name:<28} {launches:>5}  {trace.moved[name] / 1e6:>12,.2f} MB")
    layers = launches_a_layer(config, rows)
    return "\n".join(
        [*lines, *(f"    a layer of {kind}: {count} launches" for kind, count in layers.items())]
    )


def main(arguments: list[str]) -> None:
    if not arguments:
        print(table(QWEN3_5_9B, H200))
        return
    config = ModelConfig.parse(json.loads(Path(arguments[0]).read_text()))
    work = work_of(config)
    print(table(work, H200))
    for rows in (1, 64, 256):
        print(counted(config, work, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
