"""Trains the demo model on one core, from nothing or from where it stopped.

    python -m weights.demo.train STATE [STEPS]

STATE is a file outside the repository that holds weights, momenta and the step; it is written every few
minutes. The rate depends on the step and on STEPS alone: a machine that sleeps or is shared changes the time
and not the result.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

# Read by the C library at its start, hence the restart below. Without them every large tensor goes back to
# the kernel and its pages are faulted in again: half the speed. One thread: the other core has another owner.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
}

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

from weights.demo import network, packing, tokenizer  # noqa: E402
from weights.demo.conversation import ANSWER  # noqa: E402
from weights.demo.network import Shape, Weights  # noqa: E402
from weights.demo.optimizer import Optimizer  # noqa: E402

SEED = 1
STEPS = 3_130
WARM_UP = 60
COOL_FROM = 0.5  # of all steps; from here the rate falls in a line and weights are averaged
LAST_RATE = 0.02
AVERAGE = 0.998
SAVE_EVERY = 100
LOG_EVERY = 20
PROBE_EVERY = 250
PROBES = 6
LOG = Path(__file__).parent / "log"


def rate(step: int, steps: int) -> float:
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    left = (steps - step) / (steps * (1 - COOL_FROM))
    return min(1.0, LAST_RATE + (1 - LAST_RATE) * left)


def losses(states: Tensor, table: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of every target, [B * T]."""
    scores = F.linear(states, table.to(states.dtype)).float()
    return F.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")


class Run:
    """Weights, their average, the optimizer, and the step reached."""

    def __init__(self, path: Path, steps: int) -> None:
        self.path, self.steps = path, steps
        self.shape = Shape()
        self.tokens = tokenizer.load()
        self.weights: Weights = network.init(self.shape, SEED)
        self.average = {name: tensor.clone() for name, tensor in self.weights.items()}
        self.optimizer = Optimizer(self.weights)
        self.done = 0
        if path.exists():
            self.resume()
        for tensor in self.weights.values():
            tensor.requires_grad_()
        self.layer = torch.compile(network.layer, dynamic=False)
        self.losses = torch.compile(losses, dynamic=False)

    def resume(self) -> None:
        state = torch.load(self.path, weights_only=True)
        self.done = state["step"]
        for mine, saved in (
            (self.weights, state["weights"]),
            (self.average, state["average"]),
            (self.optimizer.state, state["optimizer"]),
        ):
            for name, tensor in saved.items():
                mine[name].copy_(tensor)

    def save(self) -> None:
        draft = self.path.with_suffix(".new")
        state = {
            "shape": self.shape.as_dict(),
            "step": self.done,
            "tokens": self.done * packing.ROWS * packing.LENGTH,
            "weights": {name: tensor.detach() for name, tensor in self.weights.items()},
            "average": self.average,
            "optimizer": self.optimizer.state,
        }
        torch.save(state, draft)
        os.replace(draft, self.path)

    def states(self, batch: packing.Batch) -> Tensor:
        where = network.pack(self.shape, batch.owner)
        return network.hidden(self.shape, self.weights, batch.ids, where, self.layer)

    def step(self) -> tuple[float, float]:
        """Loss on the answers and the gradient's norm."""
        batch = packing.batch(self.tokens, self.done)
        each = self.losses(self.states(batch), self.weights["embed_tokens.weight"], batch.target)
        weight = batch.weight.flatten()
        ((each * weight).sum() / weight.sum()).backward()
        norm = self.optimizer.step(rate(self.done, self.steps))
        self.done += 1
        keep = AVERAGE if self.done > self.steps * COOL_FROM else 0.0
        with torch.no_grad():
            for name, tensor in self.weights.items():
                self.average[name].lerp_(tensor, 1 - keep)
        answers = weight >= ANSWER
        return float(each.detach()[answers].mean()), norm

    def probe(self) -> str:
        """Share of whole turns predicted, by kind, held out. Gradients stay on: one graph for both."""
        right: dict[str, list[bool]] = {}
        for number in range(PROBES):
            batch = packing.batch(self.tokens, number, held=True)
            scores = network.logits(self.weights, self.states(batch).detach())
            for kind, verdicts in packing.right_turns(batch, scores.argmax(-1)).items():
                right.setdefault(kind, []).extend(verdicts)
        return "; ".join(f"{kind} {sum(map(int, v))}/{len(v)}" for kind, v in sorted(right.items()))


def main(path: Path, steps: int) -> None:
    torch.set_flush_denormal(True)  # old recurrent state decays into them, and they are slow
    run = Run(path, steps)
    LOG.mkdir(exist_ok=True)
    began, seen = time.time(), []
    with (LOG / "loss.csv").open("a") as loss_log, (LOG / "probe.txt").open("a") as probe_log:
        if run.done == 0:
            loss_log.write("step,tokens,answer loss,gradient norm,rate,seconds a step\n")
        while run.done < steps:
            seen.append(run.step())
            tokens = run.done * packing.ROWS * packing.LENGTH
            if run.done % LOG_EVERY == 0:
                loss, norm = (sum(column) / len(seen) for column in zip(*seen, strict=True))
                pace, began, seen_now = (time.time() - began) / len(seen), time.time(), len(seen)
                loss_log.write(
                    f"{run.done},{tokens},{loss:.4f},{norm:.2f},{rate(run.done, steps):.3f},{pace:.2f}\n"
                )
                loss_log.flush()
                del seen[:seen_now]
            if run.done % PROBE_EVERY == 0:
                probe_log.write(f"{tokens / 1e6:.2f} M: {run.probe()}\n")
                probe_log.flush()
            if run.done % SAVE_EVERY == 0 or run.done == steps:
                run.save()


if __name__ == "__main__":
    if not ENVIRONMENT.items() <= os.environ.items():
        os.execve(
            sys.executable,
            [sys.executable, "-m", "weights.demo.train", *sys.argv[1:]],
            os.environ | ENVIRONMENT,
        )
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)
