"""The gated MLP of a layer."""

from __future__ import annotations

from torch import Tensor

from kernels.swiglu import swiglu
from node.model.weights import MlpWeights


class Mlp:
    """down(silu(gate x) · up x)"""

    def __init__(self, weights: MlpWeights) -> None:
        self._weights = weights

    def forward(self, x: Tensor) -> Tensor:
        """[N, H] to [N, H]."""
        return self._weights.down(swiglu(self._weights.gate_up(x)))
