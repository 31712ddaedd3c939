"""Norms, gates, the small product and the prologue against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels import attention_prologue, gated_rms_norm, output_gate, rms_norm, small_gemm, swiglu
from kernels.constants import PAGE

EPS = 1e-6
# What float32 arithmetic and one rounding to the type leave; the interpreter truncates to bfloat16.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
DTYPES = list(TOLERANCE)


def wide(x: Tensor) -> np.ndarray:
    return x.double().numpy()


def close(actual: Tensor, expected: np.ndarray) -> None:
    tolerance = TOLERANCE[actual.dtype]
    np.testing.assert_allclose(wide(actual), expected, rtol=tolerance, atol=tolerance)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero_centred", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(0, 64), (1, 896), (5, 33)])
def test_norm_adds_the_residual_first(rows: int, width: int, zero_centred: bool, dtype: torch.dtype) -> None:
    x, residual, weight = (torch.randn(shape).to(dtype) for shape in ((rows, width), (rows, width), (width,)))
    y, total = rms_norm.rms_norm(x, residual, weight, EPS, zero_centred)
    close(total, wide(x) + wide(residual))
    close(y, unit(wide(total)) * (wide(weight) + zero_centred))
    alone, same = rms_norm.rms_norm(x, None, weight, EPS, zero_centred)
    assert same is x
    close(alone, unit(wide(x)) * (wide(weight) + zero_centred))
    if dtype != torch.bfloat16:
        expected, _ = rms_norm.reference(x, residual, weight, EPS, zero_centred)
        torch.testing.assert_close(y, expected, rtol=TOLERANCE[dtype], atol=1e-6)


def test_sums_norms_and_gates_round_where_torch_does() -> None:
    x, residual = torch.randn(8, 512).half(), torch.randn(8, 512).half()
    weight = torch.randn(512).half()
    pairs = [
        (swiglu.swiglu(x), swiglu.reference(x)),
        (output_gate.output_gate(x, residual), output_gate.reference(x, residual)),
    ]
    for zero_centred in (True, False):
        given = (x, residual, weight, EPS, zero_centred)
        pairs += zip(rms_norm.rms_norm(*given), rms_norm.reference(*given), strict=True)
    for actual, expected in pairs:
        # A last bit of float32 may still tip a value; a rounding left out moves every fifth or more.
        assert (actual != expected).float().mean() < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "width"), [(3, 8), (17, 128), (5, 24)])
def test_gated_norm_precedes_its_gate(heads: int, width: int, dtype: torch.dtype) -> None:
    o, weight = torch.randn(5, heads, width), torch.randn(width)
    z = torch.randn(5, heads * width + 6).to(dtype)[:, 2:-4]
    y = gated_rms_norm.gated_rms_norm(o, z, weight, EPS)
    gate = (wide(z) * sigmoid(wide(z))).reshape(o.shape)
    close(y, (unit(wide(o)) * wide(weight) * gate).reshape(5, -1))
    torch.testing.assert_close(
        y, gated_rms_norm.reference(o, z, weight, EPS), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(0, 16), (1, 7), (3, 1030)])
def test_gates_of_mlp_and_attention(rows: int, width: int, dtype: torch.dtype) -> None:
    x, merged = torch.randn(rows, 2 * width).to(dtype), torch.randn(rows, width + 5).to(dtype)
    gate, up = wide(x[:, :width]), wide(x[:, width:])
    close(swiglu.swiglu(x), gate * sigmoid(gate) * up)
    o = x[:, :width].contiguous()
    close(output_gate.output_gate(o, merged[:, 5:]), wide(o) * sigmoid(wide(merged[:, 5:])))
    if dtype != torch.bfloat16:
        same = {"rtol": TOLERANCE[dtype], "atol": 1e-6}
        torch.testing.assert_close(swiglu.swiglu(x), swiglu.reference(x), **same)
        torch.testing.assert_close(
            output_gate.output_gate(o, merged[:, 5:]), output_gate.reference(o, merged[:, 5:]), **same
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "inner", "outputs"), [(0, 8, 8), (1, 300, 100), (5, 1030, 64), (16, 64, 1100)]
)
def test_small_products(rows: int, inner: int, outputs: int, dtype: torch.dtype) -> None:
    x, weight = torch.randn(rows, inner).to(dtype), (torch.randn(outputs, inner) / inner**0.5).to(dtype)
    close(small_gemm.small_gemm(x, weight), wide(x) @ wide(weight).T)


def test_small_products_refuse_more_rows_than_a_tile() -> None:
    with pytest.raises(ValueError, match=r"^x: 17 rows"):
        small_gemm.small_gemm(torch.zeros(17, 8), torch.zeros(8, 8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "turned", "gated", "normed"),
    [
        (4, 1, 256, 64, True, True),
        (8, 2, 256, 64, True, True),
        (5, 5, 128, 128, False, True),
        (7, 1, 64, 64, False, False),
    ],
)
def test_prologue_norms_turns_and_writes_only_its_slots(
    heads: int, kv_heads: int, width: int, turned: int, gated: bool, normed: bool, dtype: torch.dtype
) -> None:
    tokens = 5
    x = torch.randn(tokens, (heads + 2 * kv_heads + (heads if gated else 0)) * width).to(dtype)
    norms = (torch.randn(width).to(dtype), torch.randn(width).to(dtype)) if normed else None
    angles = torch.randn(tokens, turned // 2)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([-angles.sin(), angles.sin()], -1)
    pages = [torch.full((3, PAGE, kv_heads, width), torch.nan, dtype=dtype) for _ in range(4)]
    slot_mapping = torch.tensor([64, 191, 65, 130, 127])
    given = (x, norms, EPS, gated, cos, sin)
    q, gate = attention_prologue.attention_prologue(*given, *pages[:2], slot_mapping, heads)

    u = wide(x).reshape(tokens, -1, width)[:, : heads + kv_heads].copy()
    if norms is not None:
        q_norm, k_norm = (wide(norm) + gated for norm in norms)
        u = unit(u) * np.concatenate([np.tile(q_norm, (heads, 1)), np.tile(k_norm, (kv_heads, 1))])
    a, b = u[..., : turned // 2].copy(), u[..., turned // 2 : turned].copy()
    c, s = (wide(t)[:, None] for t in (angles.cos(), angles.sin()))
    u[..., : turned // 2], u[..., turned // 2 : turned] = a * c - b * s, b * c + a * s
    np.testing.assert_allclose(wide(q), u[:, :heads], rtol=0, atol=5 * TOLERANCE[dtype])
    k, v = (one.view(-1, kv_heads, width) for one in pages[:2])
    np.testing.assert_allclose(wide(k[slot_mapping]), u[:, heads:], rtol=0, atol=5 * TOLERANCE[dtype])
    values = x[:, (heads + kv_heads) * width : (heads + 2 * kv_heads) * width]
    assert torch.equal(v[slot_mapping], values.reshape(tokens, kv_heads, width))
    for one in (k, v):
        assert int((~one.isnan()).any(-1).any(-1).sum()) == tokens

    expected_q, expected_gate = attention_prologue.reference(*given, *pages[2:], slot_mapping, heads)
    torch.testing.assert_close(q, expected_q, rtol=0, atol=5 * TOLERANCE[dtype])
    if expected_gate is None:
        assert gate is None
    else:
        assert gate is not None
        assert torch.equal(gate, expected_gate)
        assert gate.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_prologue_of_no_tokens() -> None:
    x, turns = torch.zeros(0, 6 * 64), torch.zeros(0, 64)
    pages = [torch.full((1, PAGE, 1, 64), torch.nan) for _ in range(2)]
    slot_mapping = torch.zeros(0, dtype=torch.int64)
    q, _ = attention_prologue.attention_prologue(x, None, EPS, False, turns, turns, *pages, slot_mapping, 4)
    assert q.shape == (0, 4, 64)
    assert all(bool(one.isnan().all()) for one in pages)
