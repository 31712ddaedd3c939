"""Weights that multiply: the kind that serves, and that another needs no layer to know of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from node.model.families import read_config
from node.model.linear import Linear, dense
from node.model.qwen import Qwen
from node.model.weight_files import read_weights
from node.model.weights import LayerWeights, Weights
from tests.model import tiny
from tests.model.drive import Drive

PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6]]


def rowwise(linear: Linear) -> Linear:
    """A toy kind: float16 entries and a float32 scale for each output, a power of two, so that bfloat16's bits stay."""
    _, exponent = linear.data.abs().amax(1, keepdim=True).frexp()
    scale = torch.ones_like(linear.data[:, :1]).ldexp(exponent)
    return Linear((linear.data / scale).half(), scale, linear.bias, rowwise_product)


def rowwise_product(x: Tensor, data: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    assert scale is not None and data.dtype == torch.float16
    y = F.linear(x.float(), data.float()) * scale.T
    return (y if bias is None else y + bias).to(x.dtype)


def of_another_kind(weights: Weights) -> Weights:
    """All that multiplies: the head, and in each layer a projection, an out, a gate_up and a down."""

    def layer(found: LayerWeights) -> LayerWeights:
        mixer, mlp = found.mixer, found.mlp
        return replace(
            found,
            mixer=replace(mixer, projection=rowwise(mixer.projection), out=rowwise(mixer.out)),
            mlp=replace(mlp, gate_up=rowwise(mlp.gate_up), down=rowwise(mlp.down)),
        )

    return replace(weights, head=rowwise(weights.head), layers=tuple(map(layer, weights.layers)))


@pytest.mark.parametrize("kind", sorted(tiny.CONFIGS))
def test_another_kind_serves_without_the_layers_knowing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.write(tmp_path, tiny.CONFIGS[kind])
    config = read_config(folder)
    weights = read_weights(folder, config, torch.float32, torch.device("cpu"))
    expected = Drive(Qwen(config, weights)).generate(PROMPTS, 64, 3)
    monkeypatch.delattr(
        "node.model.linear.linear"
    )  # the product of the kind that serves: nobody calls it now
    found = Drive(Qwen(config, of_another_kind(weights))).generate(PROMPTS, 64, 3)
    for narrow, sequence in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(narrow.logits), np.array(sequence.logits), rtol=0, atol=1e-3)
        assert narrow.generated == sequence.generated


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [True, False])
def test_a_dense_weight_multiplies_and_adds_its_bias(dtype: torch.dtype, biased: bool) -> None:
    x, weight = torch.randn(5, 48).to(dtype), torch.randn(37, 48).to(dtype)
    bias = torch.randn(37).to(dtype) if biased else None
    y = dense(weight, bias)(x)
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert y.dtype == dtype
    np.testing.assert_allclose(y.double(), expected, atol=1e-4 if dtype == torch.float32 else 0.15)


def test_a_bias_of_another_size_is_named() -> None:
    with pytest.raises(ValueError, match=r"^bias: "):
        dense(torch.zeros(5, 8), torch.zeros(4))(torch.zeros(3, 8))
