"""The training forward: the Qwen3.5 network over rows that pack several conversations.

The parameters live in a plain dict whose keys are the checkpoint's tensor names without their prefix, so
that a layer is a slice of that dict and one compiled function serves every layer of its kind.

Letters: B rows, T tokens a row, H hidden, D head width, C chunk, S recurrent state.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weights.demo.convolution import convolve

EPS = 1e-6
CHUNK = 64
# Log decay at a conversation's first token: e^-30 of the neighbour's state is nothing in float32.
FORGET = -30.0

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the network.

    Every other layer attends, not every fourth: with so few layers a fetch must not come last only.
    """

    vocab: int = 2048
    hidden: int = 256
    intermediate: int = 768
    layers: int = 6
    attend_every: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    delta_heads: int = 4
    delta_dim: int = 64
    conv: int = 4
    rope_theta: float = 10_000.0
    rope_dims: int = 16

    @property
    def kinds(self) -> list[str]:
        return [
            "full_attention" if (n + 1) % self.attend_every == 0 else "linear_attention"
            for n in range(self.layers)
        ]

    def as_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Packing:
    """Where conversations lie in a batch of rows; the same for every layer.

    position  int64 [B, T]        place of a token in its own conversation
    mask      float [B, 1, T, T]  0 where a query may look, -inf elsewhere
    cos, sin  float [B, T, 1, rope_dims / 2]
    """

    position: Tensor
    mask: Tensor
    cos: Tensor
    sin: Tensor


def pack(shape: Shape, owner: Tensor, dtype: torch.dtype = torch.bfloat16) -> Packing:
    """`owner` int64 [B, T] numbers the conversation of each token, rising along a row."""
    rows, length = owner.shape
    at = torch.arange(length)
    fresh = torch.ones_like(owner, dtype=torch.bool)
    fresh[:, 1:] = owner[:, 1:] != owner[:, :-1]
    position = at - torch.where(fresh, at, 0).cummax(dim=1).values
    same = owner[:, :, None] == owner[:, None, :]
    allowed = same & (at[:, None] >= at[None, :])
    mask = torch.zeros(rows, 1, length, length, dtype=dtype).masked_fill_(~allowed[:, None], -math.inf)
    rate = shape.rope_theta ** (-torch.arange(0, shape.rope_dims, 2).float() / shape.rope_dims)
    angle = position[..., None, None].float() * rate
    return Packing(position, mask, angle.cos(), angle.sin())


def init(shape: Shape, seed: int) -> Weights:
    """Fresh float32 parameters. Norms that scale by 1 + w start at w = 0."""
    random = torch.Generator().manual_seed(seed)

    def normal(*size: int, std: float = 0.02) -> Tensor:
        return torch.randn(*size, generator=random) * std

    h, wide, out_std = shape.hidden, shape.delta_heads * shape.delta_dim, 0.02 / math.sqrt(2 * shape.layers)
    weights = {"embed_tokens.weight": normal(shape.vocab, h), "norm.weight": torch.zeros(h)}
    for n, kind in enumerate(shape.kinds):
        if kind == "full_attention":
            mixer = {
                "self_attn.q_proj.weight": normal(shape.heads * 2 * shape.head_dim, h),
                "self_attn.k_proj.weight": normal(shape.kv_heads * shape.head_dim, h),
                "self_attn.v_proj.weight": normal(shape.kv_heads * shape.head_dim, h),
                "self_attn.o_proj.weight": normal(h, shape.heads * shape.head_dim, std=out_std),
                "self_attn.q_norm.weight": torch.zeros(shape.head_dim),
                "self_attn.k_norm.weight": torch.zeros(shape.head_dim),
            }
        else:
            conv = normal(3 * wide, 1, shape.conv, std=0.1)
            conv[..., -1] += 0.5  # the newest token speaks first
            # Decay times spread from one token to a thousand over the heads.
            dt = torch.exp(torch.linspace(math.log(0.001), math.log(0.1), shape.delta_heads))
            mixer = {
                "linear_attn.in_proj_qkv.weight": normal(3 * wide, h),
                "linear_attn.in_proj_z.weight": normal(wide, h),
                "linear_attn.in_proj_b.weight": normal(shape.delta_heads, h),
                "linear_attn.in_proj_a.weight": normal(shape.delta_heads, h),
                "linear_attn.conv1d.weight": conv,
                "linear_attn.A_log": torch.empty(shape.delta_heads).uniform_(1, 8, generator=random).log(),
                "linear_attn.dt_bias": dt + torch.log(-torch.expm1(-dt)),
                "linear_attn.norm.weight": torch.ones(shape.delta_dim),
                "linear_attn.out_proj.weight": normal(h, wide, std=out_std),
            }
        rest = {
            "input_layernorm.weight": torch.zeros(h),
            "post_attention_layernorm.weight": torch.zeros(h),
            "mlp.gate_proj.weight": normal(shape.intermediate, h),
            "mlp.up_proj.weight": normal(shape.intermediate, h),
            "mlp.down_proj.weight": normal(h, shape.intermediate, std=out_std),
        }
        weights |= {f"layers.{n}.{name}": tensor for name, tensor in (mixer | rest).items()}
    return weights


