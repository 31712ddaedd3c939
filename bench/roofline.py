"""What a step costs at best, and what of that the code does: `python -m bench.roofline [config.json] [options]`.

The floor is node/engine/roofline.py's, for any configuration and device. What the code does is counted (bench/trace.py)
and stands job by job beside the least that the job must move (bench/least.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.devices import DEVICES
from bench.gpu_check.bed import QWEN3_5_9B
from bench.least import Step, least
from bench.trace import Count, launches_a_layer, trace_decode
from kernels.device import triton
from node.checkpoint import CheckpointError
from node.engine.plan import StepPlan
from node.engine.roofline import Device, Work, decode_plan, prefill_plan
from node.model.config import ModelConfig
from node.model.families import parse_config
from node.run.buckets import bucket_of

ROWS = (1, 8, 32, 64, 128, 256)
COUNTED = (1, 64, 256)
CONTEXT = 2048  # tokens of each decoding sequence
PROMPTS = (1024, 2048, 8192, 32_768)
CHUNK_FLOP = 11  # an entry of the state, a token: the delta rule's products, in chunks of 64


def work_of(config: ModelConfig, width: int = 2) -> Work:
    """The work of a configuration whose weights, keys and values take `width` bytes."""
    table = config.vocab_size * config.hidden_size
    layers = config.parameters - table * (2 if config.tied is False else 1)
    delta = config.delta
    entries = delta.value_heads * delta.key_dim * delta.value_dim if delta is not None else 0
    return Work(
        f"{config.family}, {config.parameters / 1e9:.1f} billion parameters of {width} bytes",
        weight_bytes=float((layers + table) * width),
        kv_bytes=float(config.kv_bytes_per_token(width)),
        state_bytes=float(config.slot_bytes(width)),
        token_flop=float(2 * layers + CHUNK_FLOP * entries * len(config.delta_layers)),
        head_flop=float(2 * table),
        attention_flop=float(4 * config.heads * config.head_dim * len(config.full_layers)),
    )


def deferred_work(work: Work, config: ModelConfig) -> Work:
    """A row moves less by as much as bench.least finds."""
    each, eighth = (least(Step(config, 1, 1, deferred))["delta rule"] for deferred in (False, True))
    return dataclasses.replace(work, state_moves=work.state_moves + (eighth - each) / work.state_bytes)


def floors(work: Work, device: Device, rows: Sequence[int], context: int) -> str:
    """For people: bytes, FLOP and least time of decode steps and of prompts."""

    def line(count: int, unit: str, plan: StepPlan) -> str:
        seconds, moved = work.step_seconds(plan, device), work.step_bytes(plan)
        return (
            f"  {count:>6} {unit:<6} {moved / 1e9:>8.2f} GB {work.step_flop(plan) / 1e12:>9.3f} TFLOP"
            f" {seconds * 1e3:>8.2f} ms {count / seconds:>8,.0f} tokens/s"
            f" {moved / device.bandwidth / seconds:>4.0%} of it moving bytes"
        )

    speeds = f"{device.bandwidth / 1e12:.2f} TB/s, {device.rate / 1e12:.0f} TFLOP/s"
    return "\n".join(
        [
            f"{work.name} on {device.name}: {speeds}",
            f"  decode at {context:,} tokens of context",
            *(line(n, "rows", decode_plan(n, context)) for n in rows),
            "  prompts",
            *(line(n, "tokens", prefill_plan(n)) for n in PROMPTS),
        ]
    )


def counted(step: Step, work: Work) -> str:
    """For people: a step's launches, and what each job moves beside its least; its kernels below, where it has more."""
    trace, jobs = trace_decode(step), least(step)
    whole, floor = trace.total(), work.step_bytes(decode_plan(step.rows, step.context))
    lines = [
        f"  one decode step of {step.rows} rows: {whole.launches} launches, {whole.moved / 1e9:.2f} GB,"
        f" {whole.moved / sum(jobs.values()):.3f} of the least of its jobs, {whole.moved / floor:.3f} of the floor's",
        f"    {'':<26} {'launches':>8} {'least MB':>10} {'moved MB':>10}        {'distinct MB':>11}",
    ]
    for job in sorted(jobs, key=lambda job: -trace.total(job).moved):
        lines.append(_line(f"  {job}", trace.total(job), jobs[job]))
        kernels = trace.jobs.get(job, {})
        lines += [_line(f"    {name}", count) for name, count in kernels.items() if len(kernels) > 1]
    return "\n".join(lines)


def _line(name: str, count: Count, at_least: float | None = None) -> str:
    megabytes = ["" if x is None else f"{x / 1e6:,.2f}" for x in (at_least, count.moved, count.distinct)]
    ratios = ["" if at_least is None else f"{x / at_least:.3f}" for x in (count.moved, count.distinct)]
    return (
        f"  {name:<28} {count.launches:>8} {megabytes[0]:>10} {megabytes[1]:>10} {ratios[0]:>6} {megabytes[2]:>11}"
        f" {ratios[1]:>6}"
    ).rstrip()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.roofline",
        description="What a step costs at best, and what of that the code does.",
    )
    parser.add_argument(
        "config", nargs="?", type=Path, help="a model's config.json; Qwen3.5-9B's where left out"
    )
    parser.add_argument("--device", choices=DEVICES, default="H200")
    parser.add_argument("--bandwidth", type=float, metavar="TB/S", help="in place of the device's")
    parser.add_argument("--rate", type=float, metavar="TFLOP/S", help="in place of the device's")
    parser.add_argument("--rows", type=int, nargs="+", help="of a decode step")
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens of each row")
    parser.add_argument(
        "--deferred",
        action="store_true",
        help="with state writes at each eighth token",
    )
    options = parser.parse_args(arguments)
    if min(options.context, *(options.rows or ROWS)) < 1:
        parser.error("rows and context begin at 1")
    try:
        config = parse_config(json.loads(options.config.read_text()) if options.config else QWEN3_5_9B)
    except (OSError, json.JSONDecodeError, CheckpointError) as error:
        parser.error(f"{options.config}: {error}")
    given = {
        name: value * 1e12 for name in ("bandwidth", "rate") if (value := getattr(options, name)) is not None
    }
    device, work = dataclasses.replace(DEVICES[options.device], **given), work_of(config)
    if options.deferred and config.delta is not None:
        work = deferred_work(work, config)
    print(floors(work, device, options.rows or ROWS, options.context))
    if triton is None:
        print("  no Triton here, so that no launches can be counted")
        return
    for rows in options.rows or COUNTED:
        bucket = bucket_of(rows) or rows
        if bucket > rows:
            print(f"  {rows} rows run as {bucket}, which are counted as if none of them were padding")
        print(counted(Step(config, bucket, options.context, options.deferred), work))
    for kind, count in launches_a_layer(config, 8).items():
        print(f"  one more layer of {kind}: {count} launches")


if __name__ == "__main__":
    main(sys.argv[1:])
