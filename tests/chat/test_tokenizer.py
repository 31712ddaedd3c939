from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from node.chat.chat import Chat
from node.chat.guard import Guard
from node.chat.tokenizer import Tokenizer, well_formed
from node.checkpoint import CheckpointError

NO_DEADLINE = settings(deadline=None, max_examples=60)


def spelled(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    return b"".join(map(tokenizer.token_bytes, ids))


@NO_DEADLINE
@given(text=st.text(max_size=200))
def test_bytes_of_ids_are_the_normalised_text(tiny: Chat, text: str) -> None:
    assert spelled(tiny.tokenizer, tiny.tokenizer.encode(text)).decode() == unicodedata.normalize("NFC", text)


@NO_DEADLINE
@given(text=st.text(max_size=200).filter(lambda text: "<" not in text))
def test_ids_are_those_of_tokenizers(tiny: Chat, reference: tokenizers.Tokenizer, text: str) -> None:
    assert tiny.tokenizer.encode(text) == reference.encode(text, add_special_tokens=False).ids


def test_control_tokens_in_text_are_text(tiny: Chat) -> None:
    tokenizer = tiny.tokenizer
    text = "".join(tokenizer.control)
    ids = tokenizer.encode(text)
    assert spelled(tokenizer, ids).decode() == text
    assert set(ids).isdisjoint(tokenizer.control.values())


def test_lone_surrogates_become_replacement_characters(tiny: Chat) -> None:
    assert well_formed("a\ud83d\ude00b\udc00") == "a\ufffd\ufffdb\ufffd"
    assert tiny.tokenizer.encode("a\ud800") == tiny.tokenizer.encode("a\ufffd")


def test_control_tokens_know_their_ids_and_whether_they_are_special(tiny: Chat) -> None:
    tokenizer = tiny.tokenizer
    assert tokenizer.vocabulary_size == max(tokenizer.control.values()) + 1
    assert tokenizer.control["<|im_end|>"] in tokenizer.special
    assert tokenizer.control["<think>"] not in tokenizer.special
    assert tokenizer.token_bytes(tokenizer.control["<think>"]) == b"<think>"


def test_ids_without_text_have_no_bytes(tiny: Chat) -> None:
    for number in (tiny.tokenizer.vocabulary_size, 10**9, -1):
        assert tiny.tokenizer.token_bytes(number) == b""


def definition_of(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    return loaded


def test_tokens_that_only_the_config_names_are_control_tokens(tiny_folder: Path, tiny: Chat) -> None:
    size = tiny.tokenizer.vocabulary_size
    named = {
        str(size + 2): {"content": "<|audio|>", "special": True},
        "5": {"content": "<|clash|>", "special": True},  # an id that tokenizer.json has given away
        str(size + 3): {"content": "<think>", "special": True},  # a text that tokenizer.json has given an id
    }
    tokenizer = Tokenizer(definition_of(tiny_folder), {"added_tokens_decoder": named})
    assert tokenizer.control["<|audio|>"] == size + 2
    assert size + 2 in tokenizer.special
    assert "<|clash|>" not in tokenizer.control
    assert tokenizer.control["<think>"] == tiny.tokenizer.control["<think>"]
    assert tokenizer.vocabulary_size == size + 3
    assert [tokenizer.token_bytes(size + index) for index in range(4)] == [b"", b"", b"<|audio|>", b""]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": {"type": "WordPiece", "vocab": {"a": 0}}}, "the model is WordPiece"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": 0}}}, "not byte-level BPE"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, "lacks some of the 256 bytes"),
        ({"pre_tokenizer": None}, "no ByteLevel"),
        ({"normalizer": {"type": "Nonsense"}}, "refused by tokenizers"),
        ({"added_tokens": [{"id": 900, "content": "<x>", "lstrip": True}]}, "sets lstrip"),
        ({"added_tokens": [{"id": 900, "content": "x"}]}, "too short"),
        ({"added_tokens": [{"id": 900}]}, "not a tokenizer"),
    ],
)
def test_tokenizer_of_another_kind_is_refused_with_the_reason(
    tiny_folder: Path, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition_of(tiny_folder) | change))
    with pytest.raises(CheckpointError, match=reason):
        Tokenizer.read(tmp_path)


def test_word_that_spells_no_bytes_is_refused(tiny_folder: Path) -> None:
    definition = definition_of(tiny_folder)
    definition["model"]["vocab"]["a b"] = 900
    with pytest.raises(CheckpointError, match="spell no bytes"):
        Tokenizer(definition, {})


def test_added_token_that_text_could_forge_is_refused(tiny_folder: Path) -> None:
    definition = definition_of(tiny_folder)
    vocabulary = definition["model"]["vocab"]
    assert "the" in vocabulary
    definition["added_tokens"].append({"id": vocabulary["the"], "content": "the"})
    with pytest.raises(CheckpointError, match="could forge it"):
        Tokenizer(definition, {})


def test_folder_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        Tokenizer.read(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3.5"])
def test_published_vectors(shared: Path, request: pytest.FixtureRequest, name: str) -> None:
    chat: Chat = request.getfixturevalue(name.replace(".", ""))
    vectors = json.loads((shared / "qwen" / "tokenizers" / name / "vectors.json").read_text())
    assert vectors
    for vector in vectors:
        parts = Guard(chat.tokenizer.control).split(vector["text"])
        ids: list[int] = []
        for index, part in enumerate(parts):
            ids += [chat.tokenizer.control[part]] if index % 2 else chat.tokenizer.encode(part)
        assert ids == vector["ids"], vector["text"]


def test_qwen35_names_its_control_tokens(qwen35: Chat) -> None:
    control = qwen35.tokenizer.control
    assert (control["<|im_end|>"], control["<think>"], control["</think>"]) == (248046, 248068, 248069)
    assert control["<|audio_pad|>"] == 248076
    assert qwen35.tokenizer.vocabulary_size == 248077
    assert {248058, 248059, 248068, 248069}.isdisjoint(qwen35.tokenizer.special)
    assert qwen35.tokenizer.token_bytes(248319) == b""


def test_qwen35_needs_the_config_for_its_last_tokens(shared: Path) -> None:
    folder = shared / "qwen" / "tokenizers" / "qwen3.5"
    definition = definition_of(folder)
    definition["added_tokens"] = [entry for entry in definition["added_tokens"] if entry["id"] < 248070]
    config = json.loads((folder / "tokenizer_config.think.json").read_text())
    tokenizer = Tokenizer(definition, config)
    assert tokenizer.control["<|audio_start|>"] == 248070
    assert tokenizer.token_bytes(248076) == b"<|audio_pad|>"
