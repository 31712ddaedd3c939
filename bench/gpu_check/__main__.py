"""`python -m bench.gpu_check [--tiny] [--results FOLDER]`: under 4 minutes on an H200, no network, random weights.

Exits with 1 where something that was promised does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.gpu_check import deferred, kernels, products, serving, steps
from bench.gpu_check.bed import DEMO, TINY, WHOLE, Bed, Size, config_of
from bench.gpu_check.findings import Findings
from node.chat.chat import Chat
from node.model.config import ModelConfig

RESULTS = Path(__file__).parents[1] / "results"
MOST_SECONDS = 240.0  # a device is lent by the minute


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="a small model, on the CPU where there is no GPU")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    if not cuda and not options.tiny:
        parser.error("no CUDA device is here; --tiny runs the check itself on a CPU")
    device = torch.device("cuda" if cuda else "cpu")
    size, config = (TINY if options.tiny else WHOLE), config_of(options.tiny)
    findings = Findings(torch.cuda.get_device_name(device) if cuda else "cpu")

    try:
        check(findings, size, config, device)
    finally:
        path = findings.write(options.results)
    print(f"{findings.faults} faults; kept in {path}")
    return min(findings.faults, 1)


@torch.inference_mode()
def check(findings: Findings, size: Size, config: ModelConfig, device: torch.device) -> None:
    make = kernels.Make(config, getattr(torch, size.dtype), device)
    findings.add("kernels", lambda: kernels.compared(kernels.all_cases(make)))
    # Sampled ids must be tokens of the demo's tokenizer, which writes them out over HTTP.
    bed = Bed(config, size, device, Chat.read(DEMO).tokenizer.vocabulary_size)
    print(bed.plan.table(), flush=True)
    found = steps.measured(bed)
    findings.add("warm-up", lambda: steps.warm(bed))
    findings.add("tokens", lambda: steps.same_tokens(bed))
    findings.add("neighbours", lambda: steps.alone_and_beside_others(bed))
    steps.forget(bed)
    findings.add("served", lambda: serving.served(bed))
    findings.add("decode", lambda: steps.decode_times(bed, found))
    findings.add("prompts", lambda: steps.prompt_times(bed, found))
    findings.add("memory", lambda: steps.memory(bed))
    findings.add("compiles", lambda: steps.compiles(bed))
    # Last, because their kernels are compiled and their memory is taken after the node would be ready.
    findings.add("deferred", lambda: deferred.deferred(bed, found))
    findings.add("products", lambda: products.times(bed, found))
    findings.add("whole check", lambda: findings.whole(MOST_SECONDS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
