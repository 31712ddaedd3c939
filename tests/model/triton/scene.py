"""Tiny models run whole: ../test_triton.py has the same scenes from torch and from Triton's interpreter.

`python -m tests.model.triton.scene OUT FOLDER...` leaves a file in OUT for each checkpoint.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.constants import PAGE
from kernels.device import traced
from node.engine.plan import SamplingMetadata
from node.model.families import read_config
from node.model.qwen import Qwen
from node.model.weight_files import read_weights
from node.run.graph_runner import GraphRunner
from tests.model.drive import Drive, Sequence

PROMPT, COUNT = "random5", 2  # of the oracle's: its longer prompts would take the interpreter minutes
MORE = 2  # tokens of the row alone, so that rings are read that hold something

Told = dict[str, Any]


def told(folder: Path) -> Told:
    """What the folder's scene gives: logits, tokens, and the names of the Triton kernels that it took."""
    kernels: set[str] = set()

    def launch(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: Told) -> None:
        kernels.add(kernel.fn.__name__)
        kernel[grid](*arguments, **options)

    config = read_config(folder)
    # No vocabulary: the oracle's greedy tokens were taken from the whole table.
    model = Qwen(config, read_weights(folder, config, torch.float32, torch.device("cpu")))
    scene = oracle if (folder / "reference.npz").exists() else serving
    with traced(launch):
        return {**scene(model, folder), "kernels": sorted(kernels)}


def serving(model: Qwen, _: Path) -> Told:
    """Two rows through all kinds of step: chunks, a chunk beside a row that decodes, and decode over static tensors.
    `alone` is what the second row gives without the first, and with its state, if it has one, written late."""
    draw = np.random.default_rng(5)
    # The hybrid's chunk goes from the first page into the second: its attention layers do it for all kinds.
    chunk = 2 if model.config.delta is None else PAGE + 1
    long, short = (draw.integers(0, model.vocabulary, length).tolist() for length in (3 + chunk, 4))
    (alone,) = Drive(model, pages=2, state_slots=2, deferred=True).generate([short], PAGE, COUNT + MORE)
    drive = Drive(model, pages=4, state_slots=4)
    first, second = drive.begin(long), drive.begin(short)
    drive.step([(first, 3), (second, 4)])
    drive.step([(first, chunk), (second, 1)])
    decode(drive, [first, second])
    return told_of(first=first, second=second, alone=alone)


def decode(drive: Drive, rows: list[Sequence]) -> None:
    """A token of both rows: the first is drawn from what min_p leaves, the second masked and penalised."""
    plan, _ = drive.plan([(row, 1) for row in rows])
    plan = dataclasses.replace(
        plan,
        temperature=np.array([0.9, 0], np.float32),
        top_p=np.array([0.95, 1], np.float32),
        top_k=np.array([20, 0]),
        seeds=np.array([1 << 63, 7], np.uint64),
        min_p=np.array([0.01, 0], np.float32),
    )
    even = np.full((1, 3), 0x55555555, np.uint32)
    seen = np.array([[1, 1, 1], [2, 40, 94], [1, 2, 0]])
    penalties = np.array([[1, 1.3], [0, 0.5], [0, 0.2]], np.float32)
    static = GraphRunner(drive.runner, 2 * PAGE, (3,))  # one row more than there are
    ids = static.run(plan, lambda: SamplingMetadata(np.array([1]), even, seen, penalties)).tolist()
    for row, logits, token in zip(rows, static.decode.logits.numpy(), ids, strict=False):
        row.logits.append(logits)  # as penalties and masks left them
        row.tokens.append(token)


def oracle(model: Qwen, folder: Path) -> Told:
    """One of the oracle's prompts: the logits of every token run, and the first greedy tokens."""
    prompt = np.load(folder / "reference.npz")[f"{PROMPT}.ids"].tolist()
    (row,) = Drive(model, pages=2, state_slots=2).generate([prompt], PAGE, COUNT)
    return told_of(row=row)


def told_of(**rows: Sequence) -> Told:
    logits = {f"{name}.logits": np.array(row.logits) for name, row in rows.items()}
    return {**logits, **{f"{name}.tokens": row.generated for name, row in rows.items()}}


if __name__ == "__main__":
    # Whatever a launcher allocates holds NaN until a kernel writes it. (This way of asking loads no compiler.)
    torch.set_deterministic_debug_mode("error")
    out, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        np.savez(out / folder.name, **told(folder))
