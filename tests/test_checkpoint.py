"""The reader of a checkpoint's small files: what it gives, and what it says of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node.checkpoint import CONFIG, TOKENIZER, CheckpointError, CheckpointFolder


def test_an_error_says_the_path_then_the_key_then_what_is_wrong() -> None:
    path = Path("weights/x/config.json")
    assert str(CheckpointError("is wrong", key="head_dim", path=path)) == f"{path}: head_dim: is wrong"
    assert str(CheckpointError("is wrong", path=path)) == f"{path}: is wrong"
    assert str(CheckpointError("is wrong", key="head_dim")) == "head_dim: is wrong"


def test_a_file_that_is_absent_is_none_unless_it_is_demanded(tmp_path: Path) -> None:
    files = CheckpointFolder(tmp_path)
    assert files.read_text(CONFIG) is None
    assert files.read_json(CONFIG) is None
    with pytest.raises(CheckpointError) as caught:
        files.demand_json(CONFIG)
    assert str(caught.value) == f"{tmp_path}: no config.json"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"{", "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b"[]", "not a JSON object"),
        (b"\xff", "'utf-8' codec"),
    ],
)
def test_a_broken_file_is_told_by_its_path(tmp_path: Path, content: bytes, wrong: str) -> None:
    (tmp_path / CONFIG).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        CheckpointFolder(tmp_path).read_json(CONFIG)
    assert str(caught.value).startswith(f"{tmp_path}/config.json: {wrong}")
    assert "\n" not in str(caught.value)


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_the_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / CONFIG).mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json: Is a directory$"):
        CheckpointFolder(tmp_path).read_text(CONFIG)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/config\.json: Not a directory$"):
        CheckpointFolder(tmp_path / "file").read_text(CONFIG)


def test_what_is_wrong_with_contents_is_told_of_their_file(tmp_path: Path) -> None:
    files = CheckpointFolder(tmp_path)
    with pytest.raises(CheckpointError) as caught, files.reading(TOKENIZER, "a tokenizer"):
        raise CheckpointError("missing", key="vocab")
    assert str(caught.value) == f"{tmp_path}/tokenizer.json: vocab: missing"
    elsewhere = tmp_path / "elsewhere.json"
    with pytest.raises(CheckpointError) as caught, files.reading(TOKENIZER, "a tokenizer"):
        raise CheckpointError("missing", path=elsewhere)
    assert caught.value.path == elsewhere, "who knows better is believed"


@pytest.mark.parametrize("value", [{}, {"a": None}, {"a": []}, {"a": "1"}, {"a": {"b": "x"}}])
def test_contents_of_another_form_are_no_fault_of_ours(tmp_path: Path, value: object) -> None:
    (tmp_path / CONFIG).write_text(json.dumps(value))
    files = CheckpointFolder(tmp_path)
    config = files.demand_json(CONFIG)
    with (
        pytest.raises(CheckpointError, match=r"config\.json: not a configuration: \w+Error"),
        files.reading(CONFIG, "a configuration"),
    ):
        int(config["a"]["b"])
