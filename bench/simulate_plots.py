"""What reuse and fairness buy, on the two traces: `python -m bench.simulate_plots` (needs matplotlib).

Writes tables and plots under bench/results. All seconds are those of the modelled device.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

from node.engine.simulate import Outcome, Setup, replay
from node.engine.trace import read_trace

TRACES = Path(__file__).parent / "traces"
RESULTS = Path(__file__).parent / "results"
SETUPS = {
    "reuse and fairness": Setup(),
    "no reuse": Setup(reuse=False),
    "no fairness": Setup(fair=False),
    "neither": Setup(reuse=False, fair=False),
}


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    lines = []
    for trace in ("chat", "agent"):
        requests = read_trace(TRACES / f"{trace}.jsonl")
        outcomes = {name: replay(requests, setup) for name, setup in SETUPS.items()}
        lines += [f"{trace}: {name}\n{outcome.table()}\n" for name, outcome in outcomes.items()]
        draw(trace, outcomes)
    about = f"{SETUPS['neither'].work.name} on {SETUPS['neither'].device.name}, modelled"
    (RESULTS / "simulate.txt").write_text("\n".join([about, "", *lines]))
    print("\n".join(lines))


def draw(trace: str, outcomes: dict[str, Outcome]) -> None:
    organizations = next(iter(outcomes.values())).organizations
    figure, axes = pyplot.subplots(1, len(organizations) + 1, figsize=(5 * len(organizations) + 5, 4))
    for axis, organization in zip(axes, organizations, strict=False):
        for name, outcome in outcomes.items():
            distribution(axis, outcome.firsts(organization), name)
        axis.set(
            title=f"{organization}: first token", xlabel="seconds", ylabel="share of requests", xscale="log"
        )
    run_tokens(axes[-1], outcomes)
    axes[0].legend(loc="lower right", fontsize="small")
    figure.suptitle(f"{trace} trace, Qwen3.5-9B on one H200, modelled")
    figure.tight_layout()
    figure.savefig(RESULTS / f"simulate-{trace}.png", dpi=110)
    pyplot.close(figure)


def distribution(axis: Axes, seconds: np.ndarray, name: str) -> None:
    ordered = np.sort(seconds)
    axis.plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered), label=name)


def run_tokens(axis: Axes, outcomes: dict[str, Outcome]) -> None:
    names = [f"{name}\n{outcome.seconds:.0f} s in all" for name, outcome in outcomes.items()]
    axis.barh(names, [outcome.counts.prompt / 1e6 for outcome in outcomes.values()], label="run")
    axis.barh(
        names,
        [outcome.counts.reused / 1e6 for outcome in outcomes.values()],
        left=[outcome.counts.prompt / 1e6 for outcome in outcomes.values()],
        label="reused",
        color="lightgray",
    )
    axis.invert_yaxis()
    axis.set(title="tokens of prompts", xlabel="million")
    axis.legend(fontsize="small", loc="lower right")


if __name__ == "__main__":
    main()
