"""Qwen in float64 numpy, token by token: nothing paged, chunked, merged or shared with the node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class PlainQwen:
    """One sequence. weights: float64 arrays by published name; config: the parsed config.json."""

    def __init__(self, config: dict[str, Any], weights: dict[str, Array]) -> None:
        self.hybrid = "text_config" in config
        self.text = config.get("text_config", config)
        self.w = weights
        self.root = "model.language_model." if self.hybrid else "model."
        self.keys: dict[int, list[Array]] = {}
        self.values: dict[int, list[Array]] = {}
        self.window: dict[int, list[Array]] = {}
        self.state: dict[int, Array] = {}

    def run(self, ids: list[int]) -> Array:
        """Logits [len, V]."""
        return np.stack([self.token(token, position) for position, token in enumerate(ids)])

    def token(self, token: int, position: int) -> Array:
        table = self.w[self.root + "embed_tokens.weight"]
        x = table[token]
        for n in range(self.text["num_hidden_layers"]):
            at = f"{self.root}layers.{n}."
            mixer = self.delta if at + "linear_attn.A_log" in self.w else self.attention
            x = x + mixer(n, at, self.norm(x, at + "input_layernorm"), position)
            u = self.norm(x, at + "post_attention_layernorm")
            gate, up = (self.w[at + f"mlp.{name}_proj.weight"] @ u for name in ("gate", "up"))
            x = x + self.w[at + "mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        return self.w.get("lm_head.weight", table) @ self.norm(x, self.root + "norm")

    def norm(self, x: Array, name: str) -> Array:
        scale = self.w[name + ".weight"] + (1 if self.hybrid else 0)
        return x * (np.mean(x**2) + self.text["rms_norm_eps"]) ** -0.5 * scale

    def turn(self, x: Array, position: int) -> Array:
        """Rotate the leading entries of one head, halves against each other."""
        rope = self.text.get("rope_parameters", {})
        theta = rope.get("rope_theta", self.text.get("rope_theta"))
        width = int(len(x) * rope.get("partial_rotary_factor", 1))
        out = x.copy()
        for i in range(width // 2):
            angle = position * theta ** (-2 * i / width)
            a, b = x[i], x[i + width // 2]
            out[i] = a * np.cos(angle) - b * np.sin(angle)
            out[i + width // 2] = b * np.cos(angle) + a * np.sin(angle)
        return out

    def attention(self, n: int, at: str, x: Array, position: int) -> Array:
        at += "self_attn."
        heads, kv = self.text["num_attention_heads"], self.text["num_key_value_heads"]
        q, k, v = (
            self.w[f"{at}{name}_proj.weight"] @ x + self.w.get(f"{at}{name}_proj.bias", 0) for name in "qkv"
        )
        q, k, v = q.reshape(heads, -1), k.reshape(kv, -1), v.reshape(kv, -1)
        width = k.shape[1]
        gate = q[:, width:]
        q = q[:, :width]
        if at + "q_norm.weight" in self.w:
            q = np.stack([self.norm(head, at + "q_norm") for head in q])
            k = np.stack([self.norm(head, at + "k_norm") for head in k])
        self.keys.setdefault(n, []).append(np.stack([self.turn(head, position) for head in k]))
        self.values.setdefault(n, []).append(v)
        out = []
        for h in range(heads):
            own = h // (heads // kv)
            query = self.turn(q[h], position)
            scores = np.array([key[own] @ query for key in self.keys[n]]) / width**0.5
            weight = np.exp(scores - scores.max())
            seen = sum(p * value[own] for p, value in zip(weight, self.values[n], strict=True)) / weight.sum()
            out.append(seen / (1 + np.exp(-gate[h])) if gate.size else seen)
        return self.w[at + "o_proj.weight"] @ np.concatenate(out)

    def delta(self, n: int, at: str, x: Array, position: int) -> Array:
        at += "linear_attn."
        c = self.text
        hk, hv = c["linear_num_key_heads"], c["linear_num_value_heads"]
        dk, dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
        conv_weight = self.w[at + "conv1d.weight"][:, 0]
        seen = self.window.setdefault(n, [np.zeros(len(conv_weight))] * (conv_weight.shape[1] - 1))
        seen.append(self.w[at + "in_proj_qkv.weight"] @ x)
        mixed = sum(conv_weight[:, -1 - back] * seen[-1 - back] for back in range(conv_weight.shape[1]))
        mixed = mixed / (1 + np.exp(-mixed))
        q, k, v = np.split(mixed, [hk * dk, 2 * hk * dk])
        z = (self.w[at + "in_proj_z.weight"] @ x).reshape(hv, dv)
        beta = 1 / (1 + np.exp(-self.w[at + "in_proj_b.weight"] @ x))
        step = np.log1p(np.exp(self.w[at + "in_proj_a.weight"] @ x + self.w[at + "dt_bias"]))
        alpha = np.exp(-np.exp(self.w[at + "A_log"]) * step)
        state = self.state.setdefault(n, np.zeros((hv, dk, dv)))
        out = []
        for h in range(hv):
            own = h // (hv // hk)
            query, key = (y.reshape(hk, dk)[own] for y in (q, k))
            query = query * (np.sum(query**2) + 1e-6) ** -0.5 / dk**0.5
            key = key * (np.sum(key**2) + 1e-6) ** -0.5
            state[h] *= alpha[h]
            error = v.reshape(hv, dv)[h] - state[h].T @ key
            state[h] += np.outer(key, beta[h] * error)
            o = state[h].T @ query
            o = o * (np.mean(o**2) + c["rms_norm_eps"]) ** -0.5 * self.w[at + "norm.weight"]
            out.append(o * z[h] / (1 + np.exp(-z[h])))
        return self.w[at + "out_proj.weight"] @ np.concatenate(out)
