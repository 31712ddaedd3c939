"""The runner: plans in, sampled ids out."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from node.engine.plan import StepPlan
from node.model.qwen import Qwen
from node.run.batch import batch_of
from node.run.load import load_model, warm_up
from node.run.model_runner import ModelRunner
from tests.model import tiny
from tests.model.drive import Drive

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Qwen:
    folder = tiny.write(tmp_path_factory.mktemp("tiny"), tiny.CONFIGS["qwen3_5"])
    return load_model(folder, torch.float32, "cpu")


def plan_of(drive: Drive) -> StepPlan:
    """Two rows that decode and one chunk, of which the second and the third sample."""
    first, second, third = drive.begin([5, 6]), drive.begin([7]), drive.begin(list(range(9)))
    return drive.plan([(third, 9), (first, 1), (second, 1)])[0]


def test_run_gives_one_id_a_sampled_row_in_order(model: Qwen) -> None:
    drive = Drive(model)
    plan = plan_of(drive)
    assert plan.sample_rows.tolist() == [1, 2]
    ids = drive.runner.run(plan)
    assert ids.dtype == np.int64
    alone = [Drive(model).generate([prompt], 99, 1)[0].generated[0] for prompt in ([7], list(range(9)))]
    assert ids.tolist() == alone


def test_only_sampled_rows_meet_the_head(model: Qwen, monkeypatch: pytest.MonkeyPatch) -> None:
    drive, seen, plain = Drive(model), [], model.logits
    monkeypatch.setattr(model, "logits", lambda hidden: (seen.append(len(hidden)), plain(hidden))[1])
    plan = plan_of(drive)
    drive.runner.run(plan)
    assert seen == [2]
    none = {
        name: getattr(plan, name)[:0] for name in ("sample_rows", "temperature", "top_p", "top_k", "seeds")
    }
    assert drive.runner.run(dataclasses.replace(plan, **none)).tolist() == []
    assert seen == [2]


def test_the_seed_and_position_choose_and_the_batch_does_not(model: Qwen) -> None:
    drive = Drive(model)
    plan = plan_of(drive)
    hot = dataclasses.replace(
        plan, temperature=np.full(2, 1.5, np.float32), seeds=np.array([1 << 63, 3], np.uint64)
    )
    logits = torch.zeros(2, tiny.VOCAB)
    ids = drive.runner.sample(hot, logits).tolist()
    swapped = dataclasses.replace(hot, sample_rows=hot.sample_rows[::-1], seeds=hot.seeds[::-1].copy())
    assert drive.runner.sample(swapped, logits).tolist() == ids[::-1]


def test_ids_beyond_the_vocabulary_are_not_sampled(model: Qwen) -> None:
    drive = Drive(Qwen(model.config, model._weights, vocabulary=3))
    (sequence,) = drive.generate([[1, 2, 3]], 99, 20)
    assert set(sequence.generated) <= {0, 1, 2}


def test_a_fresh_row_starts_from_an_empty_slot_and_leaves_the_others(model: Qwen) -> None:
    drive = Drive(model)
    cache = drive.runner.cache
    plan, (sequence,) = drive.plan([(drive.begin([4]), 1)])
    drive.runner.run(plan)
    touched = (~cache.states.isnan()).flatten(2).any(-1).any(0).nonzero().flatten().tolist()
    assert touched == [sequence.slot]
    assert sequence.slot != 0


def test_batches_send_each_token_to_its_slot(model: Qwen) -> None:
    drive = Drive(model)
    sequence = drive.begin(list(range(70)))
    drive.step([(sequence, 63)])
    plan, _ = drive.plan([(sequence, 3)])
    batch = batch_of(plan, CPU)
    first, second = sequence.pages
    assert batch.slot_mapping.tolist() == [first * 64 + 63, second * 64, second * 64 + 1]
    assert batch.decode is None
    assert batch.prefill is not None
    assert batch.prefill.context_lengths.tolist() == [66]


def test_positions_that_agree_on_three_axes_are_the_positions(model: Qwen) -> None:
    plan = plan_of(Drive(model))
    on_axes = dataclasses.replace(plan, rope_positions=np.stack([plan.positions] * 3))
    assert torch.equal(batch_of(plan, CPU).positions, torch.from_numpy(plan.positions))
    assert torch.equal(batch_of(on_axes, CPU).positions, torch.from_numpy(on_axes.rope_positions))
    assert torch.equal(Drive(model).runner.forward(plan), Drive(model).runner.forward(on_axes))


def test_rows_out_of_order_are_refused(model: Qwen) -> None:
    plan = plan_of(Drive(model))
    with pytest.raises(ValueError, match="cu_seqlens"):
        batch_of(dataclasses.replace(plan, cu_seqlens=np.array([0, 9, 10, 11])), CPU)
    with pytest.raises(ValueError, match="cu_seqlens"):
        batch_of(dataclasses.replace(plan, cu_seqlens=np.array([0, 1, 1, 11])), CPU)


def test_the_cache_takes_what_the_configuration_says(model: Qwen) -> None:
    config = model.config
    runner = ModelRunner(model, pages=3, state_slots=2, device="cpu")
    assert runner.cache.bytes == 3 * 64 * config.kv_bytes_per_token(4) + 2 * config.slot_bytes(4)


@pytest.mark.parametrize("kind", sorted(tiny.CONFIGS))
def test_warm_up_needs_only_the_scratch_page_and_slot(tmp_path: Path, kind: str) -> None:
    model = load_model(tiny.write(tmp_path, tiny.CONFIGS[kind]), torch.bfloat16, "cpu")
    warm_up(ModelRunner(model, pages=1, state_slots=1, device="cpu"))


def test_whichever_thread_runs_steps_has_no_denormals(model: Qwen) -> None:
    runner, found = ModelRunner(model, pages=1, state_slots=1, device="cpu"), []

    def engine() -> None:
        warm_up(runner)
        found.append(float((torch.full((64,), 1e-30) * 1e-10).max()))

    thread = threading.Thread(target=engine)
    thread.start()
    thread.join()
    assert found == [0.0]
