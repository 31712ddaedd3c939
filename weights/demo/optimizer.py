"""Muon for the matrices, Adam for the rest.

Muon turns a matrix's momentum into the nearest matrix whose singular values are about one, by five steps of a
polynomial; matrices of one shape are stacked so that a step is a few large products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weights.demo.network import Weights

MUON_RATE, ADAM_RATE = 0.02, 3e-3
MOMENTUM = 0.95
BETAS = (0.9, 0.95)
CLIP = 1.0
# Small or lookup-like tensors, for which singular values mean little.
BY_ADAM = ("embed_tokens", "norm", "conv1d", "A_log", "dt_bias", "in_proj_a", "in_proj_b")


def orthogonal(m: Tensor) -> Tensor:
    """[N, rows, cols] -> the same, singular values pushed to about one (Newton-Schulz in bfloat16)."""
    x = m.bfloat16()
    wide = x.shape[-2] <= x.shape[-1]
    if not wide:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(-1, -2)
        b = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, b, x, beta=3.4445)
    return (x if wide else x.transpose(-1, -2)).float()


class Optimizer:
    """Its whole state is `state`: momenta under the weights' names and the number of steps taken."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.matrices: dict[tuple[int, ...], list[str]] = {}
        self.rest: list[str] = []
        for name, tensor in weights.items():
            if tensor.ndim == 2 and not any(part in name for part in BY_ADAM):
                self.matrices.setdefault(tuple(tensor.shape), []).append(name)
            else:
                self.rest.append(name)
        self.state: dict[str, Tensor] = {f"{name} m": torch.zeros_like(weights[name]) for name in weights}
        self.state |= {f"{name} v": torch.zeros_like(weights[name]) for name in self.rest}
        self.state["steps"] = torch.zeros(())

    @torch.no_grad()
    def step(self, rate: float) -> float:
        """One update at `rate` times the base rates; returns the gradient's norm before clipping."""
        grads = {name: tensor.grad for name, tensor in self.weights.items()}
        size = float(torch.stack([grad.norm() for grad in grads.values()]).norm())
        shrink = min(1.0, CLIP / (size + 1e-6))
        self.state["steps"] += 1
        for shape, names in self.matrices.items():
            grad = torch.stack([grads[name] for name in names]) * shrink
            momentum = torch.stack([self.state[f"{name} m"] for name in names]).lerp_(grad, 1 - MOMENTUM)
            update = orthogonal(grad.lerp(momentum, MOMENTUM))
            scale = MUON_RATE * rate * max(1.0, shape[0] / shape[1]) ** 0.5
            for n, name in enumerate(names):
                self.state[f"{name} m"].copy_(momentum[n])
                self.weights[name].sub_(update[n], alpha=scale)
        steps = float(self.state["steps"])
        for name in self.rest:
            grad = grads[name] * shrink
            m, v = self.state[f"{name} m"], self.state[f"{name} v"]
            m.lerp_(grad, 1 - BETAS[0])
            v.lerp_(grad.square(), 1 - BETAS[1])
            spread = (v / (1 - BETAS[1] ** steps)).sqrt_().add_(1e-8)
            self.weights[name].addcdiv_(m, spread, value=-ADAM_RATE * rate / (1 - BETAS[0] ** steps))
        for tensor in self.weights.values():
            tensor.grad = None
        return size
