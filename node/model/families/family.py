"""One row of the table of families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from node.model.config import ModelConfig

if TYPE_CHECKING:  # the table is read by commands that do not wait for torch
    import torch

    from node.model.model import Model

    Build = Callable[[Path, ModelConfig, torch.dtype, torch.device], Model]


@dataclass(frozen=True, slots=True)
class Family:
    """Checkpoints that one reader and one network serve.

    read            the whole of config.json to the network's sizes; raises CheckpointError
    build           a checkpoint folder to the network, with its weights on a device; raises CheckpointError. What
                    needs torch is imported when it is called
    call_format     how the family's published templates teach calls, as node.chat.tool_call_format names it; what
                    decides is the template in the folder
    special_tokens  texts of the control tokens that its templates write and its answers are told apart by; what
                    decides is the tokenizer in the folder
    """

    read: Callable[[Mapping[str, Any]], ModelConfig]
    build: Build
    call_format: Literal["json", "xml"]
    special_tokens: frozenset[str]
