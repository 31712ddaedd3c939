"""Ids much less likely than the likeliest become −inf, in place (Nguyen et al., arXiv 2407.01082).

    l[s, v] ← −inf  where  softmax(l[s] / τ_s)[v] < m_s · max softmax(l[s] / τ_s)

S rows over V ids; τ temperature, m the share. The softmax cancels: l[s, v] < max l[s] + τ_s · ln m_s.
"""

from __future__ import annotations

from torch import Tensor

from kernels.contract import FLOAT32, check, check_rank
from kernels.device import jit, launch, tl, up_to_power_of_2, uses_triton
from kernels.sample_parts import PART, parts


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
    if not uses_triton(logits):
        reference(logits, temperature, min_p)
        return
    vocabulary = logits.shape[1]
    peaks, _ = parts(logits, temperature, vocabulary)
    launch(
        min_p_kernel,
        (-(-vocabulary // PART), rows),
        *(logits, vocabulary, temperature, min_p, peaks, peaks.shape[1]),
        PART=PART,
        PEAKS=up_to_power_of_2(peaks.shape[1]),
        num_warps=8,
    )


@jit(do_not_specialize_on_alignment=["temperature_ptr", "min_p_ptr"])
def min_p_kernel(
    logits_ptr,
    vocabulary,
    temperature_ptr,
    min_p_ptr,
    peaks_ptr,
    count,
    PART: tl.constexpr,
    PEAKS: tl.constexpr,
):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    temperature, share = tl.load(temperature_ptr + row), tl.load(min_p_ptr + row)
    if (share > 0) & (temperature > 0):
        i = tl.arange(0, PEAKS)
        highest = tl.max(tl.load(peaks_ptr + row * count + i, mask=i < count, other=float("-inf")))
        least = highest + temperature * tl.log(share)
        ids = part * PART + tl.arange(0, PART)
        here = ids < vocabulary
        x = tl.load(logits_ptr + row * vocabulary + ids, mask=here, other=0.0)
        tl.store(logits_ptr + row * vocabulary + ids, float("-inf"), mask=here & (x < least))
