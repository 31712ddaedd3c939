"""The exposition of one snapshot, to the byte."""

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from node.telemetry.metrics import CONTENT_TYPE, Metrics
from node.telemetry.snapshot import EngineSnapshot

SNAPSHOT = EngineSnapshot(
    running=3,
    waiting=2,
    pages_free=48,
    pages_idle=18,
    pages_total=64,
    state_slots_free=9,
    state_slots_total=12,
    cached_states=1,
    cached_states_total=4,
    steps=41,
    prompt_tokens=500,
    sampled_tokens=70,
    reused_tokens=128,
    recomputed_tokens=64,
    preemptions=1,
    failures=0,
)
MEMORY = {"weights": 1000, "kv": 2_500_000}
EXPOSITION = """\
# HELP vllm:num_requests_running Requests that have begun and not ended.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="b3os/demo"} 3.0
# HELP vllm:num_requests_waiting Requests that wait to begin or to go on.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="b3os/demo"} 2.0
# HELP vllm:kv_cache_usage_perc Share that requests hold of the pages of KV, or of the slots where it is greater; \
1 is all.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="b3os/demo"} 0.375
# HELP vllm:cache_config_info Tokens in a page of KV (block_size), and how many pages there are (num_gpu_blocks).
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="64",engine="0",model_name="b3os/demo",num_gpu_blocks="64"} 1.0
# HELP vllm:prompt_tokens_total Tokens of prompts, run or reused.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="b3os/demo"} 628.0
# HELP vllm:generation_tokens_total Tokens that were sampled.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="b3os/demo"} 70.0
# HELP vllm:prefix_cache_queries_total Tokens of prompts: all are looked for.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="b3os/demo"} 628.0
# HELP vllm:prefix_cache_hits_total Tokens of prompts that were not run, because an earlier request had run them.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="b3os/demo"} 128.0
# HELP vllm:num_preemptions_total Times a request was preempted by older ones.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="b3os/demo"} 1.0
# HELP b3os_pages Pages of KV that requests hold, that are idle (kept for reuse until they are needed), or free.
# TYPE b3os_pages gauge
b3os_pages{state="held"} 16.0
b3os_pages{state="idle"} 18.0
b3os_pages{state="free"} 30.0
# HELP b3os_state_slots Slots of recurrent state for requests; none where the model has no delta layers.
# TYPE b3os_state_slots gauge
b3os_state_slots{state="held"} 3.0
b3os_state_slots{state="free"} 5.0
# HELP b3os_cached_states Slots that keep the ends of prefixes.
# TYPE b3os_cached_states gauge
b3os_cached_states{state="kept"} 1.0
b3os_cached_states{state="free"} 3.0
# HELP b3os_memory_plan_bytes Memory of the device, as planned.
# TYPE b3os_memory_plan_bytes gauge
b3os_memory_plan_bytes{part="weights"} 1000.0
b3os_memory_plan_bytes{part="kv"} 2.5e+06
# HELP b3os_steps_total Forward passes, failed ones included.
# TYPE b3os_steps_total counter
b3os_steps_total 41.0
# HELP b3os_failed_steps_in_a_row Forward passes that failed since one was completed.
# TYPE b3os_failed_steps_in_a_row gauge
b3os_failed_steps_in_a_row 0.0
# HELP b3os_recomputed_tokens_total Tokens run again, because their request had been preempted.
# TYPE b3os_recomputed_tokens_total counter
b3os_recomputed_tokens_total 64.0
# HELP b3os_compiles_after_ready_total Kernels prepared after the node was ready, each while a request waited; must \
stay 0.
# TYPE b3os_compiles_after_ready_total counter
b3os_compiles_after_ready_total 5.0
"""


def metrics(snapshot: EngineSnapshot, model: str = "b3os/demo") -> Metrics:
    return Metrics(model, 64, MEMORY, lambda: snapshot, lambda: 5)


def test_the_text_of_a_snapshot() -> None:
    assert metrics(SNAPSHOT).text().decode() == EXPOSITION
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_every_family_is_named_and_typed_once() -> None:
    families = [(f.name, f.type) for f in text_string_to_metric_families(EXPOSITION)]
    assert len(families) == len(dict(families)) == EXPOSITION.count("# HELP") == EXPOSITION.count("# TYPE")
    assert {name for name, kind in families if kind == "counter"} == {
        "vllm:prompt_tokens",
        "vllm:generation_tokens",
        "vllm:prefix_cache_queries",
        "vllm:prefix_cache_hits",
        "vllm:num_preemptions",
        "b3os_steps",
        "b3os_recomputed_tokens",
        "b3os_compiles_after_ready",
    }


def test_a_scrape_sees_the_snapshot_of_its_moment() -> None:
    snapshots = [replace(SNAPSHOT, failures=2), SNAPSHOT]
    scraped = Metrics("b3os/demo", 64, {}, lambda: snapshots[-1], lambda: 0)
    assert b"\nb3os_failed_steps_in_a_row 0.0\n" in scraped.text()
    snapshots.pop()
    assert b"\nb3os_failed_steps_in_a_row 2.0\n" in scraped.text()


def test_a_name_cannot_break_out_of_its_label() -> None:
    told = metrics(SNAPSHOT, 'b3os/"x\\y\n# TYPE').text().decode()
    names = {s.labels.get("model_name") for f in text_string_to_metric_families(told) for s in f.samples}
    assert names == {'b3os/"x\\y\n# TYPE', None}


@pytest.mark.parametrize(
    ("more", "usage"),
    [
        ({}, 3 / 8),  # slots, of which cached states have four more
        ({"pages_free": 16}, 48 / 64),
        ({"state_slots_free": 4}, 1.0),  # all that is left is kept for cached states
        (
            {"state_slots_free": 0, "state_slots_total": 0, "cached_states": 0, "cached_states_total": 0},
            16 / 64,
        ),  # no slots
    ],
)
def test_usage_is_of_what_runs_out_first(more: dict[str, int], usage: float) -> None:
    assert replace(SNAPSHOT, **more).usage == usage
