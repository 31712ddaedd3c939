"""Greedy decoding token by token, many prompts at once: the plain recurrent form of the network, in float32.

Every prompt starts at step 0 and is forced through its own length, so there is no padding; a row that ends
leaves the batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weights.demo.network import EPS, Shape, Weights, linear, norm, of_layer, rotate

ROWS = 96  # enough for large products, little enough for the caches to stay in the processor's


class Decoder:
    """State of N rows: keys and values where a layer attends, conv_state and S where it recurs."""

    def __init__(self, shape: Shape, weights: Weights, rows: int, capacity: int) -> None:
        self.shape, self.table = shape, weights["embed_tokens.weight"]
        self.last = weights["norm.weight"]
        self.layers = [of_layer(weights, n) for n in range(shape.layers)]
        self.place = 0
        wide = 3 * shape.delta_heads * shape.delta_dim
        cache = (rows, shape.kv_heads, capacity, shape.head_dim)
        self.state: list[tuple[Tensor, Tensor]] = [
            (torch.zeros(cache), torch.zeros(cache))
            if kind == "full_attention"
            else (
                torch.zeros(rows, wide, shape.conv),
                torch.zeros(rows, shape.delta_heads, shape.delta_dim, shape.delta_dim),
            )
            for kind in shape.kinds
        ]

    def keep(self, rows: Tensor) -> None:
        self.state = [(a[rows], b[rows]) for a, b in self.state]

    def step(self, ids: Tensor) -> Tensor:
        """Tokens [N] at one place -> logits [N, vocab]."""
        x = self.table[ids]
        for n, w in enumerate(self.layers):
            mix = self.attend if "self_attn.q_proj.weight" in w else self.delta
            x = x + mix(w, norm(x, w["input_layernorm.weight"]), *self.state[n])
            u = norm(x, w["post_attention_layernorm.weight"])
            u = F.silu(linear(u, w["mlp.gate_proj.weight"])) * linear(u, w["mlp.up_proj.weight"])
            x = x + linear(u, w["mlp.down_proj.weight"])
        self.place += 1
        return norm(x, self.last) @ self.table.T

    def attend(self, w: Weights, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        shape, rows = self.shape, len(x)
        rate = shape.rope_theta ** (-torch.arange(0, shape.rope_dims, 2).float() / shape.rope_dims)
        cos, sin = (self.place * rate).cos(), (self.place * rate).sin()
        q, gate = linear(x, w["self_attn.q_proj.weight"]).view(rows, shape.heads, -1).chunk(2, -1)
        q = rotate(norm(q, w["self_attn.q_norm.weight"]), cos, sin)
        k = linear(x, w["self_attn.k_proj.weight"]).view(rows, shape.kv_heads, -1)
        keys[:, :, self.place] = rotate(norm(k, w["self_attn.k_norm.weight"]), cos, sin)
        values[:, :, self.place] = linear(x, w["self_attn.v_proj.weight"]).view(rows, shape.kv_heads, -1)
        seen = slice(0, self.place + 1)
        q = q.view(rows, shape.kv_heads, -1, shape.head_dim)
        scores = (q @ keys[:, :, seen].transpose(-1, -2) * shape.head_dim**-0.5).softmax(-1)
        o = (scores @ values[:, :, seen]).reshape(rows, -1) * torch.sigmoid(gate.reshape(rows, -1))
        return linear(o, w["self_attn.o_proj.weight"])

    def delta(self, w: Weights, x: Tensor, columns: Tensor, S: Tensor) -> Tensor:
        shape, rows = self.shape, len(x)
        columns.copy_(columns.roll(-1, -1))
        columns[..., -1] = linear(x, w["linear_attn.in_proj_qkv.weight"])
        mixed = F.silu((columns * w["linear_attn.conv1d.weight"][:, 0]).sum(-1))
        q, k, v = mixed.view(rows, 3, shape.delta_heads, -1).unbind(1)
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + EPS) * shape.delta_dim**-0.5
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + EPS)
        beta = torch.sigmoid(linear(x, w["linear_attn.in_proj_b.weight"]))[..., None]
        pull = linear(x, w["linear_attn.in_proj_a.weight"]) + w["linear_attn.dt_bias"]
        S *= torch.exp(-w["linear_attn.A_log"].exp() * F.softplus(pull))[..., None, None]
        error = beta * (v - (k[..., None, :] @ S)[..., 0, :])
        S += k[..., None] * error[..., None, :]
        o = (q[..., None, :] @ S)[..., 0, :]
        o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + EPS) * w["linear_attn.norm.weight"]
        o = o * F.silu(linear(x, w["linear_attn.in_proj_z.weight"]).view_as(o))
        return linear(o.reshape(rows, -1), w["linear_attn.out_proj.weight"])


@torch.no_grad()
def generate(
    shape: Shape, weights: Weights, prompts: list[list[int]], end: int, limit: int
) -> list[list[int]]:
    """The likeliest continuation of each prompt, up to `limit` tokens; it holds `end` if the row ended."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    out: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), ROWS):
        live = order[start : start + ROWS]
        decoder = Decoder(shape, weights, len(live), max(len(prompts[n]) for n in live) + limit)
        tokens = [prompts[n][0] for n in live]
        while live:
            best = decoder.step(torch.tensor(tokens)).argmax(-1).tolist()
            going, tokens = [], []
            for row, n in enumerate(live):
                if decoder.place < len(prompts[n]):
                    token = prompts[n][decoder.place]
                else:
                    token = best[row]
                    out[n].append(token)
                    if token == end or len(out[n]) == limit:
                        continue
                going.append(row)
                tokens.append(token)
            if len(going) < len(live):
                decoder.keep(torch.tensor(going, dtype=torch.int64))
                live = [live[row] for row in going]
    return out
