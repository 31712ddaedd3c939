"""Angles of default and stretched rotary embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from node.model.families import parse_config
from node.model.rope import Rope
from node.model.rope_config import RopeConfig
from tests.model import tiny

CPU = torch.device("cpu")
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
}


def test_tables_hold_each_angle_twice_with_the_first_sine_negated() -> None:
    cos, sin = Rope(RopeConfig(theta=100.0, width=4), CPU).tables(torch.tensor([0, 7]))
    angles = np.array([[0.0, 0.0], [7.0, 0.7]])
    np.testing.assert_allclose(cos, np.cos(np.hstack([angles, angles])), atol=1e-6)
    np.testing.assert_allclose(sin, np.hstack([-np.sin(angles), np.sin(angles)]), atol=1e-6)


def test_yarn_keeps_fast_angles_divides_slow_ones_and_scales_the_tables() -> None:
    config = RopeConfig.parse({"rope_scaling": YARN, "rope_theta": 1e6}, 128, 1.0)
    one = torch.tensor([1])
    plain, far = Rope(RopeConfig(1e6, 128), CPU).tables(one), Rope(config, CPU).tables(one)
    scale = 0.1 * math.log(4.0) + 1.0
    plain_angles, angles = plain[1][0, 64:].asin(), (far[1][0, 64:] / scale).asin()
    np.testing.assert_allclose(angles[1:10], plain_angles[1:10], rtol=1e-4)
    np.testing.assert_allclose(angles[-10:] * 4, plain_angles[-10:], rtol=1e-4)
    np.testing.assert_allclose((far[0] ** 2 + far[1] ** 2)[0], scale**2, rtol=1e-5)


@pytest.mark.parametrize("partial", [1.0, 0.25])
def test_yarn_gives_the_frequencies_of_transformers(partial: float) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    settings = {**YARN, "partial_rotary_factor": partial}
    theirs = transformers.Qwen3Config(head_dim=128, rope_parameters=dict(settings))
    frequencies, scale = ROPE_INIT_FUNCTIONS["yarn"](theirs, CPU)
    text = {**tiny.CONFIGS["qwen3"], "head_dim": 128, "rope_parameters": settings}
    cos, sin = Rope(parse_config(text).rope, CPU).tables(torch.tensor([3]))
    half = len(frequencies)
    np.testing.assert_allclose(cos[0, half:], (frequencies * 3).cos() * scale, atol=1e-6)
    np.testing.assert_allclose(sin[0, half:], (frequencies * 3).sin() * scale, atol=1e-6)


def test_three_axes_that_agree_are_one() -> None:
    rope = Rope(RopeConfig(1e4, 64, sections=(11, 11, 10)), CPU)
    positions = torch.tensor([0, 5, 900])
    for one, three in zip(rope.tables(positions), rope.tables(positions.expand(3, -1)), strict=True):
        assert torch.equal(one, three)


def test_three_axes_give_the_tables_of_transformers() -> None:
    pytest.importorskip("transformers")
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextRotaryEmbedding

    settings = {
        "rope_type": "default",
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    }
    theirs = Qwen3_5TextRotaryEmbedding(Qwen3_5TextConfig(head_dim=256, rope_parameters=dict(settings)))
    positions = torch.tensor([[7, 7, 7, 30], [7, 8, 9, 30], [7, 20, 21, 30]])
    expected_cos, expected_sin = theirs(torch.zeros(1), positions[:, None])
    cos, sin = Rope(RopeConfig.parse({"rope_parameters": settings}, 256, 1.0), CPU).tables(positions)
    np.testing.assert_allclose(cos, expected_cos[0], atol=1e-6)
    np.testing.assert_allclose(sin[:, 32:], expected_sin[0, :, 32:], atol=1e-6)


def test_three_axes_are_refused_where_the_model_has_one() -> None:
    with pytest.raises(ValueError, match="axes"):
        Rope(RopeConfig(1e4, 64), CPU).tables(torch.zeros(3, 2, dtype=torch.int64))
