"""Writes trained parameters as an ordinary Qwen3.5 checkpoint: bfloat16, nested config, one file, an index.

python -m weights.demo.export STATE      the averaged weights of a training state, into this folder
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from weights.demo import tokenizer as tokens
from weights.demo.network import Shape, Weights

FOLDER = Path(__file__).parent
PREFIX = "model.language_model."
SHARD = "model.safetensors"
FLOAT32 = ("linear_attn.A_log", "linear_attn.norm.weight")
CONTEXT = 32_768  # the node's; conversations in training are shorter than 512 tokens


def config(shape: Shape) -> dict:
    added = {name: tokens.VOCAB - len(tokens.ADDED) + n for n, (name, _) in enumerate(tokens.ADDED)}
    pairs = shape.rope_dims // 2
    sections = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]  # positions of text are equal in all three
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "image_token_id": added["<|image_pad|>"],
        "model_type": "qwen3_5",
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_output_gate": True,
            "dtype": "bfloat16",
            "eos_token_id": added["<|endoftext|>"],
            "full_attention_interval": shape.attend_every,
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "hidden_size": shape.hidden,
            "initializer_range": 0.02,
            "intermediate_size": shape.intermediate,
            "layer_types": shape.kinds,
            "linear_conv_kernel_dim": shape.conv,
            "linear_key_head_dim": shape.delta_dim,
            "linear_num_key_heads": shape.delta_heads,
            "linear_num_value_heads": shape.delta_heads,
            "linear_value_head_dim": shape.delta_dim,
            "mamba_ssm_dtype": "float32",
            "max_position_embeddings": CONTEXT,
            "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 0,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "num_key_value_heads": shape.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": sections,
                "partial_rotary_factor": shape.rope_dims / shape.head_dim,
                "rope_theta": shape.rope_theta,
                "rope_type": "default",
            },
            "tie_word_embeddings": True,
            "use_cache": True,
            "vocab_size": shape.vocab,
        },
        "tie_word_embeddings": True,
        "video_token_id": added["<|video_pad|>"],
        "vision_end_token_id": added["<|vision_end|>"],
        "vision_start_token_id": added["<|vision_start|>"],
    }


def tokenizer_config() -> dict:
    first = tokens.VOCAB - len(tokens.ADDED)
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(first + n): {"content": name, "special": special, **flags}
            for n, (name, special) in enumerate(tokens.ADDED)
        },
        "bos_token": None,
        "chat_template": (FOLDER / "chat_template.jinja").read_text(),
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": CONTEXT,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        # Not Qwen2Tokenizer: that class would put Qwen's own split in place of tokenizer.json's.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    kind = torch.float32 if name.endswith(FLOAT32) else torch.bfloat16
    return tensor.detach().to(kind).contiguous()


def replace(path: Path, write) -> None:
    """A reader sees the old file or the new one, whole."""
    draft = path.with_name(path.name + ".new")
    write(draft)
    draft.chmod(0o644)  # safetensors writes for the owner only
    os.replace(draft, path)


def export(shape: Shape, weights: Weights, folder: Path = FOLDER) -> None:
    tensors = {PREFIX + name: stored(name, tensor) for name, tensor in sorted(weights.items())}
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict.fromkeys(tensors, SHARD)}
    for name, value in (
        ("config.json", config(shape)),
        ("tokenizer_config.json", tokenizer_config()),
        ("model.safetensors.index.json", index),
    ):
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        replace(folder / name, lambda path, text=text: path.write_text(text))
    replace(folder / SHARD, lambda path: save_file(tensors, path, metadata={"format": "pt"}))


def load(folder: Path = FOLDER) -> tuple[Shape, Weights]:
    """The exported checkpoint, back under the training names, as it was rounded."""
    text = json.loads((folder / "config.json").read_text())["text_config"]
    shape = Shape(
        vocab=text["vocab_size"],
        hidden=text["hidden_size"],
        intermediate=text["intermediate_size"],
        layers=text["num_hidden_layers"],
        attend_every=text["full_attention_interval"],
    )
    tensors = load_file(folder / SHARD)
    return shape, {name.removeprefix(PREFIX): tensor.float() for name, tensor in tensors.items()}


def main(path: str) -> None:
    state = torch.load(path, weights_only=True)
    export(Shape(**state["shape"]), state["average"])
    print(f"exported {state['tokens']:,} tokens of training")


if __name__ == "__main__":
    main(*sys.argv[1:])
