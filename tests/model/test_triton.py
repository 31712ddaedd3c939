"""Whole models through the Triton kernels, in the interpreter, equal the same by torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.processes import run, two_at_a_time
from tests.model import tiny
from tests.model.triton.scene import COUNT, MORE, PROMPT, told

KINDS = sorted(tiny.PUBLISHED_WIDTHS)
ORACLES = ("qwen3_5", "qwen3_5_tied", "qwen3", "qwen2_5")
TOLERANCE = 2e-4  # float32 logits of up to 6: orders of summing differ by a tenth of it
ORACLE_TOLERANCE = 2e-3  # see test_oracle

ATTENTION = {"prologue", "prefill_attention", "decode_attention", "merge_splits"}
DENSE = ATTENTION | {"rms_norm", "swiglu", "sample_parts", "sample_draw"}
DELTA = {"delta_convolve", "delta_solve", "delta_scan", "delta_output", "delta_decode"}
HYBRID = DENSE | DELTA | {"output_gate", "gated_rms_norm"}
DEFERRED = {"delta_ring", "delta_flush"}
CONSTRAINED = {"min_p", "penalties", "mask_logits"}

Told = dict[str, np.ndarray]


def interpreted(out: Path, folders: list[Path]) -> dict[str, Told]:
    """What the interpreter tells of each folder, by the folder's name."""
    scene = ("-m", "tests.model.triton.scene", str(out))
    longest_first = sorted(folders, key=lambda folder: not folder.name.startswith("qwen3_5"))
    two_at_a_time(lambda folder: run(*scene, str(folder), interpret=True), longest_first)
    return {folder.name: dict(np.load(out / f"{folder.name}.npz")) for folder in folders}


def kernels(found: Told) -> set[str]:
    return {name.removesuffix("_kernel") for name in found["kernels"]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("tiny")
    return [tiny.write(root / kind, tiny.PUBLISHED_WIDTHS[kind]) for kind in KINDS]


@pytest.fixture(scope="module")
def served(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    return interpreted(tmp_path_factory.mktemp("served"), folders)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_step_equals_torch(kind: str, folders: list[Path], served: dict[str, Told]) -> None:
    found, expected = served[kind], told(folders[KINDS.index(kind)])
    assert expected["kernels"] == []
    assert kernels(found) == CONSTRAINED | (HYBRID | DEFERRED if kind == "qwen3_5" else DENSE)
    for row in ("first", "second", "alone"):
        ours, theirs = (of[f"{row}.logits"] for of in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE, err_msg=row)
        assert found[f"{row}.tokens"].tolist() == expected[f"{row}.tokens"], row
    assert np.isneginf(found["second.logits"][-1]).sum() == tiny.VOCAB // 2, "masked"


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone_is_as_it_is_beside_another(kind: str, served: dict[str, Told]) -> None:
    alone, beside = (served[kind][f"{row}.logits"] for row in ("alone", "second"))
    same = len(alone) - MORE
    np.testing.assert_allclose(alone[:same], beside[:same], rtol=0, atol=TOLERANCE)
    tokens, besides = (served[kind][f"{row}.tokens"][:COUNT].tolist() for row in ("alone", "second"))
    assert tokens == besides


@pytest.fixture(scope="module")
def answered(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    models = shared / "qwen" / "oracle" / "tiny"
    return interpreted(tmp_path_factory.mktemp("answered"), [models / name for name in ORACLES])


@pytest.mark.parametrize("name", ORACLES)
def test_the_oracle_is_met_through_the_kernels(name: str, answered: dict[str, Told], shared: Path) -> None:
    found, reference = answered[name], np.load(shared / "qwen" / "oracle" / "tiny" / name / "reference.npz")
    assert kernels(found) == (HYBRID if name.startswith("qwen3_5") else DENSE)
    expected = reference[f"{PROMPT}.logits"]
    assert len(found["row.logits"]) == len(expected) + COUNT - 1
    ours = found["row.logits"][: len(expected)]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=ORACLE_TOLERANCE)
    assert found["row.tokens"].tolist() == reference[f"{PROMPT}.greedy"][:COUNT].tolist()
