"""What the machine has, and what of it the node takes."""

from __future__ import annotations

import os
import subprocess

from node.checkpoint import CONFIG, CheckpointFolder
from node.engine.scheduler import Budget
from node.model import families
from node.model.config import ModelConfig
from node.run.memory import DoesNotFit, MemoryPlan, MemoryShares, plan_memory
from node.setting import PerDevice
from node.settings import DEFAULT_CONTEXT, Settings, SettingsError

CPU_SHARE = 0.5  # of free memory: the machine has other uses


def read_config(settings: Settings) -> ModelConfig:
    """Raises SettingsError where --model names no checkpoint, CheckpointError where it is one that cannot be served."""
    if CheckpointFolder(settings.model).read_text(CONFIG) is None:
        raise SettingsError(f"--model: {settings.model} holds no {CONFIG}; b3os-node pull fetches one")
    return families.read_config(settings.model)


def choose_device(settings: Settings) -> str:
    return settings.device or ("cuda" if _gpu_memory() is not None else "cpu")


def choose_context(settings: Settings, config: ModelConfig) -> int:
    """Raises SettingsError when more is asked for than the model has."""
    if settings.context > config.context:
        raise SettingsError(f"--context: {settings.context} is more than the model's {config.context}")
    return settings.context or min(DEFAULT_CONTEXT, config.context)


def step_budget(settings: Settings, device: str) -> Budget:
    """What one step may hold on `device`, cpu or cuda."""

    def on(value: int | PerDevice) -> int:
        return value.on(device) if isinstance(value, PerDevice) else value

    tokens = on(settings.max_num_batched_tokens)
    return Budget(
        sequences=on(settings.max_num_seqs),
        tokens=tokens,
        # Memory is planned for steps of `tokens`.
        mixed_tokens=min(tokens, on(settings.max_prefill_tokens_beside_decode)),
        partial_prefills=settings.max_partial_prefills_per_organization,
    )


def memory_plan(
    settings: Settings, config: ModelConfig, workspace: int | None = None, memory: int | None = None
) -> MemoryPlan:
    """Raises SettingsError when one context does not fit. `workspace` and `memory` in bytes, once they are measured."""
    device = choose_device(settings)
    budget = step_budget(settings, device)
    try:
        return plan_memory(
            config,
            memory=settings.device_memory or memory or _device_memory(device),
            dtype=settings.dtype,
            context=choose_context(settings, config),
            sequences=budget.sequences,
            step_tokens=budget.tokens,
            shares=settings.part(MemoryShares),
            deferred=settings.deferred,
            workspace=workspace,
            packed_head=device == "cpu" and settings.dtype == "bfloat16" and config.tied is not False,
        )
    except DoesNotFit as error:
        raise SettingsError(str(error)) from None


def _device_memory(device: str) -> int:
    if device == "cpu":
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * CPU_SHARE)
    memory = _gpu_memory()
    if memory is None:
        raise SettingsError("--device: no CUDA device is here; --device-memory plans for one that is not")
    return memory


def _gpu_memory() -> int | None:
    """Bytes of the first GPU, asked of the driver's own tool: planning must not wait for torch to start."""
    ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
        return int(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
