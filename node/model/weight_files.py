"""The safetensors files of a checkpoint folder, checked in full before the first tensor is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from node.checkpoint import CheckpointError, CheckpointFolder
from node.model.config import ModelConfig
from node.model.weights import Shape, Weights, assemble, published_shapes

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
NAMED = 20  # names of each kind of problem that an error lists
# The text model's prefix differs between published, text-only and converted checkpoints.
PREFIX = re.compile(r"^(model\.)?(language_model\.)?(model\.)?")
# Vision towers and draft heads are no part of the text model; old exports carry rotary frequencies.
SKIPPED = re.compile(r"^(model\.)?visual\.|^mtp\.|\.rotary_emb\.inv_freq$")


class WeightFiles:
    """The tensors of a folder by their name without prefix, memory-mapped."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        """Raises CheckpointError naming the shards that are missing or cannot be opened."""
        self._folder = folder
        self._device = device
        self._files: dict[str, Any] = {}
        self._found: dict[str, tuple[str, str]] = {}  # name → file, full name
        self._doubled: list[str] = []
        self._open(_shards(folder))

    def _open(self, shards: list[str]) -> None:
        broken = [f"{shard}: not in the folder" for shard in shards if not (self._folder / shard).exists()]
        for shard in [] if broken else shards:
            try:
                self._files[shard] = safe_open(self._folder / shard, framework="pt", device=str(self._device))
            except (SafetensorError, OSError) as error:
                broken.append(f"{shard}: {error}")
        if broken:
            message = _listed("files of the checkpoint cannot be read", broken)
            raise CheckpointError(message, path=self._folder)
        for shard, file in self._files.items():
            for full in file.keys():  # noqa: SIM118 — a safe_open handle is no mapping
                if SKIPPED.search(full):
                    continue
                name = PREFIX.sub("", full)
                if name in self._found:
                    self._doubled.append(full)
                self._found[name] = shard, full

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def shape(self, name: str) -> Shape:
        shard, full = self._found[name]
        return tuple(self._files[shard].get_slice(full).get_shape())

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        shard, full = self._found[name]
        tensor: Tensor = self._files[shard].get_tensor(full)
        return tensor.to(dtype)

    def verify(self, expected: dict[str, Shape]) -> None:
        """Raise one CheckpointError that names all missing, unexpected and misshapen tensors."""
        missing = sorted(name for name in expected if name not in self._found)
        unexpected = sorted(full for name, (_, full) in self._found.items() if name not in expected)
        misshapen = []
        for name, shape in sorted(expected.items()):
            if name in self._found and (found := self.shape(name)) != shape:
                misshapen.append(f"{self._found[name][1]} is {list(found)}, not {list(shape)}")
        problems = {
            "missing tensors": missing,
            "unexpected tensors": unexpected + self._doubled,
            "misshapen tensors": misshapen,
        }
        if any(problems.values()):
            lines = [_listed(kind, names) for kind, names in problems.items() if names]
            message = "\n".join(["the tensors do not fit config.json", *lines])
            raise CheckpointError(message, path=self._folder)


def read_weights(folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Weights:
    """All weights of a checkpoint folder, on the device. Raises CheckpointError.

    A head is tied where the configuration says so, and where it says nothing and the files hold none.
    """
    files = WeightFiles(folder, device)
    tied = config.tied if config.tied is not None else "lm_head.weight" not in files
    files.verify(published_shapes(config, tied))
    return assemble(config, files, tied, dtype)


def _shards(folder: Path) -> list[str]:
    """The files that the index names, else the single file: shards' names follow no pattern to rely on."""
    files = CheckpointFolder(folder)
    index = files.read_json(INDEX)
    if index is None:
        return [SINGLE]
    with files.reading(INDEX, "an index of shards"):
        return sorted({str(shard) for shard in index["weight_map"].values()})


def _listed(kind: str, names: list[str]) -> str:
    more = ", …" if len(names) > NAMED else ""
    return f"{kind} ({len(names)}): {', '.join(names[:NAMED])}{more}"
