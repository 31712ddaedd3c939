"""The forms of the demo network agree: packed rows, rows alone, token by token, and transformers."""

import pytest
import torch

from weights.demo import network, recurrent
from weights.demo.network import Shape

SHAPE = Shape(vocab=64, hidden=32, intermediate=48, layers=4, head_dim=16, rope_dims=4, delta_dim=16)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def weights():
    """Larger than fresh ones, so that every part counts."""
    random = torch.Generator().manual_seed(3)
    fresh = network.init(SHAPE, seed=2)
    return {name: w + 0.15 * torch.randn(w.shape, generator=random) for name, w in fresh.items()}


def forward(weights, ids, owner):
    packed = network.pack(SHAPE, owner, torch.float32)
    return network.logits(weights, network.hidden(SHAPE, weights, ids, packed))


def test_packed_conversations_equal_separate_runs(weights):
    lengths = [3, 70, 1, 55, 63]
    ids = torch.randint(0, SHAPE.vocab, (1, sum(lengths)), generator=torch.Generator().manual_seed(1))
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[None]
    together = forward(weights, ids, owner)
    start = 0
    for length in lengths:
        alone = torch.zeros(1, 128, dtype=torch.int64)
        alone[:, :length] = ids[:, start : start + length]
        apart = forward(weights, alone, (torch.arange(128) >= length).long()[None])
        torch.testing.assert_close(
            together[:, start : start + length], apart[:, :length], atol=1e-4, rtol=1e-4
        )
        start += length


def test_token_by_token_equals_the_chunked_form(weights):
    ids = torch.randint(0, SHAPE.vocab, (3, 128), generator=torch.Generator().manual_seed(1))
    whole = forward(weights, ids, torch.zeros_like(ids))
    decoder = recurrent.Decoder(SHAPE, weights, rows=3, capacity=128)
    steps = torch.stack([decoder.step(ids[:, t]) for t in range(128)], 1)
    torch.testing.assert_close(steps, whole, atol=1e-4, rtol=1e-4)


def test_a_row_that_ends_leaves_the_others_as_they_were(weights):
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [1, 2, 3]]
    together = recurrent.generate(SHAPE, weights, prompts, end=7, limit=12)
    apart = [recurrent.generate(SHAPE, weights, [prompt], end=7, limit=12)[0] for prompt in prompts]
    assert together == apart


def test_gradient_of_the_inverse_is_the_numeric_one():
    a = (
        torch.randn(2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        .tril(-1)
        .requires_grad_()
    )
    assert torch.autograd.gradcheck(lambda m: network.UnitLowerInverse.apply(m.tril(-1)), a)
