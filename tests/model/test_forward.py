"""The forward pass against plain numpy and transformers, on tiny checkpoints that the suite makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from node.model.model import Model
from node.run.load import load_model
from tests.model import tiny
from tests.model.drive import Drive
from tests.model.plain import PlainQwen

LENGTHS = (1, 9, 64, 131)
TOLERANCE = 1e-3


@pytest.fixture(scope="module", params=sorted(tiny.CONFIGS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("tiny") / kind, tiny.CONFIGS[kind])


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder, torch.float32, "cpu")


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    draw = np.random.default_rng(5)
    return [draw.integers(0, tiny.VOCAB, length).tolist() for length in LENGTHS]


@pytest.fixture(scope="module")
def plain(kind: str, prompts: list[list[int]]) -> list[np.ndarray]:
    weights = {name: value.double().numpy() for name, value in tiny.tensors(tiny.CONFIGS[kind]).items()}
    return [PlainQwen(tiny.CONFIGS[kind], weights).run(ids) for ids in prompts]


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 1000])
def test_mixed_steps_give_the_logits_of_the_plain_model(
    model: Model, prompts: list[list[int]], plain: list[np.ndarray], chunk: int
) -> None:
    for sequence, expected in zip(Drive(model).generate(prompts, chunk, 3), plain, strict=True):
        ours = np.array(sequence.logits[: sequence.prompt])
        np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE)


def test_transformers_gives_the_same_logits(
    folder: Path, model: Model, prompts: list[list[int]], kind: str
) -> None:
    transformers = pytest.importorskip("transformers")
    loaded = getattr(transformers, tiny.CONFIGS[kind]["architectures"][0], None)
    if loaded is None:
        pytest.skip(f"this transformers does not know {kind}")
    if kind == "qwen3_5":  # the text class reads the same files, and asks for no vision tower
        loaded = transformers.Qwen3_5ForCausalLM
    theirs = loaded.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for sequence in Drive(model).generate(prompts, 64, 1):
        with torch.inference_mode():
            expected = theirs(torch.tensor([sequence.tokens[: sequence.prompt]])).logits[0].numpy()
        ours = np.array(sequence.logits[: sequence.prompt])
        np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE)


def test_bfloat16_stays_near_float32(folder: Path, prompts: list[list[int]], plain: list[np.ndarray]) -> None:
    model = load_model(folder, torch.bfloat16, "cpu")
    for sequence, expected in zip(Drive(model).generate(prompts, 65, 1), plain, strict=True):
        ours = np.array(sequence.logits[: sequence.prompt])
        assert np.abs(ours - expected).mean() < 0.02 * np.abs(expected).mean() + 0.02


def test_a_prompt_cut_at_any_token_gives_the_same_logits(model: Model, prompts: list[list[int]]) -> None:
    ids = prompts[-1][:70]
    (whole,) = Drive(model).generate([ids], 1000, 1)
    for cut in (1, 2, 3, 4, 33, 62, 63, 64, 65, 69):
        drive = Drive(model)
        sequence = drive.begin(ids)
        drive.step([(sequence, cut)])
        drive.step([(sequence, len(ids) - cut)])
        np.testing.assert_allclose(
            np.array(sequence.logits), np.array(whole.logits), rtol=0, atol=5e-4, err_msg=str(cut)
        )
