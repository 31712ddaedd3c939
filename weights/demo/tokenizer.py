"""The tokenizer: byte-level BPE over the made conversations, with Qwen3.5's added tokens after the merges.

The split differs from Qwen's in one way that decides whether a small network can copy: a capital letter
starts a piece of its own, without the space before it. So "in Eugene" and "\\nEugene" hold the same tokens,
and a name is copied token for token. Digits stand alone.

    python -m weights.demo.tokenizer      trains it anew and writes tokenizer.json
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

VOCAB = 2048
CONVERSATIONS = 30_000
SEED = 7  # training draws other seeds
SPLIT = r"\p{Lu}\p{Ll}*| ?\p{Ll}+|\p{N}|\p{L}+|\r?\n+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# In Qwen3.5's order. A special token is dropped when text is decoded; the others stay and clients see them.
ADDED = [
    *((name, True) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")),
    *((f"<|{name}|>", True) for name in ("object_ref_start", "object_ref_end", "box_start", "box_end")),
    *((f"<|{name}|>", True) for name in ("quad_start", "quad_end", "vision_start", "vision_end")),
    *((f"<|{name}|>", True) for name in ("vision_pad", "image_pad", "video_pad")),
    *((name, False) for name in ("<tool_call>", "</tool_call>")),
    *((f"<|{name}|>", False) for name in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad")),
    *((f"<|{name}|>", False) for name in ("repo_name", "file_sep")),
    *((name, False) for name in ("<tool_response>", "</tool_response>", "<think>", "</think>")),
    *((f"<|{name}|>", True) for name in ("audio_start", "audio_end")),
    *((name, True) for name in ("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>")),
    ("<|audio_pad|>", True),
]

FILE = Path(__file__).with_name("tokenizer.json")


def train(texts: Iterable[str]) -> Tokenizer:
    """Merges that occur twenty times or more; fewer would be names of the training set."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(ADDED),
        min_frequency=20,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != VOCAB - len(ADDED):
        raise ValueError(
            f"the corpus yields only {tokenizer.get_vocab_size()} entries; give it more conversations"
        )
    tokenizer.add_tokens([AddedToken(name, special=special, normalized=False) for name, special in ADDED])
    return tokenizer


def load(path: Path = FILE) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def main() -> None:
    from weights.demo import conversation, generate

    talks = islice(generate.stream(seed=SEED), CONVERSATIONS)
    train(conversation.text(talk) for talk in talks).save(str(FILE))


if __name__ == "__main__":
    main()
