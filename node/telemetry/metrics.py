"""What GET /metrics answers, in Prometheus' text format.

Names in vllm: mean what vLLM means by them, so that the routers, harnesses and dashboards that read vLLM read
this node; what vLLM has no name for is in b3os_. Nothing is counted here: a scrape renders the engine's last
snapshot, and what it costs does not grow with what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from node.telemetry.snapshot import EngineSnapshot

# What the library gives to whoever asks for nothing, version 0.0.4: every scraper reads it, so none is asked.
_encode, CONTENT_TYPE = choose_encoder("")


class Metrics:
    """The collector of the one engine, and what of the process is not the engine's to know.

    model     what requests call it
    page      tokens in a page
    memory    planned bytes, by part
    snapshot  the engine's last
    compiles  kernels that were prepared after the node was ready: must stay 0
    """

    def __init__(
        self,
        model: str,
        page: int,
        memory: Mapping[str, int],
        snapshot: Callable[[], EngineSnapshot],
        compiles: Callable[[], int],
    ) -> None:
        self._labels = {"model_name": model, "engine": "0"}  # vLLM's own, which its readers select by
        self._page = page
        self._memory = memory
        self._snapshot = snapshot
        self._compiles = compiles
        self._seen: tuple[EngineSnapshot, int] | None = None
        self._told = b""

    def text(self) -> bytes:
        """The exposition, as CONTENT_TYPE says. Rendered once a snapshot: whoever asks without a key may ask often."""
        seen = self._snapshot(), self._compiles()
        if seen != self._seen:
            self._seen, self._told = seen, _encode(self)
        return self._told

    def collect(self) -> Iterator[Metric]:
        """The families, as a registry of prometheus_client would ask for them."""
        now = self._snapshot()
        yield from self._vllm(now)
        yield from self._own(now)

    def _vllm(self, now: EngineSnapshot) -> Iterator[Metric]:
        prompts = now.prompt_tokens + now.reused_tokens
        yield self._gauge("num_requests_running", "Requests that have begun and not ended.", now.running)
        yield self._gauge("num_requests_waiting", "Requests that wait to begin or to go on.", now.waiting)
        told = "Share that requests hold of the pages of KV, or of the slots where it is greater; 1 is all."
        yield self._gauge("kv_cache_usage_perc", told, now.usage)
        told = "Tokens in a page of KV (block_size), and how many pages there are (num_gpu_blocks)."
        blocks = str(now.pages_total)
        yield self._gauge("cache_config_info", told, 1, block_size=str(self._page), num_gpu_blocks=blocks)
        yield self._counter("prompt_tokens", "Tokens of prompts, run or reused.", prompts)
        yield self._counter("generation_tokens", "Tokens that were sampled.", now.sampled_tokens)
        yield self._counter("prefix_cache_queries", "Tokens of prompts: all are looked for.", prompts)
        told = "Tokens of prompts that were not run, because an earlier request had run them."
        yield self._counter("prefix_cache_hits", told, now.reused_tokens)
        yield self._counter(
            "num_preemptions", "Times a request was preempted by older ones.", now.preemptions
        )

    def _own(self, now: EngineSnapshot) -> Iterator[Metric]:
        pages = {"held": now.pages_held, "idle": now.pages_idle, "free": now.pages_free - now.pages_idle}
        state_slots = {"held": now.state_slots_held, "free": now.state_slots_left}
        cached_states = {"kept": now.cached_states, "free": now.cached_states_total - now.cached_states}
        told = (
            "Pages of KV that requests hold, that are idle (kept for reuse until they are needed), or free."
        )
        yield _divided("b3os_pages", told, "state", pages)
        told = "Slots of recurrent state for requests; none where the model has no delta layers."
        yield _divided("b3os_state_slots", told, "state", state_slots)
        yield _divided("b3os_cached_states", "Slots that keep the ends of prefixes.", "state", cached_states)
        yield _divided("b3os_memory_plan_bytes", "Memory of the device, as planned.", "part", self._memory)
        yield CounterMetricFamily("b3os_steps", "Forward passes, failed ones included.", now.steps)
        told = "Forward passes that failed since one was completed."
        yield GaugeMetricFamily("b3os_failed_steps_in_a_row", told, now.failures)
        told = "Tokens run again, because their request had been preempted."
        yield CounterMetricFamily("b3os_recomputed_tokens", told, now.recomputed_tokens)
        told = "Kernels prepared after the node was ready, each while a request waited; must stay 0."
        yield CounterMetricFamily("b3os_compiles_after_ready", told, self._compiles())

    def _gauge(self, name: str, told: str, value: float, **more: str) -> Metric:
        labels = self._labels | more
        family = GaugeMetricFamily(f"vllm:{name}", told, labels=list(labels))
        family.add_metric(list(labels.values()), value)
        return family

    def _counter(self, name: str, told: str, value: int) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", told, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family


def _divided(name: str, told: str, label: str, values: Mapping[str, int]) -> Metric:
    """A gauge whose samples are the parts of one whole."""
    family = GaugeMetricFamily(name, told, labels=[label])
    for part, value in values.items():
        family.add_metric([part], value)
    return family
