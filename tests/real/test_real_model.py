"""A published model, served and asked. `make check-real` with B3OS_REAL_MODEL naming a Qwen2.5 instruct folder."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anthropic
import numpy as np
import pytest
import torch

FOLDER = Path(os.environ.get("B3OS_REAL_MODEL", ""))
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (FOLDER / "config.json").exists(), reason="B3OS_REAL_MODEL names no checkpoint"),
]
NAME = "b3os/" + FOLDER.name.lower()
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
TOKENS = 12


@contextmanager
def served(tmp_path: Path, *flags: str) -> Iterator[dict[str, str]]:
    """The node in a process of its own; yields what an SDK needs to reach it."""
    command = [
        sys.executable,
        "-m",
        "node",
        "serve",
        "--model",
        str(FOLDER),
        "--device",
        "cpu",
        "--port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, "--context", "2048", "--api-key", "real", *flags],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        base = next(line.split()[-1] for line in process.stdout if line.startswith("base URL"))
        yield {"base_url": base, "api_key": "real"}
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_it_knows_the_capital_of_france(tmp_path: Path) -> None:
    with served(tmp_path, "--dtype", "bfloat16") as reach:
        sdk = anthropic.Anthropic(**reach)
        with sdk.messages.stream(
            model=NAME, max_tokens=40, messages=FRANCE, extra_body={"temperature": 0}
        ) as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        print(f"\n{text!r} {message.stop_reason} {message.usage.input_tokens} {message.usage.output_tokens}")
        assert "Paris" in text
        assert message.stop_reason == "end_turn"


def test_eight_streams_at_once_get_what_each_gets_alone(tmp_path: Path) -> None:
    prompts = [f"Write the number {n} in words, then in French." for n in range(11, 19)]

    async def ask(sdk: anthropic.AsyncAnthropic, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        async with sdk.messages.stream(
            model=NAME, max_tokens=TOKENS, messages=messages, extra_body={"temperature": 0}
        ) as stream:
            return "".join([text async for text in stream.text_stream])

    async def compare(reach: dict[str, str]) -> tuple[list[str], list[str]]:
        async with anthropic.AsyncAnthropic(**reach, timeout=600) as sdk:
            alone = [await ask(sdk, prompt) for prompt in prompts]
            return alone, list(await asyncio.gather(*[ask(sdk, prompt) for prompt in prompts]))

    with served(tmp_path, "--dtype", "float32") as reach:
        alone, together = asyncio.run(compare(reach))
    print(f"\n{together}")
    assert together == alone


def test_logits_equal_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    from kernels.constants import PAGE
    from node.chat.chat import Chat
    from node.chat.conversation import Conversation, Turn
    from node.engine.sampling import Sampling
    from node.engine.scheduler import Budget, Scheduler
    from node.engine.sequence import Sequence
    from node.run.load import load_model
    from node.run.model_runner import ModelRunner

    ids = Chat.read(FOLDER).prompt(Conversation((Turn("user", FRANCE[0]["content"]),), thinking=False)).ids
    runner = ModelRunner(load_model(FOLDER, torch.float32, "cpu"), 8, 3, "cpu")
    scheduler = Scheduler(7, 2, 7 * PAGE, Budget(2, 16, 16), runner.model.config.delta is not None)
    scheduler.add(Sequence("real", np.array(ids), 1, Sampling(temperature=0.0), frozenset()))
    rows = []
    while (step := scheduler.plan()) is not None:
        with torch.inference_mode():
            rows.append(runner.model.logits(runner.forward(step.plan)))
        scheduler.retire(step, rows[-1][-1:].argmax(-1).numpy()[: len(step.plan.sample_rows)])
    ours = torch.cat(rows)
    oracle = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    with torch.inference_mode():
        theirs = oracle(torch.tensor([list(ids)])).logits[0]
    difference = (ours - theirs).abs().max().item()
    print(f"\n{len(ids)} tokens in chunks of 16: largest difference of logits {difference:.1e}")
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))
    assert difference < 2e-3
