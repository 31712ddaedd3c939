"""The causal depthwise convolution of the delta layers, y_t = sum_j w_j x_{t-j}, inside each conversation.

An operator of its own because the compiler's code for shifts and for the sum over all tokens is three times
slower than a few plain passes over memory; the sum is a product with a vector of ones.
"""

from __future__ import annotations

import torch
from torch import Tensor


def shifted(x: Tensor, position: Tensor, back: int) -> Tensor:
    """x [B, T, C] as `back` tokens earlier, [B, T - back, C]; zero across a conversation's start."""
    if back == 0:
        return x
    return x[:, :-back] * (position[:, back:] >= back)[..., None].to(x.dtype)


@torch.library.custom_op("b3os_demo::convolve", mutates_args=())
def convolve(x: Tensor, conv_weight: Tensor, position: Tensor) -> Tensor:
    """x [B, T, C], conv_weight [C, K] whose last meets the newest token, position int64 [B, T]."""
    y = x * conv_weight[:, -1]
    for back in range(1, conv_weight.shape[1]):
        y[:, back:].addcmul_(shifted(x, position, back), conv_weight[:, -1 - back])
    return y


@torch.library.custom_op("b3os_demo::convolve_backward", mutates_args=())
def convolve_backward(dy: Tensor, x: Tensor, conv_weight: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    dx, width = dy * conv_weight[:, -1], x.shape[-1]
    dconv_weight = torch.empty_like(conv_weight)
    for back in range(conv_weight.shape[1]):
        late = dy[:, back:]
        if back:
            inside = (position[:, back:] >= back)[..., None].to(dy.dtype)
            dx[:, :-back].addcmul_(late * inside, conv_weight[:, -1 - back])
        product = (late * shifted(x, position, back)).reshape(-1, width)
        dconv_weight[:, -1 - back] = product.new_ones(1, len(product)).mm(product)[0]
    return dx, dconv_weight


@convolve.register_fake
def _(x: Tensor, conv_weight: Tensor, position: Tensor) -> Tensor:
    return torch.empty_like(x)


@convolve_backward.register_fake
def _(dy: Tensor, x: Tensor, conv_weight: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(dy), torch.empty_like(conv_weight)


def remember(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def backward(ctx, dy: Tensor) -> tuple[Tensor, Tensor, None]:
    return *convolve_backward(dy.contiguous(), *ctx.saved_tensors), None


convolve.register_autograd(backward, setup_context=remember)