def of_layer(weights: Weights, n: int) -> Weights:
    prefix = f"layers.{n}."
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}


def norm(x: Tensor, w: Tensor) -> Tensor:
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPS) * (1 + w.float())).to(x.dtype)


def linear(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w.to(x.dtype))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position on the first entries of each head, in halves; x [B, T, heads, D]."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    return torch.cat([(a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype), rest], -1)


def attend(shape: Shape, w: Weights, x: Tensor, p: Packing) -> Tensor:
    """Softmax attention with a gate on its output; the query and its gate lie side by side in each head."""
    rows, length, _ = x.shape
    q, gate = linear(x, w["self_attn.q_proj.weight"]).view(rows, length, shape.heads, -1).chunk(2, -1)
    k = linear(x, w["self_attn.k_proj.weight"]).view(rows, length, shape.kv_heads, -1)
    v = linear(x, w["self_attn.v_proj.weight"]).view(rows, length, shape.kv_heads, -1)
    q = rotate(norm(q, w["self_attn.q_norm.weight"]), p.cos, p.sin).transpose(1, 2)
    k = rotate(norm(k, w["self_attn.k_norm.weight"]), p.cos, p.sin).transpose(1, 2)
    share = shape.heads // shape.kv_heads
    k, v = k.repeat_interleave(share, 1), v.transpose(1, 2).repeat_interleave(share, 1)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=p.mask)
    o = o.transpose(1, 2).reshape(rows, length, -1) * torch.sigmoid(gate.reshape(rows, length, -1))
    return linear(o, w["self_attn.o_proj.weight"])


class UnitLowerInverse(torch.autograd.Function):
    """(I + A)^-1 of a strictly lower A, float32 [..., C, C]; the gradient needs the inverse only."""

    @staticmethod
    def forward(ctx, a: Tensor) -> Tensor:
        eye = torch.eye(a.shape[-1], dtype=a.dtype).expand_as(a)
        inverse = torch.linalg.solve_triangular(a, eye, upper=False, unitriangular=True)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        turned = inverse.transpose(-1, -2)
        return -(turned @ grad @ turned).tril(-1)


