"""The numbers that engine, model and kernels share: read without torch, and really shared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.constants import PAGE
from kernels.delta_rule_cases import delta_cases
from kernels.device import traced, triton
from node.model.cache import Cache
from node.model.families import parse_config
from tests.kernels.processes import run
from tests.model import tiny


@pytest.mark.parametrize("module", ["kernels.constants", "node.engine.plan", "node.model.config"])
def test_who_reads_a_constant_loads_no_torch(module: str) -> None:
    run(
        "-c",
        f"import {module}, sys; assert not {{'torch', 'triton'}} & sys.modules.keys(), sorted(sys.modules)",
    )


@pytest.mark.skipif(triton is None, reason="looks at launches of Triton kernels, and there is no Triton here")
def test_a_page_of_the_cache_is_a_chunk_of_the_delta_rule() -> None:
    config = parse_config(tiny.CONFIGS["qwen3_5"])
    cache = Cache.allocate(config, 2, 2, torch.float32, torch.device("cpu"))
    chunks = []

    def tracer(
        kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        chunks.append(options.get("CHUNK"))

    with traced(tracer):
        dict(delta_cases(2, 4))["delta_prefill"]()
    assert {cache.k_pages.shape[2], *chunks} == {PAGE}
