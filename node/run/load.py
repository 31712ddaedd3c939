"""From a checkpoint folder to a model that is ready to run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from kernels.constants import PAGE
from node.engine.plan import SCRATCH, StepPlan
from node.model.families import FAMILIES, read_config
from node.model.model import Model
from node.run.model_runner import ModelRunner


def load_model(folder: Path, dtype: torch.dtype, device: torch.device | str) -> Model:
    """Read a checkpoint. Raises CheckpointError."""
    config = read_config(folder)
    return FAMILIES[config.family].build(folder, config, dtype, torch.device(device))


def warm_up(runner: ModelRunner) -> None:
    """Run one decode row and one prompt row, greedy and sampled, in the scratch page and slot.

    The first call of an operation picks and prepares its code; no request should wait for that.
    """
    tokens = PAGE  # as much as the scratch page holds
    runner.run(
        StepPlan(
            token_ids=np.zeros(1 + tokens, np.int64),
            positions=np.concatenate([np.zeros(1, np.int64), np.arange(tokens)]),
            cu_seqlens=np.array([0, 1, 1 + tokens]),
            page_table=np.full((2, 1), SCRATCH, np.int64),
            state_slots=np.full(2, SCRATCH, np.int64),
            sample_rows=np.arange(2),
            temperature=np.array([0.0, 1.0], np.float32),
            top_p=np.array([1.0, 0.95], np.float32),
            top_k=np.array([0, 20]),
            seeds=np.zeros(2, np.uint64),
        )
    )
