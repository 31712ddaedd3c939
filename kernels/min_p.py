"""Ids much less likely than the likeliest become −inf, in place (Nguyen et al., arXiv 2407.01082).

    l[s, v] ← −inf  where  softmax(l[s] / τ_s)[v] < m_s · max softmax(l[s] / τ_s)

S rows over V ids; τ temperature, m the share. The softmax cancels: l[s, v] < max l[s] + τ_s · ln m_s.
"""

from __future__ import annotations

from torch import Tensor

from kernels.contract import FLOAT32, check, check_rank


def reference(logits: Tensor, temperature: Tensor, min_p: Tensor) -> None:
    asked = (min_p > 0) & (temperature > 0)  # elsewhere 0 · ln 0 is not a number
    least = logits.max(dim=-1).values + temperature * min_p.log()
    logits.masked_fill_((logits < least[:, None]) & asked[:, None], float("-inf"))


def apply_min_p(logits: Tensor, temperature: Tensor, min_p: Tensor) -> None:
    """Change logits in place. Rows with min_p or temperature 0 keep what they have. Raises ValueError.

    logits              [S, V]  float32, contiguous
    temperature, min_p  [S]     float32; min_p in [0, 1]
    """
    check_rank("logits", logits, "SV")
    rows = logits.shape[0]
    check("logits", logits, logits.shape, FLOAT32)
    check("temperature", temperature, (rows,), FLOAT32)
    check("min_p", min_p, (rows,), FLOAT32)
    reference(logits, temperature, min_p)
