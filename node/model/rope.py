"""Rotary position embedding: the cosines and sines of a step's positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from node.model.rope_config import RopeConfig, Yarn


class Rope:
    """Angles pos · theta^(−2i/R) for i < R/2 (Su et al., arXiv 2104.09864), stretched where YaRN says so."""

    def __init__(self, config: RopeConfig, device: torch.device) -> None:
        half = torch.arange(0, config.width, 2, dtype=torch.int64).float()
        frequencies = 1.0 / config.theta ** (half / config.width)
        self._scale = 1.0
        if config.yarn is not None:
            frequencies = stretched(frequencies, config, config.yarn)
            self._scale = config.yarn.attention_scale
        self._frequencies = frequencies.to(device)
        self._axes = None if config.sections is None else interleaved_axes(*config.sections).to(device)

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(cos, sin), float32 [N, R] each, for positions int64 [N], or [3, N] on the axes time, height and width.

        As kernels.attention_prologue wants them: the halves repeat, and the first half of sin is negated. Raises
        ValueError for three axes where the model has one.
        """
        angles = positions.unsqueeze(-1).float() * self._frequencies
        if positions.dim() == 2:
            if self._axes is None:
                raise ValueError("positions: on three axes, and the model's have one")
            angles = angles.gather(0, self._axes.expand(1, *angles.shape[1:]))[0]
        cos, sin = angles.cos() * self._scale, angles.sin() * self._scale
        return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def interleaved_axes(time: int, height: int, across: int) -> Tensor:
    """int64 [R / 2]: the axis of each angle. They alternate as long as the other axes have angles left."""
    axes = torch.zeros(time + height + across, dtype=torch.int64)
    axes[1 : 3 * height : 3] = 1
    axes[2 : 3 * across : 3] = 2
    return axes


def stretched(frequencies: Tensor, config: RopeConfig, yarn: Yarn) -> Tensor:
    """YaRN (arXiv 2309.00071): slow frequencies are divided by the factor, fast ones stay, a ramp between."""

    def dimension(turns: float) -> float:
        wavelengths = yarn.trained_context / (turns * 2 * math.pi)
        return config.width * math.log(wavelengths) / (2 * math.log(config.theta))

    low, high = dimension(yarn.fast), dimension(yarn.slow)
    if yarn.whole_dims:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.width - 1)
    span = high - low if high != low else 0.001  # as published: no division by zero
    ramp = ((torch.arange(config.width // 2).float() - low) / span).clamp(0, 1)
    return frequencies / yarn.factor * ramp + frequencies * (1 - ramp)
