"""A CUDA device that computes nothing, for machines that have none: tensors with shapes, types and addresses.

What would hold the host until the device has run is refused, as is what a captured step may not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

from bench.trace import MetaSource
from kernels import device as kernels_device
from kernels.device import traced
from node.model.config import ModelConfig
from node.model.weights import Source

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten


class Waits(Exception):
    """The host would wait for the device."""


class Captured(Exception):
    """A captured step would meet the host, whose memory another replay finds changed or gone."""


class FakeCuda(TorchFunctionMode):
    """While entered, tensors can be made on CUDA. They are FakeTensors, which refuse by themselves to tell what they
    hold (item, tolist, nonzero) and to meet a tensor of the host; copies to and from the host are judged here.

    serving    copies that block the host are refused
    capturing  all copies are
    """

    def __init__(self) -> None:
        super().__init__()
        self.serving = self.capturing = False
        self.copies = 0
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._pinned: list[torch.UntypedStorage] = []

    def source(self, config: ModelConfig) -> Source:
        """A cached state on the device."""
        return MetaSource(config, CUDA)

    @contextmanager
    def only(self, what: str) -> Iterator[None]:
        """`serving` or `capturing`, for a while."""
        before = getattr(self, what)
        setattr(self, what, True)
        try:
            yield
        finally:
            setattr(self, what, before)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.pop("pin_memory", False) or func is Tensor.pin_memory:
            made = args[0].clone() if func is Tensor.pin_memory else func(*args, **kwargs)
            self._pinned.append(made.untyped_storage())
            return made
        if func in (Tensor.to, Tensor.cpu):
            return self._to(*args, **kwargs) if func is Tensor.to else self._to(*args, "cpu")
        if func is Tensor.copy_:
            return self._copied(*args, **kwargs)
        if func is Tensor.data_ptr:
            return address(args[0])
        if func in GUARDED and isinstance(args[0], FakeTensor):
            return GUARDED[func](*args)
        if func is Tensor.__setitem__ and isinstance(args[0], FakeTensor):
            return self._copied(indexed(*args[:2]), args[2])
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
            if func in (torch.tensor, torch.as_tensor):
                self._crossing(pinned=False, non_blocking=False)
            with self._fake:
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _to(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        where, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if where is None or where.type == x.device.type:
            return x if dtype is None or dtype is x.dtype else aten._to_copy.default(x, dtype=dtype)
        # To the host torch makes memory that is pinned, where it need not wait.
        self._crossing(where.type == "cpu" or self._is_pinned(x), non_blocking)
        if where.type == "cpu":
            return torch.zeros(x.shape, dtype=dtype or x.dtype)
        with self._fake:
            return torch.empty(x.shape, dtype=dtype or x.dtype, device=CUDA)

    def _copied(self, target: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
        if isinstance(source, Tensor) and source.device != target.device:
            self._crossing(all(map(self._is_pinned, (target, source))), non_blocking)
        elif not isinstance(target, FakeTensor):
            return Tensor.copy_(target, source)
        elif isinstance(source, Tensor):
            assert torch.broadcast_shapes(target.shape, source.shape) == target.shape
        return target

    def _is_pinned(self, x: Tensor) -> bool:
        pinned = {storage.data_ptr() for storage in self._pinned}
        return isinstance(x, FakeTensor) or x.untyped_storage().data_ptr() in pinned

    def _crossing(self, pinned: bool, non_blocking: bool) -> None:
        self.copies += 1
        if self.capturing:
            raise Captured("a copy between host and device")
        if self.serving and not (pinned and non_blocking):
            raise Waits("a copy of memory that is not pinned" if non_blocking else "a copy that blocks")


def address(x: Tensor) -> int:
    """Of the first entry; allocations on CUDA are aligned by 512 bytes."""
    if not isinstance(x, FakeTensor):
        return Tensor.data_ptr(x)
    return (x.untyped_storage()._cdata << 9) + x.storage_offset() * x.itemsize


def indexed(x: Tensor, key: Any) -> Tensor:
    """x[key]."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(one, (Tensor, list)) for one in keys):
        for one in keys:
            if not isinstance(one, FakeTensor) or one.dtype in (torch.bool, torch.uint8):
                raise Waits("an index of the host, or one whose size only the device knows")
        return aten.index.Tensor(x, list(keys))
    dim = 0
    for one in keys:
        if one is None:
            x, dim = aten.unsqueeze.default(x, dim), dim + 1
        elif isinstance(one, slice):
            x, dim = aten.slice.Tensor(x, dim, one.start, one.stop, one.step or 1), dim + 1
        else:
            x = aten.select.int(x, dim, one)
    return x


# Python's own ask for a guard of the device, which a build for CPUs lacks.
GUARDED = {
    Tensor.__getitem__: indexed,
    Tensor.contiguous: lambda x: (
        x if x.is_contiguous() else aten.clone.default(x, memory_format=torch.contiguous_format)
    ),
    Tensor.float: lambda x: aten._to_copy.default(x, dtype=torch.float32),
}


class Event:
    """Stands in for torch.cuda.Event; nothing is ever under way."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    def replay(self) -> None: ...


Launch = Callable[[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]], None]


@contextmanager
def fake_cuda(launch: Launch = lambda *launched: None) -> Iterator[FakeCuda]:
    """A device of an H200's kind; Triton's launches go to `launch`."""

    def launched(
        kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        assert all(x.device == CUDA for x in arguments if isinstance(x, Tensor))
        launch(kernel, grid, arguments, options)

    with pytest.MonkeyPatch.context() as patch, FakeCuda() as cuda, traced(launched):
        patch.setattr(torch.cuda, "Event", Event)
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(torch.cuda, "graph", lambda graph, **options: cuda.only("capturing"))
        patch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
        patch.setattr(kernels_device, "_capability", lambda where: (9, 0))
        yield cuda
