"""y[m, o] = Σ_i x[m, i] · w[o, i] for M ≤ 16 rows, where a product moves its weight and little else.

One pass over w: programs take 64 outputs and a run of the inner dimension (split-K), the partial sums are float32,
and a second kernel adds them in order, so that equal inputs give equal bits. The node multiplies with
kernels/linear.py; this stands beside it as a bench row until a device has shown which is faster where.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.contract import FLOATS, check, check_rank
from kernels.device import WIDE, jit, launch, tl, triton, uses_triton

MOST_ROWS = 16  # one tile of the tensor cores
OUTPUTS, INNER, STAGES = 64, 128, 4  # 16 KB of w a stage: 80 KB with x, which fits sm_89
PROGRAMS = 264  # two an SM of an H200
MOST_SPLITS = 8


def reference(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight)


def small_gemm(x: Tensor, weight: Tensor) -> Tensor:
    """Return y [M, O] in the type of x.

    x       [M, I]  float32, bfloat16 or float16, contiguous, M at most 16
    weight  [O, I]  the type of x, contiguous
    """
    check_rank("x", x, "MI")
    check_rank("weight", weight, "OI")
    rows, inner = x.shape
    if rows > MOST_ROWS:
        raise ValueError(f"x: {rows} rows, expected at most {MOST_ROWS}")
    check("x", x, x.shape, FLOATS)
    check("weight", weight, (weight.shape[0], inner), (x.dtype,))
    if not uses_triton(x):
        return reference(x, weight)
    outputs = weight.shape[0]
    tiles, turns = triton.cdiv(outputs, OUTPUTS), triton.cdiv(inner, INNER)
    splits = max(min(PROGRAMS // tiles, turns, MOST_SPLITS), 1)
    each = triton.cdiv(turns, splits) * INNER
    y = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    parts = torch.empty(splits, rows, outputs, dtype=torch.float32, device=x.device) if splits > 1 else y
    form = {"O": outputs, "I": inner, "EACH": each, "OUTPUTS": OUTPUTS, "INNER": INNER, "M": MOST_ROWS}
    grid = (tiles, splits) if rows else (0,)
    launch(small_gemm_kernel, grid, x, weight, parts, rows, **form, STAGES=STAGES, WIDE=WIDE, num_warps=4)
    if splits > 1:
        grid = (rows, triton.cdiv(outputs, 1024))
        launch(
            add_splits_kernel,
            grid,
            parts,
            y,
            rows * outputs,
            O=outputs,
            SPLITS=splits,
            COLUMNS=1024,
            num_warps=4,
        )
    return y


@jit(do_not_specialize=["rows"])
def small_gemm_kernel(
    x_ptr, w_ptr, parts_ptr, rows,
    O: tl.constexpr, I: tl.constexpr, EACH: tl.constexpr, OUTPUTS: tl.constexpr, INNER: tl.constexpr,  # noqa: E741
    M: tl.constexpr, STAGES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(1)
    m = tl.arange(0, M)
    o = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    y = tl.zeros([M, OUTPUTS], tl.float32)
    for first in tl.range(split * EACH, tl.minimum((split + 1) * EACH, I), INNER, num_stages=STAGES):
        i = first + tl.arange(0, INNER)
        a = tl.load(
            x_ptr + m[:, None] * I + i[None, :], mask=(m < rows)[:, None] & (i < I)[None, :], other=0.0
        )
        at = o.to(tl.int64)[:, None] * I + i[None, :]
        b = tl.load(w_ptr + at, mask=(o < O)[:, None] & (i < I)[None, :], other=0.0)
        if WIDE:
            a, b = a.to(tl.float32), b.to(tl.float32)
        y = tl.dot(a, tl.trans(b), y, input_precision="ieee")
    at = (split * rows + m)[:, None] * O + o[None, :]
    tl.store(parts_ptr + at, y, mask=(m < rows)[:, None] & (o < O)[None, :])


@jit(do_not_specialize=["size"])
def add_splits_kernel(parts_ptr, y_ptr, size, O: tl.constexpr, SPLITS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: E741
    o = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = tl.program_id(0) * O + o
    total = tl.zeros([COLUMNS], tl.float32)
    for s in tl.static_range(SPLITS):
        total += tl.load(parts_ptr + s * size + at, mask=o < O)
    tl.store(y_ptr + at, total, mask=o < O)
