"""Slots of a pool copied to other slots, in every layer.

    pool[l, pairs[k, 1]] = pool[l, pairs[k, 0]]        L layers, S slots of W entries, K pairs

In place, because a copy on the way would take as much memory as the slots hold: 50 MB each for a 9B's states.
"""

from __future__ import annotations

from torch import Tensor

from kernels.contract import FLOATS, INDEX, check
from kernels.device import jit, launch, tl, triton, uses_triton

TILE = 4096  # entries a program: 16 values a thread, of which one load takes 4 or 8


def reference(pool: Tensor, pairs: Tensor) -> None:
    source, target = pairs.unbind(1)
    for layer in pool:
        layer.index_copy_(0, target, layer.index_select(0, source))


def copy_slots(pool: Tensor, pairs: Tensor) -> None:
    """pool [L, S, ...] contiguous; pairs [K, 2] int64, (from, to).

    No slot may be both, but its own; none may be written twice. Raises ValueError for wrong shapes and types.
    """
    check("pool", pool, pool.shape, FLOATS)
    check("pairs", pairs, (len(pairs), 2), INDEX)
    if not uses_triton(pool) or not pool.numel():
        reference(pool, pairs)
        return
    layers, slots, width = pool.shape[0], pool.shape[1], pool[0, 0].numel()
    grid = (triton.cdiv(width, TILE), len(pairs), layers)
    launch(copy_slots_kernel, grid, pool, slots, pairs, W=width, TILE=TILE, num_warps=8)


@jit(do_not_specialize=["slots"])
def copy_slots_kernel(pool_ptr, slots, pairs_ptr, W: tl.constexpr, TILE: tl.constexpr):
    pair_ptr, layer = pairs_ptr + 2 * tl.program_id(1), tl.program_id(2).to(tl.int64) * slots
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    values = tl.load(pool_ptr + (layer + tl.load(pair_ptr)) * W + at, mask=at < W)
    tl.store(pool_ptr + (layer + tl.load(pair_ptr + 1)) * W + at, values, mask=at < W)
