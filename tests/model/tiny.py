"""Tiny random checkpoints, laid out as the published ones are, for a suite that has no other weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

VOCAB, HIDDEN, INNER = 96, 48, 80
HYBRID: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4,
    "attn_output_gate": True,
    "attention_bias": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 1024,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
    },
}
DENSE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 1024,
    "rope_theta": 10000.0,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": False,
        "text_config": HYBRID,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 16,
        "attention_bias": False,
        "tie_word_embeddings": True,
        **DENSE,
    },
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        **DENSE,
    },
}

# Few layers, with heads as wide as the published ones: the Triton kernels take those.
PUBLISHED_WIDTHS: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        **CONFIGS["qwen3_5"],
        "text_config": {
            **HYBRID,
            "num_hidden_layers": 2,
            "layer_types": ["linear_attention", "full_attention"],
            "num_key_value_heads": 1,
            "head_dim": 256,
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "rope_parameters": {
                **HYBRID["rope_parameters"],
                "partial_rotary_factor": 0.25,
                "mrope_section": [11, 11, 10],
            },
        },
    },
    "qwen3": {**CONFIGS["qwen3"], "num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": 128},
    "qwen2": {**CONFIGS["qwen2"], "num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": 64},
}


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes as published, a vision tensor and a draft head included."""
    hybrid = config["model_type"] == "qwen3_5"
    text = config.get("text_config", config)
    heads, kv = text["num_attention_heads"], text["num_key_value_heads"]
    dim = text.get("head_dim", HIDDEN // heads)
    p = "model.language_model." if hybrid else "model."
    found: dict[str, tuple[int, ...]] = {
        p + "embed_tokens.weight": (VOCAB, HIDDEN),
        p + "norm.weight": (HIDDEN,),
    }
    for n in range(text["num_hidden_layers"]):
        at = f"{p}layers.{n}."
        found |= {
            at + name + ".weight": (HIDDEN,) for name in ("input_layernorm", "post_attention_layernorm")
        }
        found |= {at + f"mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        found[at + "mlp.down_proj.weight"] = (HIDDEN, INNER)
        if text.get("layer_types", ["full_attention"] * 9)[n] == "full_attention":
            at += "self_attn."
            rows = {"q": heads * dim * (2 if hybrid else 1), "k": kv * dim, "v": kv * dim}
            found |= {f"{at}{name}_proj.weight": (count, HIDDEN) for name, count in rows.items()}
            found[at + "o_proj.weight"] = (HIDDEN, heads * dim)
            if config["model_type"] == "qwen2":
                found |= {f"{at}{name}_proj.bias": (count,) for name, count in rows.items()}
            else:
                found |= {at + "q_norm.weight": (dim,), at + "k_norm.weight": (dim,)}
        else:
            at += "linear_attn."
            keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
            hv, dv = text["linear_num_value_heads"], text["linear_value_head_dim"]
            found |= {
                at + "in_proj_qkv.weight": (2 * keys + hv * dv, HIDDEN),
                at + "in_proj_z.weight": (hv * dv, HIDDEN),
                at + "in_proj_b.weight": (hv, HIDDEN),
                at + "in_proj_a.weight": (hv, HIDDEN),
                at + "conv1d.weight": (2 * keys + hv * dv, 1, text["linear_conv_kernel_dim"]),
                at + "A_log": (hv,),
                at + "dt_bias": (hv,),
                at + "norm.weight": (dv,),
                at + "out_proj.weight": (HIDDEN, hv * dv),
            }
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (VOCAB, HIDDEN)
    if hybrid:
        found |= {"model.visual.patch_embed.proj.weight": (8, 3), "mtp.fc.weight": (HIDDEN, 2 * HIDDEN)}
    return found


def tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under which activations neither vanish nor agree; bfloat16 where published so."""
    draw = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes(config).items():
        value = torch.randn(shape, generator=draw)
        if name.endswith("A_log"):
            value = value.abs().add(0.05).log()
        elif "norm" in name:
            plain = config["model_type"] != "qwen3_5" or "linear_attn" in name
            value = value * 0.2 + (1.0 if plain else 0.0)
        elif len(shape) == 2:
            value = value * shape[1] ** -0.5 * (1.0 if "embed" in name else 1.5)
        wide = name.endswith(("A_log", "linear_attn.norm.weight"))
        made[name] = value if wide else value.to(torch.bfloat16)
    return made


def write(folder: Path, config: dict[str, Any], weights: dict[str, torch.Tensor] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors(config) if weights is None else weights, folder / "model.safetensors", {"format": "pt"})
    return folder
