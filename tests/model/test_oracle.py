"""Against numbers that transformers gave for tiny checkpoints of every kind, in float32 through the pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import node.model.qwen
from node.model.families import read_config
from node.model.qwen import Qwen
from node.model.weight_files import read_weights
from tests.model.drive import Drive

HYBRID = ("qwen3_5", "qwen3_5_tied")
MODELS = (*HYBRID, "qwen3", "qwen2_5")
WHOLE = 1000
CHUNKS = (1, 63, 64, 65, WHOLE)
TOLERANCE = 2e-3  # float32 against float64 of the same network differs by up to 3.3e-4
GREEDY = 32


class Oracle:
    """One checkpoint with its reference numbers."""

    def __init__(self, folder: Path) -> None:
        config = read_config(folder)
        # No vocabulary: the reference's greedy tokens were taken from the whole table.
        self.model = Qwen(config, read_weights(folder, config, torch.float32, torch.device("cpu")))
        self.numbers = dict(np.load(folder / "reference.npz"))
        names = [key.removesuffix(".ids") for key in self.numbers if key.endswith(".ids")]
        self.prompts = {name: self.numbers[f"{name}.ids"].tolist() for name in names if name != "mtp"}


@pytest.fixture(scope="module", params=MODELS)
def oracle(request: pytest.FixtureRequest, shared: Path) -> Oracle:
    return Oracle(shared / "qwen" / "oracle" / "tiny" / request.param)


def compare(oracle: Oracle, name: str, sequence) -> None:
    logits = np.array(sequence.logits)
    expected = oracle.numbers[f"{name}.logits"]
    ours = logits[sequence.prompt - len(expected) : sequence.prompt]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE, err_msg=name)
    assert sequence.generated == oracle.numbers[f"{name}.greedy"].tolist(), name
    if f"{name}.greedy_logits" in oracle.numbers:
        expected = oracle.numbers[f"{name}.greedy_logits"]
        np.testing.assert_allclose(logits[sequence.prompt - 1 :], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_mixed_steps_of_all_prompts_match_the_reference(oracle: Oracle, chunk: int) -> None:
    sequences = Drive(oracle.model).generate(list(oracle.prompts.values()), chunk, GREEDY)
    for name, sequence in zip(oracle.prompts, sequences, strict=True):
        compare(oracle, name, sequence)


def test_each_prompt_alone_matches_the_reference_on_used_pages_and_slots(oracle: Oracle) -> None:
    drive = Drive(oracle.model, pages=8, state_slots=2)
    for name, ids in oracle.prompts.items():
        (sequence,) = drive.generate([ids], 64, GREEDY)
        compare(oracle, name, sequence)
        drive.end(sequence)


@pytest.mark.parametrize("oracle", HYBRID, indirect=True)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_state_and_conv_state_of_the_delta_layers_match_the_reference(oracle: Oracle, chunk: int) -> None:
    drive = Drive(oracle.model)
    (sequence,) = drive.generate([oracle.prompts["hidden"]], chunk, 1)
    for index, layer in enumerate(oracle.model.config.delta_layers):
        state = drive.runner.cache.states[index, sequence.slot].numpy()
        conv_state = drive.runner.cache.conv_state[index, sequence.slot].numpy()
        np.testing.assert_allclose(state, oracle.numbers[f"state.hidden.{layer}"], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(
            conv_state.T, oracle.numbers[f"conv.hidden.{layer}"], rtol=0, atol=TOLERANCE
        )


def test_hidden_states_entering_each_layer_match_the_reference(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = node.model.qwen.rms_norm, []

    def watched(*arguments):
        seen.append(plain(*arguments))
        return seen[-1]

    monkeypatch.setattr(node.model.qwen, "rms_norm", watched)
    Drive(oracle.model).generate([oracle.prompts["hidden"]], WHOLE, 1)
    entering = [total for _, total in seen[:-1:2]] + [seen[-1][0]]  # the last: after the final norm
    assert len(entering) == oracle.model.config.layers + 1
    for layer, hidden in enumerate(entering):
        expected = oracle.numbers[f"hidden.hidden.{layer}"]
        np.testing.assert_allclose(hidden.numpy(), expected, rtol=0, atol=TOLERANCE, err_msg=str(layer))
