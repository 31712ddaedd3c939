"""GET /metrics of a whole node."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kernels.device import triton
from node.access.keys import Keyring
from node.api.routes import loading_routes, render_error
from node.app import Node
from node.chat.chat import Chat
from node.device import choose_context, memory_plan, read_config
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.scheduler import Budget, Scheduler
from node.http.limits import HttpLimits
from node.http.server import Server
from node.settings import Settings
from tests.node_under_test import DEMO, KEY, MODEL, RunningNode, ScriptedRunner, running_node

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
HEAD = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
LONG = "Tell me about the rivers of Oregon, and about each of their sources. " * 8


def request(
    port: int, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, "/metrics", headers=headers or {})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def values(text: str) -> dict[str, float]:
    """By the name of the sample and, where it says one, its state or part."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    parts = [sample.labels.get("state", sample.labels.get("part", "")) for sample in samples]
    return {f"{s.name} {part}".rstrip(): s.value for s, part in zip(samples, parts, strict=True)}


def ask(node: RunningNode, text: str, limit: int = 64) -> dict[str, int]:
    """The usage of a whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    body = {"model": MODEL, "max_tokens": limit, "messages": [{"role": "user", "content": text}]}
    connection.request("POST", "/v1/infer/v1/messages", json.dumps(body), HEAD)
    usage: dict[str, int] = json.loads(connection.getresponse().read())["usage"]
    connection.close()
    return usage


def until(condition: Callable[[], bool]) -> None:
    """Wait for it; fails after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_counters_equal_what_usage_said() -> None:
    with running_node("Yes.", "No, not at all.", "Maybe.") as node:
        before = values(request(node.port)[1])
        told = [ask(node, text) for text in (LONG, "hi", LONG)]
        node.wait_until_idle()
        after = values(request(node.port)[1])
        assert before["vllm:prompt_tokens_total"] == before["b3os_steps_total"] == 0
        run, reused, sampled = (
            sum(usage[name] for usage in told)
            for name in ("input_tokens", "cache_read_input_tokens", "output_tokens")
        )
        assert reused > 0
        assert after["vllm:prompt_tokens_total"] == after["vllm:prefix_cache_queries_total"] == run + reused
        assert after["vllm:prefix_cache_hits_total"] == reused
        assert after["vllm:generation_tokens_total"] == sampled
        assert after["b3os_steps_total"] == node.runner.steps
        assert after["b3os_pages idle"] == node.engine.snapshot.pages_idle > 0
        assert after["vllm:kv_cache_usage_perc"] == after["b3os_pages held"] == 0


def test_what_runs_and_what_waits_is_told_while_it_does() -> None:
    with running_node("on and " * 40, seconds=0.02) as node, ThreadPoolExecutor(20) as clients:
        node.runner.gate.clear()
        asked = [clients.submit(ask, node, f"{number}?") for number in range(20)]
        until(lambda: node.engine.live == 20)
        node.runner.gate.set()
        until(lambda: node.engine.snapshot.waiting == 4)
        now = values(request(node.port)[1])
        assert now["vllm:num_requests_running"] == now["b3os_state_slots held"] == 16
        assert now["vllm:num_requests_waiting"] == 4
        assert now["vllm:kv_cache_usage_perc"] == 1.0  # of the slots
        assert [future.result()["output_tokens"] for future in asked] == [64] * 20
        node.wait_until_idle()
        now = values(request(node.port)[1])
        assert now["vllm:num_requests_waiting"] == now["vllm:num_requests_running"] == 0


def test_failed_steps_are_told_until_one_completes() -> None:
    with running_node("ok") as node:
        node.runner.failures = 1
        with pytest.raises(KeyError):  # an error has no usage
            ask(node, "hi")
        assert values(request(node.port)[1])["b3os_failed_steps_in_a_row"] == 1
        ask(node, "hi")
        assert values(request(node.port)[1])["b3os_failed_steps_in_a_row"] == 0


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text;version=1.0.0", "image/png", "\x80;;="])
def test_it_is_one_format_for_everyone_and_no_key(accept: str) -> None:
    with running_node() as node:
        response, body = request(node.port, headers={"accept": accept})
        assert (response.status, response.getheader("content-type")) == (200, PLAIN)
        assert body.startswith("# HELP vllm:num_requests_running ")
        response, body = request(node.port, "HEAD")
        assert (response.status, response.getheader("content-type"), body) == (200, PLAIN, "")
        response, body = request(node.port, "POST")
        assert (response.status, json.loads(body)["b3os"]["code"]) == (405, "method_not_allowed")


def test_while_the_weights_load_there_are_no_numbers_rather_than_zeros() -> None:
    async def serve() -> None:
        server = Server(loading_routes(), render_error, Settings().part(HttpLimits))
        await server.start("127.0.0.1", 0)
        response, body = await asyncio.to_thread(request, server.port)
        assert (response.status, response.getheader("retry-after")) == (503, "5")
        assert json.loads(body)["b3os"]["code"] == "model_loading"
        await server.shutdown(1.0)

    asyncio.run(serve())


def test_the_process_hands_over_its_plan_and_its_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    if triton is not None:
        monkeypatch.setattr(triton.knobs.compilation, "listener", None)
    settings = Settings(model=DEMO, device="cpu", device_memory=2**30)
    config = read_config(settings)
    plan = memory_plan(settings, config)
    node = Node(
        settings,
        config,
        plan,
        choose_context(settings, config),
        Chat.read(DEMO),
        Keyring(frozenset()),
    )
    scheduler = Scheduler(plan.pages, plan.state_slots, 1024, Budget(plan.sequences), True)
    limits = settings.part(EngineLimits)
    metrics = node._metrics(Engine(scheduler, ScriptedRunner([[]], 0, plan.pages), limits))
    node.compiles.total = 7
    node.compiles.ready()
    told = values(metrics.text().decode())
    assert told["b3os_compiles_after_ready_total"] == 0
    assert [told[f"b3os_memory_plan_bytes {part}"] for part in ("weights", "workspace", "state", "kv")] == [
        plan.weights,
        plan.workspace,
        plan.state,
        plan.kv,
    ]
    assert sum(size for name, size in told.items() if name.startswith("b3os_memory")) == plan.total
    assert told["b3os_pages free"] == plan.pages
    assert told["b3os_state_slots free"] + told["b3os_cached_states free"] == plan.state_slots
    node.compiles.total += 1
    assert values(metrics.text().decode())["b3os_compiles_after_ready_total"] == 1
