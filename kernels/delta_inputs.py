"""What the kernels of a gated delta layer are given: columns of new tokens, the layer's weights, and its states."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from kernels.contract import FLOAT32, FLOATS, check, check_rank


class DeltaInputs(NamedTuple):
    """A gated delta layer between its projections, for N new tokens.

    Hk key heads of Dk, Hv value heads of Dv, C = 2·Hk·Dk + Hv·Dv columns, a convolution over K tokens.

    qkv             [N, C]               float32, bfloat16 or float16; may be a slice of wider rows
    a, b            [N, Hv]              the same
    conv_weight     [K, C]               float32, the newest token's last
    a_log, dt_bias  [Hv]                 float32
    states          [slots, Hv, Dk, Dv]  float32, contiguous; kernels change it in place
    conv_state      [slots, K − 1, C]    the type of qkv, contiguous, oldest first; likewise
    """

    qkv: Tensor
    a: Tensor
    b: Tensor
    conv_weight: Tensor
    a_log: Tensor
    dt_bias: Tensor
    states: Tensor
    conv_state: Tensor

    @property
    def key_heads(self) -> int:
        """Hk: whatever columns the value heads leave are queries and keys."""
        value_heads, key_dim, value_dim = self.states.shape[1:]
        return (self.conv_weight.shape[1] - value_heads * value_dim) // (2 * key_dim)

    def of_tokens(self, tokens: slice) -> DeltaInputs:
        """The same layer for some of the tokens."""
        return self._replace(qkv=self.qkv[tokens], a=self.a[tokens], b=self.b[tokens])

    def check(self) -> None:
        """Raise ValueError naming the field that breaks the contract above."""
        check_rank("states", self.states, "SHKV")
        check_rank("conv_weight", self.conv_weight, "KC")
        check_rank("qkv", self.qkv, "NC")
        slots, value_heads, key_dim, value_dim = self.states.shape
        kernel, columns = self.conv_weight.shape
        keys = columns - value_heads * value_dim
        if keys <= 0 or keys % (2 * key_dim) or value_heads % self.key_heads:
            raise ValueError(
                f"conv_weight: {columns} columns do not hold q, k and v of {self.states.shape[1:]}"
            )
        check("conv_weight", self.conv_weight, self.conv_weight.shape, FLOAT32)
        check("states", self.states, self.states.shape, FLOAT32)
        check("qkv", self.qkv, (self.qkv.shape[0], columns), FLOATS, strided=True)
        for name, gate in (("a", self.a), ("b", self.b)):
            check(name, gate, (self.qkv.shape[0], value_heads), (self.qkv.dtype,), strided=True)
        check("a_log", self.a_log, (value_heads,), FLOAT32)
        check("dt_bias", self.dt_bias, (value_heads,), FLOAT32)
        check("conv_state", self.conv_state, (slots, kernel - 1, columns), (self.qkv.dtype,))
