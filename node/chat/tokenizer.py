"""The checkpoint's own tokenizer, with control tokens kept apart from text.

Text is encoded as if control tokens did not exist. Whoever may write them (prompt.py, for the template) does
so by id. `tokenizers` has no such mode, so its tokenizer is built without the added tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tokenizers

from node.checkpoint import TOKENIZER, TOKENIZER_CONFIG, CheckpointError, CheckpointFolder

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """Text to ids, ids to bytes.

    control          text of every added token → its id
    special          those control ids that give no text when a model samples them
    vocabulary_size  one more than the greatest id that has a text; a model's table may be padded beyond it
    """

    def __init__(self, definition: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Of the contents of tokenizer.json and tokenizer_config.json."""
        vocabulary: dict[str, int] = definition["model"]["vocab"]
        added = _added_tokens(definition, config)
        control = {entry["content"]: number for number, entry in added.items()}
        _demand_plain(added)
        _demand_byte_level(definition, vocabulary.keys() - control.keys())

        self.control: Mapping[str, int] = MappingProxyType(control)
        self.special = frozenset(number for number, entry in added.items() if entry.get("special"))
        self.vocabulary_size = max([*vocabulary.values(), *added]) + 1
        self._spellings = _spellings(vocabulary, control, self.vocabulary_size)
        self._encoder = _encoder(definition)
        for text in control:
            if not added.keys().isdisjoint(self.encode(text)):
                raise CheckpointError(
                    f"{text!r} is an added token and a word of the model: text could forge it"
                )

    @classmethod
    def read(cls, folder: Path) -> Tokenizer:
        """The tokenizer of a checkpoint's folder."""
        files = CheckpointFolder(folder)
        definition = files.demand_json(TOKENIZER)
        config = files.read_json(TOKENIZER_CONFIG) or {}
        with files.reading(TOKENIZER, "a tokenizer"):
            return cls(definition, config)

    def encode(self, text: str) -> list[int]:
        """The ids of text, none of them a control token's, whatever the text says."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Collection[str]) -> list[list[int]]:
        """The ids of each text; one call for all of them crosses into `tokenizers` once."""
        # The fast form skips offsets, which would cost more memory than the ids.
        encodings = self._encoder.encode_batch_fast([well_formed(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def token_bytes(self, number: int) -> bytes:
        """What a token stands for, control tokens included; empty for an id that has no text."""
        return self._spellings[number] if 0 <= number < len(self._spellings) else b""


def well_formed(text: str) -> str:
    """The text with U+FFFD for each lone surrogate: JSON can carry those, UTF-8 cannot."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def _added_tokens(definition: Mapping[str, Any], config: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Added tokens by id. tokenizer.json is the authority; some ids stand only in tokenizer_config.json."""
    added: dict[int, dict[str, Any]] = {entry["id"]: entry for entry in definition.get("added_tokens") or ()}
    texts = {entry["content"] for entry in added.values()}
    taken = set(definition["model"]["vocab"].values())
    for key, entry in (config.get("added_tokens_decoder") or {}).items():
        number = int(key)
        if number not in added and number not in taken and entry["content"] not in texts:
            added[number] = entry
    return added


def _demand_byte_level(definition: Mapping[str, Any], words: set[str]) -> None:
    """All here rests on bytes: text that no vocabulary foresaw, halves of characters, exact decoding."""
    model = definition["model"]
    if model.get("type", "BPE") != "BPE" or model.get("byte_fallback"):
        raise CheckpointError(f"not byte-level BPE: the model is {model.get('type')}")
    alphabet = {chr(character) for character in _BYTE_OF}
    if not alphabet <= words:
        raise CheckpointError("not byte-level BPE: the vocabulary lacks some of the 256 bytes")
    if strange := set("".join(words)) - alphabet:
        raise CheckpointError(f"not byte-level BPE: words with {sorted(strange)[:5]} spell no bytes")
    if '"ByteLevel"' not in json.dumps(definition.get("pre_tokenizer")):
        raise CheckpointError("not byte-level BPE: no ByteLevel among the pre-tokenizers")


def _demand_plain(added: Mapping[int, Mapping[str, Any]]) -> None:
    """Options of added tokens that Qwen never sets, and that splitting a prompt would have to honour."""
    for entry in added.values():
        for option in ("lstrip", "rstrip", "single_word"):
            if entry.get(option):
                raise CheckpointError(f"the added token {entry['content']!r} sets {option}")
        if len(entry["content"]) < 2:  # nothing can be put between the characters of a client's copy
            raise CheckpointError(
                f"the added token {entry['content']!r} is too short to keep clients from it"
            )


def _encoder(definition: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """A tokenizer for text alone: no added tokens, nothing put at the ends, cut off or padded."""
    bare = dict(definition, added_tokens=[], post_processor=None, truncation=None, padding=None)
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(bare))
    except Exception as error:  # `tokenizers` raises Exception itself
        raise CheckpointError(f"refused by tokenizers: {error}") from error


def _spellings(vocabulary: Mapping[str, int], control: Mapping[str, int], size: int) -> list[bytes]:
    spellings = [b""] * size
    for word, number in vocabulary.items():
        if word not in control:
            spellings[number] = word.translate(_BYTE_OF).encode("latin-1")
    for text, number in control.items():
        spellings[number] = text.encode()
    return spellings


def _byte_alphabet() -> dict[int, int]:
    """The character that spells each byte, inverted: printable Latin-1 is itself, the rest follow U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    return {byte: byte for byte in printable} | {0x100 + index: byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
