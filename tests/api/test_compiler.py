"""Where heavy work is done: beside the loop, and only so much of it at a time."""

import asyncio
import threading

import anthropic
import pytest

from node.api.compiler import Compiler
from node.api.errors import ApiError
from tests.node_under_test import KEY, MODEL, running_node

MOST_WAITING = 2**20


def test_schemas_wait_up_to_a_bound_of_bytes_and_one_is_always_let_in() -> None:
    async def test() -> None:
        gate = threading.Event()
        with Compiler(MOST_WAITING) as compiler:
            first = asyncio.ensure_future(compiler.run(gate.wait, MOST_WAITING * 2))
            await asyncio.sleep(0)
            with pytest.raises(ApiError) as caught:
                await compiler.run(gate.wait, 1)
            assert caught.value.code == "overloaded"
            gate.set()
            assert await first
            half = MOST_WAITING // 2
            assert await asyncio.gather(*[compiler.run(gate.wait, half) for _ in range(2)]) == [True, True]

    asyncio.run(test())


@pytest.mark.parametrize(("size", "thread"), [(10, "loop"), (20_000, "worker")])
def test_large_bodies_are_read_and_rendered_beside_the_loop(
    size: int, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node("ok", context=32_768, pages=1024) as node:
        seen: set[str] = set()
        plain = node.chat._writer.write

        def write(conversation):
            seen.add("loop" if _in_loop() else "worker")
            return plain(conversation)

        monkeypatch.setattr(node.chat._writer, "write", write)
        sdk = anthropic.Anthropic(base_url=node.base_url, api_key=KEY, max_retries=0)
        sdk.messages.create(
            model=MODEL, max_tokens=3, messages=[{"role": "user", "content": "a " * (size // 2)}]
        )
        assert seen == {thread}


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
