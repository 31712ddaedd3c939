"""200 clients at once on the demo model over HTTP: some leave, all others get what each would get alone."""

import asyncio
import contextlib
import random
import re
from pathlib import Path

import anthropic
import pytest

from tests.app.test_cli import start

pytestmark = pytest.mark.real
CLIENTS = 200
TOKENS = 24
QUESTIONS = [f"Count from {first} to {first + 4}." for first in range(1, 26)] + [
    "Say OK",
    "hi",
    "Name one river in Oregon.",
]


async def ask(sdk: anthropic.AsyncAnthropic, question: str, stream: bool) -> str:
    request = {
        "model": "b3os/demo",
        "max_tokens": TOKENS,
        "messages": [{"role": "user", "content": question}],
        "extra_body": {"temperature": 0},
    }
    if stream:
        async with sdk.messages.stream(**request) as streamed:
            message = await streamed.get_final_message()
    else:
        message = await sdk.messages.create(**request)
    return "".join(part.text for part in message.content)


async def storm(base_url: str, key: str) -> tuple[int, int]:
    """(answers that were right, clients that left)"""
    limits = anthropic.DefaultAsyncHttpxClient(timeout=300)
    async with anthropic.AsyncAnthropic(
        base_url=base_url, api_key=key, max_retries=0, http_client=limits
    ) as sdk:
        alone = {question: await ask(sdk, question, False) for question in QUESTIONS}
        dice = random.Random(7)

        async def client(number: int) -> bool | None:
            question, stream, leaves = dice.choice(QUESTIONS), dice.random() < 0.5, dice.random() < 0.3
            task = asyncio.ensure_future(ask(sdk, question, stream))
            if leaves:
                await asyncio.sleep(dice.random() * 5)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                return None
            return await task == alone[question]

        answers = await asyncio.gather(*[client(number) for number in range(CLIENTS)])
        again = {question: await ask(sdk, question, True) for question in QUESTIONS[:5]}
        assert again == {question: alone[question] for question in again}
        return answers.count(True), answers.count(None)


def test_two_hundred_clients_who_come_and_go(tmp_path: Path) -> None:
    process, lines = start(tmp_path, "--port", "0", "--dtype", "float32")
    told = "".join(lines)
    base_url = re.search(r"base URL\s+(\S+)", told)
    key = re.search(r"key\s+(\S+)", told)
    assert base_url is not None
    assert key is not None
    right, left = asyncio.run(storm(base_url[1], key[1]))
    print(f"\n{right} answers equal to the one alone, {left} clients left")
    assert right + left == CLIENTS
    assert left > 30
    process.terminate()
    assert process.wait(30) == 0
    log = process.stderr.read() if process.stderr else ""
    assert "Traceback" not in log
    assert "CRITICAL" not in log  # the audit of pages and slots runs whenever the engine is idle
