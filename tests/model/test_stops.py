"""Which ids end an answer, and which are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from node.checkpoint import CheckpointError
from node.model.stops import real_vocabulary, stop_ids


def write(folder: Path, **files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


TOKENIZER = {
    "model": {"vocab": {"a": 0, "b": 1}},
    "added_tokens": [{"id": 2, "content": "<|endoftext|>"}, {"id": 4, "content": "<|im_end|>"}],
}


def test_a_small_qwen3_5_stops_at_the_end_of_a_turn_too(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        config={"text_config": {"eos_token_id": 2}},
        tokenizer=TOKENIZER,
        tokenizer_config={"eos_token": "<|im_end|>"},
    )
    assert stop_ids(folder) == {2, 4}


def test_every_place_adds_its_ids(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        config={"eos_token_id": 10, "text_config": {"eos_token_id": [11, 12]}},
        generation_config={"eos_token_id": [13]},
        tokenizer=TOKENIZER,
        tokenizer_config={"eos_token": {"content": "<|im_end|>"}},
    )
    assert stop_ids(folder) == {4, 10, 11, 12, 13}


def test_nothing_named_is_nothing(tmp_path: Path) -> None:
    assert stop_ids(write(tmp_path, config={"eos_token_id": None})) == frozenset()


def test_the_real_vocabulary_counts_tokens_that_only_the_tokenizer_config_lists(tmp_path: Path) -> None:
    assert real_vocabulary(tmp_path) is None
    write(tmp_path, tokenizer=TOKENIZER)
    assert real_vocabulary(tmp_path) == 5
    write(tmp_path, tokenizer_config={"added_tokens_decoder": {"8": {"content": "<|audio_pad|>"}}})
    assert real_vocabulary(tmp_path) == 9


@pytest.mark.parametrize("value", ["<|im_end|>", ["2"], {"id": 2}])
def test_an_end_that_is_no_id_is_told_by_file_and_key(tmp_path: Path, value: object) -> None:
    folder = write(tmp_path, config={}, generation_config={"eos_token_id": value})
    with pytest.raises(CheckpointError, match=r"/generation_config\.json: eos_token_id: "):
        stop_ids(folder)


def test_a_tokenizer_of_another_form_is_told_by_its_file(tmp_path: Path) -> None:
    folder = write(tmp_path, tokenizer={"model": {}}, tokenizer_config={"added_tokens_decoder": {"x": {}}})
    with pytest.raises(CheckpointError, match=r"/tokenizer\.json: not a tokenizer: "):
        real_vocabulary(folder)
    with pytest.raises(CheckpointError, match=r"/tokenizer_config\.json: "):
        stop_ids(folder)
