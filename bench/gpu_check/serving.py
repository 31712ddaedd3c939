"""A node in this process whose model is the bed's, asked over HTTP by many clients at once."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench.gpu_check.bed import DEMO, Bed
from bench.gpu_check.findings import Finding
from kernels.constants import PAGE
from node.access.keys import Keyring, hash_key
from node.api.compiler import Compiler
from node.api.model_service import ModelService
from node.api.routes import build_routes, render_error
from node.chat.chat import Chat
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.scheduler import Budget, Scheduler
from node.http.limits import HttpLimits
from node.http.server import Server
from node.settings import Settings
from node.telemetry.metrics import Metrics

KEY = "b3os_gpu_check"
SECONDS = 60.0
ASKED = "Tell me about the rivers of Oregon. "


def served(bed: Bed) -> Iterator[Finding]:
    """Answers of random weights mean nothing; that all come whole, and how fast, does."""
    size = bed.size
    started = time.monotonic()
    replies = asyncio.run(_serve(bed))
    took = time.monotonic() - started
    whole = [reply for status, reply, _ in replies if status == 200 and "usage" in reply]
    written = sum(reply["usage"]["output_tokens"] for reply in whole)
    lost = size.clients - len(whole)
    wrong = [f"{status} {reply}" for status, reply, _ in replies if status != 200][:1]
    yield Finding(f"HTTP, {size.clients} clients: not answered", lost, "requests", 0, lost == 0, *wrong)
    yield Finding("HTTP: tokens", written / took, "tokens/s", None, None, f"{written} tokens in {took:.2f} s")
    waits = [seconds for _, _, seconds in replies]
    yield Finding("HTTP: median answer", float(np.median(waits)), "s")
    yield Finding("HTTP: slowest answer", max(waits), "s")


async def _serve(bed: Bed) -> list[tuple[int, dict, float]]:
    size, plan, chat = bed.size, bed.plan, Chat.read(DEMO)
    budget = Budget(size.sequences, size.step_tokens, min(512, size.step_tokens)).with_sequences(
        plan.sequences
    )
    scheduler = Scheduler(plan.pages, plan.state_slots, size.context, budget, bool(plan.slot_bytes))
    settings = Settings()
    ahead = bed.static if bed.device.type == "cuda" else None
    engine = Engine(scheduler, bed.static, settings.part(EngineLimits), ahead)
    engine.start(asyncio.get_running_loop())
    with (
        ThreadPoolExecutor(2) as workers,
        ThreadPoolExecutor(size.clients) as clients,
        Compiler(settings.queue_schema_bytes) as compiler,
    ):
        parts = ModelService(
            name="b3os/check",
            context=size.context,
            created=0,
            width=bed.config.vocab_size,
            stop_ids=frozenset({chat.tokenizer.control["<|im_end|>"]}),
            first_token_timeout=SECONDS,
            queue_timeout=SECONDS,
            chat=chat,
            engine=engine,
            keyring=Keyring(frozenset({hash_key(KEY)})),
            workers=workers,
            compiler=compiler,
        )
        metrics = Metrics(parts.name, PAGE, {}, lambda: engine.snapshot, lambda: bed.compiles.after_ready)
        server = Server(build_routes(parts, metrics), render_error, settings.part(HttpLimits))
        await server.start("127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        asked = [
            loop.run_in_executor(clients, _ask, server.port, n, size.answer) for n in range(size.clients)
        ]
        replies = await asyncio.gather(*asked)
        await server.shutdown(1.0)
    await asyncio.to_thread(engine.stop)
    return list(replies)


def _ask(port: int, number: int, answer: int) -> tuple[int, dict, float]:
    """(status, body, seconds) of one question; every client's is of another length."""
    body = {
        "model": "b3os/check",
        "max_tokens": answer,
        "temperature": 1.0 * (number % 2),
        "messages": [{"role": "user", "content": f"{number}: " + ASKED * (1 + number % 8)}],
    }
    started = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/infer/v1/messages", json.dumps(body), headers)
    response = connection.getresponse()
    reply = json.loads(response.read())
    connection.close()
    return response.status, reply, time.monotonic() - started
