"""The next token of each row from its logits.

    p = softmax(logits / temperature);  keep the top_k likeliest, of these the fewest that reach top_p
    token = first id, in the order of the vocabulary, at which the kept probabilities sum to more than u

S rows over V ids. u in [0, 1) is a hash of (seed, position) alone, so that a row's token never depends on
what shares the step. Equal logits rank by id, lowest first. temperature 0 takes the likeliest id. float32.

The Triton kernel (sample_draw) sums in another order: where u, top_p or a weight lies within rounding (10⁻⁶ of the
sum) of a border between two ids, it may take the one next to it in the vocabulary, or keep one id more or less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.contract import FLOAT32, INDEX, check, check_rank
from kernels.device import uses_triton
from kernels.sample_draw import draw_rows

NUCLEUS = 1024  # ids looked at first for a top_p without top_k: the whole vocabulary is rarely worth a sort


def reference(
    logits: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    seeds: Tensor,
    positions: Tensor,
    vocabulary: int,
) -> Tensor:
    logits = logits[:, :vocabulary]
    greedy = temperature == 0
    if bool(greedy.all()):
        return logits.argmax(dim=-1)
    out = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    likeliest = greedy.nonzero().flatten()
    if len(likeliest):
        out[likeliest] = logits[likeliest].argmax(dim=-1)
    u = uniforms(seeds, positions)
    settings = zip(temperature.tolist(), top_k.tolist(), top_p.tolist(), strict=True)
    for row, (t, k, p) in enumerate(settings):
        if t > 0:
            out[row] = draw(logits[row], t, k, p, u[row])
    return out


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, u: Tensor) -> Tensor:
    """One id (int64 scalar) from logits [V]."""
    weight = ((logits - logits.max()) / temperature).exp()
    ids = None
    if 0 < top_k < len(weight):
        ids = likeliest(weight, top_k)
    if top_p < 1:
        ids = nucleus(weight, top_p) if ids is None else ids[: reach(weight[ids], weight[ids].sum(), top_p)]
    if ids is not None:
        ids = ids.sort().values
        weight = weight[ids]
    below = weight.cumsum(0)
    # Just short of the whole sum at most: u · sum may round up to it, and no id lies beyond.
    target = torch.minimum(u * below[-1], torch.nextafter(below[-1], below.new_zeros(())))
    found = torch.searchsorted(below, target, right=True)
    return found if ids is None else ids[found]


def likeliest(weight: Tensor, count: int) -> Tensor:
    """The ids of the `count` largest weights, likeliest first, equals by id."""
    least = weight.topk(count).values[-1]
    ids = (weight >= least).nonzero().flatten()
    return ids[weight[ids].sort(descending=True, stable=True).indices[:count]]


def reach(ranked: Tensor, total: Tensor, top_p: float) -> int:
    """How many of the ranked weights it takes to reach top_p of the total; all where they do not."""
    return int((ranked.cumsum(0) < top_p * total).sum()) + 1


def nucleus(weight: Tensor, top_p: float) -> Tensor:
    """The fewest ids whose weights reach top_p of them all, likeliest first."""
    total = weight.sum()
    for count in (min(NUCLEUS, len(weight)), len(weight)):
        ids = likeliest(weight, count)
        kept = reach(weight[ids], total, top_p)
        if kept <= count:
            break
    return ids[:kept]


def uniforms(seeds: Tensor, positions: Tensor) -> Tensor:
    """float32 [S] in [0, 1), 24 bits each: the splitmix64 finalizer (Steele, Lea, Flood 2014) over seed, then
    position. Integers only, so that every device draws the same."""
    mixed = _mix(_mix(seeds + _signed(0x9E3779B97F4A7C15)) ^ positions)
    return _shifted(mixed, 40).to(torch.float32) * 2.0**-24


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, count: int) -> Tensor:
    """Shift right without the sign: torch has no arithmetic on uint64."""
    return (z >> count) & ((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def sample(
    logits: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    seeds: Tensor,
    positions: Tensor,
    vocabulary: int,
) -> Tensor:
    """Return token ids, int64 [S], all below vocabulary.

    logits       [S, V]  float32, contiguous
    temperature  [S]     float32, 0 for the likeliest id
    top_k        [S]     int64, 0 for all
    top_p        [S]     float32, in (0, 1]
    seeds        [S]     int64, the bits of an unsigned seed
    positions    [S]     int64, the position that the token will take in its sequence
    vocabulary   ids from here on are padding of the table; at most V
    """
    check_rank("logits", logits, "SV")
    rows = logits.shape[0]
    check("logits", logits, logits.shape, FLOAT32)
    check("temperature", temperature, (rows,), FLOAT32)
    check("top_k", top_k, (rows,), INDEX)
    check("top_p", top_p, (rows,), FLOAT32)
    check("seeds", seeds, (rows,), INDEX)
    check("positions", positions, (rows,), INDEX)
    if not 0 < vocabulary <= logits.shape[1]:
        raise ValueError(f"vocabulary: {vocabulary}, expected 1 to {logits.shape[1]}")
    run = draw_rows if uses_triton(logits) else reference
    return run(logits, temperature, top_k, top_p, seeds, positions, vocabulary)
