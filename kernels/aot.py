"""Compile what the launchers launch, for devices that are not there: `python -m kernels.aot` prints the table.

Its status is 1 where a kernel spills, does not fit or lacks the matrix instruction expected of it. It runs in a process
of its own: the driver that it puts in place cannot launch.

Launchers are called with meta tensors in the shapes of a model; each launch is compiled as it would be on its first
call in service, then assembled, which tells registers and spills. No driver and no device take part.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from kernels.aot_cases import MODELS, cases
from kernels.device import INTERPRETED, traced

# Bytes of shared memory a program may take.
SHARED = {80: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024}
MATRIX = re.compile(r"\b(mma\.sync|wgmma\.mma_async|tcgen05\.mma)")
# Tiles of 16 queries are below what a warpgroup takes; those of a prompt are not.
NARROW = dict.fromkeys(SHARED, "mma.sync")
WIDEST = NARROW | {90: "wgmma.mma_async", 100: "tcgen05.mma"}
EXPECTED = {
    "decode_attention_kernel": NARROW,
    "small_gemm_kernel": NARROW,
    "prefill_attention_kernel": WIDEST,
    "delta_solve_kernel": WIDEST,
    "delta_scan_kernel": WIDEST,
    "delta_output_kernel": WIDEST,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel in one configuration on one architecture, as ptxas reports it; digest tells compilations apart."""

    op: str
    kernel: str
    arch: int
    form: str
    warps: int
    registers: int
    spills: int
    shared: int
    matrix: tuple[str, ...]
    digest: str

    @property
    def faults(self) -> list[str]:
        expected = EXPECTED.get(self.kernel, {}).get(self.arch)
        return [
            *([f"spills {self.spills} bytes"] if self.spills else []),
            *([f"does not fit {SHARED[self.arch] // 1024} KB"] if self.shared > SHARED[self.arch] else []),
            *([f"lacks {expected}"] if expected and expected not in self.matrix else []),
        ]


class _AbsentDevice:
    """What Triton asks of a driver before it compiles; it is never asked to load or to launch."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_device(self) -> int:
        return self.arch

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)


def compile_launches(op: str, call: Callable[[], Any], arch: int) -> Iterator[Compiled]:
    """Every launch that call makes, compiled for arch."""
    if INTERPRETED:
        raise RuntimeError(
            "kernels imported under TRITON_INTERPRET=1 cannot be compiled: use another process"
        )
    launches: list[tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = []
    with traced(lambda *launch: launches.append(launch), divmod(arch, 10)):
        call()
    triton.runtime.driver.set_active(_AbsentDevice(arch))
    for kernel, grid, arguments, options in launches:
        built = kernel.warmup(*arguments, grid=grid, **options)
        registers, spills = _assemble(built.asm["ptx"], arch)
        form = " ".join(f"{k}={v}" for k, v in options.items() if k not in ("num_warps", "WIDE"))
        yield Compiled(
            op=op,
            kernel=kernel.fn.__name__,
            arch=arch,
            form=form,
            warps=options.get("num_warps", 4),
            registers=registers,
            spills=spills,
            shared=built.metadata.shared,
            matrix=tuple(sorted(set(MATRIX.findall(built.asm["ptx"])))),
            digest=built.hash,
        )


@cache
def _assemble(ptx: str, arch: int) -> tuple[int, int]:
    """(registers a thread, bytes spilled) of the only kernel in ptx."""
    knobs = triton.knobs.nvidia
    ptxas = knobs.ptxas_blackwell if arch >= 100 else knobs.ptxas
    name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [
            ptxas.path,
            "-v",
            f"--gpu-name={name}",
            str(source),
            "-o",
            str(source.with_suffix(".cubin")),
        ]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = int(re.search(r"Used (\d+) registers", report)[1])  # type: ignore[index]
    return registers, sum(int(n) for n in re.findall(r"(\d+) bytes spill", report))


def compile_model(model: str, archs: Sequence[int]) -> Iterator[Compiled]:
    """Every distinct launch that serves the model, on each architecture."""
    for arch in archs:
        seen = set()
        for op, call in cases(MODELS[model]):
            for compiled in compile_launches(op, call, arch):
                if compiled not in seen:
                    seen.add(compiled)
                    yield compiled


HEADER = (
    f"{'op':<24}{'kernel':<25}{'sm':>4}{'warps':>6}{'regs':>6}{'spill':>6}{'shared KB':>10}  matrix, form"
)


def line(c: Compiled) -> str:
    matrix = ",".join(c.matrix) or "-"
    numbers = f"{c.arch:>4}{c.warps:>6}{c.registers:>6}{c.spills:>6}{c.shared / 1024:>10.1f}"
    return f"{c.op:<24}{c.kernel:<25}{numbers}  {matrix}, {c.form}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.aot", description=__doc__)
    parser.add_argument("models", nargs="*", default=["Qwen3.5-9B"], help=", ".join(MODELS))
    parser.add_argument("--arch", type=int, nargs="+", default=[89, 90], choices=sorted(SHARED))
    options = parser.parse_args(arguments)
    faulty = 0
    for model in options.models:
        print(f"{model}\n{HEADER}")
        for compiled in compile_model(model, options.arch):
            print(line(compiled), flush=True)
            if compiled.faults:
                faulty += 1
                print(f"FAULT: {', '.join(compiled.faults)}")
    return min(faulty, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
