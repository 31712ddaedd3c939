"""A checkpoint's tensors as the layers want them: the shapes they come in, the projections they merge to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from node.model.config import FULL, ModelConfig
from node.model.linear import Linear, dense

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """projection [(Nq + 2 Nk [+ Nq])·D, H]: queries, keys, values, then gates where there are; norms [D] of queries
    and keys or None; out [H, Nq·D]."""

    projection: Linear
    norms: tuple[Tensor, Tensor] | None
    out: Linear


@dataclass(frozen=True, slots=True)
class DeltaWeights:
    """projection [C + Hv·Dv + 2·Hv, H]: the convolution's columns, z, b, a; conv_weight [K, C], a_log and dt_bias
    [Hv] and norm [Dv] in float32; out [H, Hv·Dv]."""

    projection: Linear
    conv_weight: Tensor
    a_log: Tensor
    dt_bias: Tensor
    norm: Tensor
    out: Linear


@dataclass(frozen=True, slots=True)
class MlpWeights:
    """gate_up [2·I, H], gates first; down [H, I]."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class LayerWeights:
    input_norm: Tensor
    mixer: AttentionWeights | DeltaWeights
    mlp_norm: Tensor
    mlp: MlpWeights


@dataclass(frozen=True, slots=True)
class Weights:
    """embedding [V, H]; norm [H]; head [V, H], where tied of the embedding itself or its prepared copy."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Linear


class Source(Protocol):
    """Tensors by name, without the prefix of the text model."""

    def read(self, name: str, dtype: torch.dtype) -> Tensor: ...


def published_shapes(config: ModelConfig, tied: bool) -> dict[str, Shape]:
    """Every tensor that a checkpoint of this configuration holds, without the prefix of the text model."""
    h, i = config.hidden_size, config.intermediate_size
    shapes: dict[str, Shape] = {"embed_tokens.weight": (config.vocab_size, h), "norm.weight": (h,)}
    if not tied:
        shapes["lm_head.weight"] = (config.vocab_size, h)
    for number, kind in enumerate(config.layer_types):
        layer: dict[str, Shape] = {
            "input_layernorm.weight": (h,),
            "post_attention_layernorm.weight": (h,),
            "mlp.gate_proj.weight": (i, h),
            "mlp.up_proj.weight": (i, h),
            "mlp.down_proj.weight": (h, i),
            **(_attention_shapes(config) if kind == FULL else _delta_shapes(config)),
        }
        shapes |= {f"layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


def _attention_shapes(config: ModelConfig) -> dict[str, Shape]:
    h, q, kv = config.hidden_size, config.query_width, config.kv_width
    rows = {"q_proj": q * (2 if config.output_gate else 1), "k_proj": kv, "v_proj": kv}
    shapes: dict[str, Shape] = {f"self_attn.{name}.weight": (count, h) for name, count in rows.items()}
    shapes["self_attn.o_proj.weight"] = (h, q)
    if config.qkv_bias:
        shapes |= {f"self_attn.{name}.bias": (count,) for name, count in rows.items()}
    if config.qk_norm:
        shapes |= {f"self_attn.{name}.weight": (config.head_dim,) for name in ("q_norm", "k_norm")}
    return shapes


def _delta_shapes(config: ModelConfig) -> dict[str, Shape]:
    assert config.delta is not None
    h, d = config.hidden_size, config.delta
    return {
        "linear_attn.in_proj_qkv.weight": (d.conv_width, h),
        "linear_attn.in_proj_z.weight": (d.value_width, h),
        "linear_attn.in_proj_b.weight": (d.value_heads, h),
        "linear_attn.in_proj_a.weight": (d.value_heads, h),
        "linear_attn.conv1d.weight": (d.conv_width, 1, d.conv_kernel),
        "linear_attn.A_log": (d.value_heads,),
        "linear_attn.dt_bias": (d.value_heads,),
        "linear_attn.norm.weight": (d.value_dim,),
        "linear_attn.out_proj.weight": (h, d.value_width),
    }


def assemble(config: ModelConfig, source: Source, tied: bool, dtype: torch.dtype) -> Weights:
    """Read and merge all tensors; source must hold published_shapes(config, tied)."""
    embedding = source.read("embed_tokens.weight", dtype)
    layers = []
    for number, kind in enumerate(config.layer_types):
        at = f"layers.{number}."
        mixer = _attention(config, source, at, dtype) if kind == FULL else _delta(source, at, dtype)
        layers.append(
            LayerWeights(
                input_norm=source.read(at + "input_layernorm.weight", dtype),
                mixer=mixer,
                mlp_norm=source.read(at + "post_attention_layernorm.weight", dtype),
                mlp=MlpWeights(
                    gate_up=dense(
                        _merged(source, at + "mlp.", ("gate_proj.weight", "up_proj.weight"), dtype)
                    ),
                    down=dense(source.read(at + "mlp.down_proj.weight", dtype)),
                ),
            )
        )
    head = dense(embedding if tied else source.read("lm_head.weight", dtype))
    return Weights(embedding, tuple(layers), source.read("norm.weight", dtype), head)


def _attention(config: ModelConfig, source: Source, at: str, dtype: torch.dtype) -> AttentionWeights:
    at += "self_attn."
    names = ("q_proj", "k_proj", "v_proj")
    parts = [source.read(f"{at}{name}.weight", dtype) for name in names]
    if config.output_gate:
        # Published rows alternate, head by head, between a query and its gate.
        q, gate = parts[0].view(config.heads, 2, config.head_dim, -1).unbind(1)
        parts = [q.flatten(0, 1), *parts[1:], gate.flatten(0, 1)]
    bias = norms = None
    if config.qkv_bias:
        bias = _merged(source, at, tuple(f"{name}.bias" for name in names), dtype)
    if config.qk_norm:
        norms = (source.read(at + "q_norm.weight", dtype), source.read(at + "k_norm.weight", dtype))
    return AttentionWeights(
        projection=dense(torch.cat(parts), bias),
        norms=norms,
        out=dense(source.read(at + "o_proj.weight", dtype)),
    )


def _delta(source: Source, at: str, dtype: torch.dtype) -> DeltaWeights:
    at += "linear_attn."
    names = ("in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight", "in_proj_a.weight")
    return DeltaWeights(
        projection=dense(_merged(source, at, names, dtype)),
        conv_weight=source.read(at + "conv1d.weight", torch.float32)[:, 0].T.contiguous(),
        a_log=source.read(at + "A_log", torch.float32),
        dt_bias=source.read(at + "dt_bias", torch.float32),
        norm=source.read(at + "norm.weight", torch.float32),
        out=dense(source.read(at + "out_proj.weight", dtype)),
    )


def _merged(source: Source, at: str, names: tuple[str, ...], dtype: torch.dtype) -> Tensor:
    return torch.cat([source.read(at + name, dtype) for name in names])