def delta(shape: Shape, w: Weights, x: Tensor, p: Packing) -> Tensor:
    """The gated delta rule in chunks; every conversation starts with S = 0.

    S <- a S + k (b (v - (a S)^T k))^T,  o = S^T q
    """
    rows, length, _ = x.shape
    heads, width, chunks = shape.delta_heads, shape.delta_dim, length // CHUNK
    qkv = linear(x, w["linear_attn.in_proj_qkv.weight"])
    conv_weight = w["linear_attn.conv1d.weight"][:, 0].to(x.dtype)
    mixed = F.silu(convolve(qkv, conv_weight, p.position))

    def split(t: Tensor) -> Tensor:  # [B, T, heads * ...] -> [B, heads, chunks, C, ...]
        return t.view(rows, chunks, CHUNK, heads, -1).permute(0, 3, 1, 2, 4)

    q, k, v = (split(t) for t in mixed.chunk(3, -1))
    q = q.float() * torch.rsqrt(q.float().square().sum(-1, keepdim=True) + EPS) * width**-0.5
    k = k.float() * torch.rsqrt(k.float().square().sum(-1, keepdim=True) + EPS)
    beta = torch.sigmoid(split(linear(x, w["linear_attn.in_proj_b.weight"])).float())
    a = linear(x, w["linear_attn.in_proj_a.weight"]).float() + w["linear_attn.dt_bias"]
    g = -torch.exp(w["linear_attn.A_log"].float()) * F.softplus(a)
    g = torch.where((p.position == 0)[..., None], FORGET, g)
    G = split(g).squeeze(-1).cumsum(-1)  # log decay since the chunk's start, [B, heads, chunks, C]

    kind = x.dtype
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    decay = torch.where(lower, G[..., :, None] - G[..., None, :], -math.inf).exp()
    kb, qb = k.to(kind), q.to(kind)
    A = ((beta * k).to(kind) @ kb.transpose(-1, -2)).float() * decay
    inverse = UnitLowerInverse.apply(A.tril(-1)).to(kind)
    U = inverse @ (beta * v.float()).to(kind)
    W = inverse @ (beta * k * G.exp()[..., None]).to(kind)
    seen_q = (q * G.exp()[..., None]).to(kind)
    last = G[..., -1:]
    kept_k = (k * (last - G).exp()[..., None]).to(kind).transpose(-1, -2)
    inside = ((qb @ kb.transpose(-1, -2)).float() * decay).to(kind)

    S = torch.zeros(rows, heads, width, width)
    fresh, carried = [], []
    for c in range(chunks):
        Sb = S.to(kind)
        new = U[:, :, c] - W[:, :, c] @ Sb
        carried.append(seen_q[:, :, c] @ Sb)
        fresh.append(new)
        S = S * last[:, :, c, :, None].exp() + (kept_k[:, :, c] @ new).float()
    o = torch.stack(carried, 2) + inside @ torch.stack(fresh, 2)

    o = o.permute(0, 2, 3, 1, 4).reshape(rows, length, heads, width).float()
    o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + EPS) * w["linear_attn.norm.weight"].float()
    z = linear(x, w["linear_attn.in_proj_z.weight"]).view(rows, length, heads, width)
    o = (o * F.silu(z.float())).to(kind).reshape(rows, length, -1)
    return linear(o, w["linear_attn.out_proj.weight"])


def layer(shape: Shape, w: Weights, x: Tensor, p: Packing) -> Tensor:
    mix = attend if "self_attn.q_proj.weight" in w else delta
    x = x + mix(shape, w, norm(x, w["input_layernorm.weight"]), p)
    u = norm(x, w["post_attention_layernorm.weight"])
    u = F.silu(linear(u, w["mlp.gate_proj.weight"])) * linear(u, w["mlp.up_proj.weight"])
    return x + linear(u, w["mlp.down_proj.weight"])


def hidden(shape: Shape, weights: Weights, ids: Tensor, p: Packing, run=layer) -> Tensor:
    """States after the final norm, [B, T, H], in the mask's type. `run` is `layer` or its compiled twin."""
    x = F.embedding(ids, weights["embed_tokens.weight"]).to(p.mask.dtype)
    for n in range(shape.layers):
        x = run(shape, of_layer(weights, n), x, p)
    return norm(x, weights["norm.weight"])


def logits(weights: Weights, states: Tensor) -> Tensor:
    return linear(states, weights["embed_tokens.weight"]).float()
