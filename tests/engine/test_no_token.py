"""A row whose logits are no numbers ends alone."""

import asyncio
import logging

import numpy as np
import pytest

from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.plan import NO_TOKEN, GetSamplingMetadata, StepPlan
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Scheduler
from node.engine.sequence import FinishReason, Sequence
from node.settings import Settings
from tests.engine.drive import alone, random_ids
from tests.engine.memory_runner import MemoryRunner, MemoryStepHandle

LIMITS = Settings().part(EngineLimits)
BROKEN = 31  # top_k of the rows whose logits are broken after some tokens


class BrokenHandle(MemoryStepHandle):
    def __init__(self, runner: MemoryRunner, plan: StepPlan) -> None:
        super().__init__(runner, plan)
        self._broken = (plan.top_k == BROKEN) & (plan.sample_positions > 70)

    def sample(self, get_metadata: GetSamplingMetadata) -> None:
        super().sample(get_metadata)
        self._sampled = np.where(self._broken, NO_TOKEN, self._sampled)
        self._runner.last = np.maximum(
            self._sampled, 0
        )  # what stays on the device is an id, whatever happened


class BrokenRunner(MemoryRunner):
    def launch(self, plan: StepPlan) -> MemoryStepHandle:
        return BrokenHandle(self, plan)


@pytest.mark.parametrize("ahead", [False, True])
def test_c17_the_others_of_its_step_get_what_they_get_alone(
    ahead: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        runner = BrokenRunner(60, 16, recurrent=True)
        scheduler = Scheduler(60, 16, 256, Budget(8, 128, 64), True)
        engine = Engine(scheduler, runner, LIMITS, ahead=runner if ahead else None)
        engine.start(asyncio.get_running_loop())
        prompts = [random_ids(n, 66 + n % 3) for n in range(8)]
        generations = [
            engine.submit(
                Sequence(
                    f"s{n}", np.array(prompt), 20, Sampling(0.0, top_k=BROKEN if n % 2 else 0), frozenset()
                )
            )
            for n, prompt in enumerate(prompts)
        ]
        for n, (generation, prompt) in enumerate(zip(generations, prompts, strict=True)):
            ids: list[int] = []
            while (delta := await generation.next(10)) is not None:
                ids += delta.ids
                if delta.finish_reason is not None:
                    break
            assert delta is not None
            if n % 2:
                assert delta.finish_reason is FinishReason.ERROR
                assert ids == alone(prompt, 20)[0][: 71 - len(prompt)]
            else:
                assert (ids, delta.finish_reason) == alone(prompt, 20)
        await asyncio.sleep(0.3)  # long enough for the audit of an engine at rest
        picture = engine.snapshot
        assert (picture.running, picture.waiting, picture.failures) == (0, 0, 0)
        assert picture.pages_free == picture.pages_total
        assert picture.state_slots_free == picture.state_slots_total
        await asyncio.to_thread(engine.stop)

    with caplog.at_level(logging.ERROR, "node.engine"):
        asyncio.run(main())
    told = sorted(record.message.partition(":")[0] for record in caplog.records)
    assert told == ["s1", "s3", "s5", "s7"]
