"""The model of the device, the traces, and the real scheduler between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from node.engine.recording import Recorder
from node.engine.roofline import H200, QWEN3_5_9B, decode_plan, prefill_plan
from node.engine.scheduler import Budget
from node.engine.simulate import Setup, replay, simulate
from node.engine.trace import TraceError, TraceRequest, read_trace, text_ids, write_trace
from tests.engine.drive import Drive, random_ids

TRACES = Path(__file__).parents[2] / "bench" / "traces"
SMALL = Setup(pages=600, cached_states=16, budget=Budget(16, 4096, 512))


@pytest.mark.parametrize(
    ("rows", "milliseconds"), [(1, 3.73), (8, 4.01), (32, 4.96), (64, 6.22), (128, 8.76), (256, 13.82)]
)
def test_a_decode_step_takes_what_was_calculated_by_hand(rows: int, milliseconds: float) -> None:
    """Of Qwen3.5-9B at 2k of context on an H200."""
    seconds = QWEN3_5_9B.step_seconds(decode_plan(rows, 2048), H200)
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.01)


@pytest.mark.parametrize(("tokens", "rate"), [(1024, 56_200), (8192, 54_400), (32_768, 49_000)])
def test_a_prompt_takes_what_was_calculated_by_hand(tokens: int, rate: float) -> None:
    seconds = QWEN3_5_9B.step_seconds(prefill_plan(tokens), H200)
    assert tokens / seconds == pytest.approx(rate, rel=0.02)


def test_copies_of_slots_and_more_context_cost_bytes() -> None:
    plain, copying = decode_plan(4, 100), replace(decode_plan(4, 100), saves=np.array([[1, 2]]))
    assert QWEN3_5_9B.step_bytes(copying) - QWEN3_5_9B.step_bytes(plain) == 2 * QWEN3_5_9B.state_bytes
    assert QWEN3_5_9B.step_bytes(decode_plan(4, 101)) > QWEN3_5_9B.step_bytes(plain)


def test_a_trace_reads_as_it_was_written(tmp_path: Path) -> None:
    requests = [
        TraceRequest("a", 0.5, (("x", 100), ("y", 20)), 30, "org", (100, 120)),
        TraceRequest("b", 1.0, (("z", 7),), 1, after="a", kept=140),
    ]
    write_trace(tmp_path / "trace", requests)
    assert read_trace(tmp_path / "trace") == requests
    assert requests[1].length == 147
    assert text_ids("x", 50).tolist() == text_ids("x", 100)[:50].tolist()
    (tmp_path / "other").write_text("no trace\n")
    with pytest.raises(TraceError, match="neither a trace nor a recording"):
        read_trace(tmp_path / "other")


def conversation(name: str, turns: int) -> list[TraceRequest]:
    requests = []
    for turn in range(turns):
        parts = (("system", 1000),) if turn == 0 else ((f"{name}{turn}", 50),)
        kept = 0 if turn == 0 else 1000 + 70 * turn - 50
        before = f"{name}.{turn - 1}" if turn else None
        end = kept + parts[0][1]
        requests.append(
            TraceRequest(f"{name}.{turn}", 0.1 * (not turn), parts, 20, name, (end,), before, kept)
        )
    return requests


def test_a_conversation_runs_only_what_each_turn_adds() -> None:
    requests = conversation("c", 10)
    outcome = replay(requests, SMALL)
    assert len(outcome.lives) == 10
    assert outcome.counts.sampled == 200
    assert all(len(life.tokens) == 20 for life in outcome.lives)
    assert outcome.counts.prompt <= 1000 + 9 * (70 + 64)
    cold = replay(requests, replace(SMALL, reuse=False))
    assert cold.counts.reused == 0
    assert cold.counts.prompt == sum(request.length for request in requests)
    assert cold.seconds > outcome.seconds


def test_a_turn_waits_for_the_answer_before_it() -> None:
    lives = {life.request.id: life for life in replay(conversation("c", 3), SMALL).lives}
    assert lives["c.1"].arrived == lives["c.0"].tokens[-1]
    assert lives["c.1"].prompt[:1020].tolist() == [*lives["c.0"].prompt, *lives["c.0"].answer]


def test_fairness_is_what_keeps_a_flood_from_others() -> None:
    flood = [TraceRequest(f"f{n}", 0.0, ((f"f{n}", 3000),), 10, "flood") for n in range(60)]
    quiet = [TraceRequest(f"q{n}", 0.1, ((f"q{n}", 500),), 10, "quiet") for n in range(4)]
    fair = replay([*flood, *quiet], SMALL).firsts("quiet").max()
    unfair = replay([*flood, *quiet], replace(SMALL, fair=False)).firsts("quiet").max()
    assert fair < unfair / 4


def test_a_recording_is_replayed_as_it_came(tmp_path: Path) -> None:
    drive, recorder = Drive(), Recorder(tmp_path / "record")
    for n in range(3):
        sequence = drive.add(random_ids(1, 200) + random_ids(n, 20), 5)
        recorder.arrival(sequence)
    while drive.scheduler.has_work:
        step, progress = drive.turn()
        assert step is not None
        recorder.plan(step)
        recorder.progress(progress)
    recorder.close()
    requests = read_trace(tmp_path / "record")
    assert [(request.length, request.output) for request in requests] == [(220, 5)] * 3
    outcome = replay(requests, SMALL)
    assert outcome.counts.reused == 2 * 192
    assert "hit rate" in simulate(tmp_path / "record", SMALL)


def test_the_traces_are_those_that_their_script_makes(tmp_path: Path) -> None:
    from bench.traces.make import agents, chat

    for name, requests in (("chat", chat()), ("agent", agents())):
        assert read_trace(TRACES / f"{name}.jsonl") == requests
        assert all(request.length + request.output <= Setup().context for request in requests)
