"""What one decode step would give a device, counted by running it where nothing is computed.

Tensors on the meta device have shapes and no memory, and every kernel and every torch operation on them is seen.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.least import Step
from bench.traffic import Launch, Values
from kernels.constants import PAGE, RING
from kernels.device import traced
from kernels.sample_parts import PART, PEAK
from node.model.cache import Cache
from node.model.config import DELTA, FULL, ModelConfig
from node.model.qwen import Qwen
from node.model.weights import assemble, published_shapes
from node.run.decode import Decode
from node.run.inputs import Inputs

META = torch.device("meta")
TOP_K = 20  # what the models' authors recommend; the draw of a greedy row reads less
# Of torch operations; those of kernels are in bench.traffic, all else prepares inputs.
JOBS = {"linear": "products", "embedding": "embedding"}


@dataclass(frozen=True, slots=True)
class Count:
    """Launches, the bytes that they load and store, and how many of these bytes are distinct within a launch."""

    launches: int = 0
    moved: float = 0.0
    distinct: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.launches + other.launches, self.moved + other.moved, self.distinct + other.distinct)


class Trace(TorchDispatchMode):
    """Counts by job of bench.least and, within it, by kernel or torch operation.

    A torch operation is taken to move each of its tensors once: how a library's product splits its work is not seen.
    """

    def __init__(self, vocabulary: int, values: Values) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Count]] = {}
        self._vocabulary = vocabulary
        self._values = values

    def total(self, job: str | None = None) -> Count:
        """Of one job, or of all."""
        jobs = self.jobs.values() if job is None else [self.jobs.get(job, {})]
        return sum((count for kernels in jobs for count in kernels.values()), Count())

    def kernel(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: Any) -> None:
        launch = Launch.of(kernel, grid, arguments, options, self._values)
        self._count(launch.job, launch.name, *launch.bytes)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        copied = name == "to" and result is not args[0]
        if copied or (not func.is_view and "empty" not in name and name not in ("detach", "_unsafe_view")):
            given = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
            logits = any(x.dim() == 2 and x.shape[1] == self._vocabulary for x in (given[0], result))
            moved = _bytes(name, given, result)
            self._count("head" if logits else JOBS.get(name, "inputs"), name, moved, moved)
        return result

    def _count(self, job: str, name: str, moved: float, distinct: float) -> None:
        kernels = self.jobs.setdefault(job, {})
        kernels[name] = kernels.get(name, Count()) + Count(1, moved, distinct)


def _bytes(name: str, given: list[Tensor], result: Tensor) -> int:
    """Every tensor once, whether it is read or written; of a table what is taken from it or put into it."""
    if name in ("embedding", "index", "index_select"):
        return sum(x.nbytes for x in given[1:]) + 2 * result.nbytes
    if name == "index_copy_":
        index, source = given[1:]
        return index.nbytes + 2 * source.nbytes
    return sum(x.nbytes for x in {id(x): x for x in (*given, result)}.values())


class MetaSource:
    """A checkpoint without memory."""

    def __init__(self, config: ModelConfig, device: torch.device = META) -> None:
        self._shapes = published_shapes(config, tied=bool(config.tied))
        self._device = device

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        return torch.empty(self._shapes[name], dtype=dtype, device=self._device)


def trace_decode(step: Step) -> Trace:
    """Both halves of a captured step, of rows that sample with top_k, in the mean over what rings can hold.

    Raises LookupError where the step launches a kernel that bench/traffic.py does not know.
    """
    config, rows = step.config, step.rows
    model = Qwen(config, assemble(config, MetaSource(config), bool(config.tied), torch.bfloat16))
    cache = Cache.allocate(config, 2, 2, torch.bfloat16, META)
    if step.deferred and config.delta is not None:
        cache = cache.deferring()
    decode = Decode(model, cache, Inputs(rows, step.context, META))
    parts = -(-config.vocab_size // PART)
    # Candidates that lie anywhere, each below a peak of its own: so many parts hold one.
    looked = round(rows * parts * (1 - (1 - 1 / parts) ** TOP_K))
    values = Values(step.context, looked, rows * TOP_K * PEAK, rows * TOP_K, tuple(range(RING)))
    trace = Trace(config.vocab_size, values)
    with torch.inference_mode(), traced(trace.kernel), trace:
        decode.forward(rows)
        decode.sample(rows)
    return trace


def launches_a_layer(config: ModelConfig, rows: int) -> dict[str, int]:
    """How many launches one more layer of each kind costs."""

    def count(*layers: str) -> int:
        step = Step(dataclasses.replace(config, layer_types=layers), rows, PAGE)
        return trace_decode(step).total().launches

    kinds = sorted({FULL, DELTA} & set(config.layer_types))
    return {kind: count(kind, kind) - count(kind) for kind in kinds}
