"""Norms, gates and products against float64 formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.gated_rms_norm import gated_rms_norm
from kernels.linear import linear, prepare
from kernels.output_gate import output_gate
from kernels.rms_norm import rms_norm
from kernels.swiglu import swiglu


def wide(x: Tensor) -> np.ndarray:
    return x.double().numpy()


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("zero_centred", [True, False])
def test_norm_adds_the_residual_first(rows: int, zero_centred: bool) -> None:
    x, residual, weight = torch.randn(rows, 33), torch.randn(rows, 33), torch.randn(33)
    y, total = rms_norm(x, residual, weight, 1e-6, zero_centred)
    np.testing.assert_allclose(total, wide(x) + wide(residual), atol=1e-6)
    np.testing.assert_allclose(y, unit(wide(x) + wide(residual)) * (wide(weight) + zero_centred), atol=1e-5)
    y, total = rms_norm(x, None, weight, 1e-6, zero_centred)
    assert total is x
    np.testing.assert_allclose(y, unit(wide(x)) * (wide(weight) + zero_centred), atol=1e-5)


def test_the_two_forms_of_norm_round_where_their_models_do() -> None:
    x, weight = torch.randn(4, 64).bfloat16(), (torch.randn(64) * 0.3).bfloat16()
    plain, _ = rms_norm(x, None, weight, 1e-6, False)
    rounded = torch.from_numpy(unit(wide(x))).to(torch.float32).bfloat16()
    assert torch.equal(plain, rounded * weight)
    centred, _ = rms_norm(x, None, weight, 1e-6, True)
    exact = torch.from_numpy(unit(wide(x)) * (1 + wide(weight))).to(torch.float32)
    assert torch.equal(centred, exact.bfloat16())


def test_gated_norm_precedes_its_gate() -> None:
    o, merged, weight = torch.randn(5, 3, 8), torch.randn(5, 30), torch.randn(8)
    z = merged[:, 2:26]
    gate = (wide(z) * sigmoid(wide(z))).reshape(5, 3, 8)
    expected = unit(wide(o)) * wide(weight) * gate
    np.testing.assert_allclose(gated_rms_norm(o, z, weight, 1e-6), expected.reshape(5, 24), atol=1e-5)


def test_gates_of_mlp_and_attention() -> None:
    x, merged = torch.randn(5, 14), torch.randn(5, 20)
    gate, up = wide(x[:, :7]), wide(x[:, 7:])
    np.testing.assert_allclose(swiglu(x), gate * sigmoid(gate) * up, atol=1e-6)
    expected = wide(x) * sigmoid(wide(merged[:, 6:]))
    np.testing.assert_allclose(output_gate(x, merged[:, 6:]), expected, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_prepared_weights_multiply_like_plain_ones(rows: int, dtype: torch.dtype) -> None:
    x, weight, bias = (torch.randn(shape).to(dtype) for shape in ((rows, 48), (37, 48), (37,)))
    tolerance = 1e-4 if dtype == torch.float32 else 0.15
    product = wide(x) @ wide(weight).T
    np.testing.assert_allclose(wide(linear(x, prepare(weight))), product, atol=tolerance)
    np.testing.assert_allclose(wide(linear(x, prepare(weight), bias)), product + wide(bias), atol=tolerance)


X = torch.zeros(3, 8)
WRONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "x": (rms_norm, (X.T, None, torch.zeros(3), 1e-6, True)),
    "residual": (rms_norm, (X, X[:2], torch.zeros(8), 1e-6, True)),
    "weight": (rms_norm, (X, None, torch.zeros(8).bfloat16(), 1e-6, True)),
    "o": (gated_rms_norm, (torch.zeros(3, 2, 4).bfloat16(), X, torch.zeros(4), 1e-6)),
    "z": (gated_rms_norm, (torch.zeros(3, 2, 4), torch.zeros(3, 7), torch.zeros(4), 1e-6)),
    "gate_up": (swiglu, (torch.zeros(3, 7),)),
    "gate": (output_gate, (X, torch.zeros(8, 3).T)),
    "bias": (linear, (X, torch.zeros(5, 8), torch.zeros(4))),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_argument_that_does_not_fit_is_named(name: str) -> None:
    launcher, arguments = WRONG[name]
    with pytest.raises(ValueError, match=rf"^{name}: "):
        launcher(*arguments)


def test_linear_names_a_weight_of_another_width() -> None:
    with pytest.raises(ValueError, match=r"^weight: "):
        linear(X, torch.zeros(5, 7))
