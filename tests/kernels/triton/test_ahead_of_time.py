"""Every kernel compiles for devices that are not here: it spills nothing, fits, and has its matrix instructions.

In a process of its own: the driver that stands in for a device cannot launch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from torch import Tensor

from kernels.aot_cases import MODELS, cases
from kernels.device import traced
from tests.kernels.processes import run, two_at_a_time


def table(model: str, arch: int) -> str:
    return run("-m", "kernels.aot", model, "--arch", str(arch))


def test_kernels_of_the_9b_compile_for_sm_89_and_sm_90() -> None:
    printed = "".join(two_at_a_time(partial(table, "Qwen3.5-9B"), (89, 90)))
    lines = [line.split() for line in printed.splitlines()]
    ops = ("rms_norm", "gated_rms_norm", "swiglu", "attention_prologue", "output_gate")
    for op in (
        *ops,
        "delta_decode",
        "delta_prefill",
        "delta_ring",
        "copy_slots",
        "sample",
        "mask_logits",
        "logprobs",
    ):
        assert {line[2] for line in lines if line[0] == op} == {"89", "90"}, op
    prompt = {line[2]: line[7].rstrip(",") for line in lines if line[0] == "paged_prefill_attention"}
    assert prompt == {"89": "mma.sync", "90": "wgmma.mma_async"}


def test_pointers_alone_end_in_ptr_and_options_name_arguments_that_exist() -> None:
    def tracer(
        kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        for name, value in zip(kernel.arg_names, arguments, strict=False):
            assert name.endswith("_ptr") == (value is None or isinstance(value, Tensor)), (kernel, name)
        # Triton would pass over a name that is none of the kernel's.
        named = {*kernel.do_not_specialize, *kernel.do_not_specialize_on_alignment}
        assert named <= set(kernel.arg_names), kernel

    with traced(tracer):
        for _, call in cases(MODELS["Qwen3.5-9B"]):
            call()


ODD_STEPS = """
import torch
from functools import partial
from kernels.aot import compile_launches
from kernels.paged_decode_attention import paged_decode_attention
from kernels.paged_prefill_attention import paged_prefill_attention

half, whole = (partial(torch.empty, device="meta", dtype=t) for t in (torch.bfloat16, torch.int64))
digests = set()
for rows, columns in ((64, 1), (64, 7), (63, 16), (65, 17), (80, 512)):
    pages, q = half(4, 64, 4, 256), half(rows, 16, 256)
    given = q, pages, pages, whole(rows, columns + 1)[:, 1:], whole(rows)
    digests |= {c.digest for c in compile_launches("", partial(paged_decode_attention, *given, 0.1), 90)}
    given = *given, whole(rows + 1)
    digests |= {c.digest for c in compile_launches("", partial(paged_prefill_attention, *given, 0.1), 90)}
print(len(digests))
"""


def test_odd_counts_of_rows_and_pages_compile_nothing_anew() -> None:
    assert int(run("-c", ODD_STEPS)) == 3, "decode, merge and prompt are one compilation each"


@pytest.mark.real
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("arch", [80, 89, 90, 100])
def test_kernels_of_every_model_compile(model: str, arch: int) -> None:
    assert f" {arch} " in table(model, arch)
