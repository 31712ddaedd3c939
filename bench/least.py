"""The least bytes that each job of a decode step must move, from the configuration alone.

Weights once; keys and values that a row sees once, and the new ones; a slot read and written once; what comes into a
job and what leaves it once, in the types that the model has between its jobs. A job may be done by several kernels:
what one of them leaves for the next is not in the least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels.constants import PAGE, RING
from node.model.config import DeltaConfig, ModelConfig

WORD, WIDE, NARROW = 8, 4, 2  # bytes of an int64, of a float32, of a bfloat16: a weight, an activation, a key
SETTINGS = 2 * WIDE + 3 * WORD  # of a sampled row: temperature, top_p, top_k, seed, position


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of `rows` sequences that each have `context` tokens, the new one included.

    deferred  states are written on every 8th token (kernels.delta_ring)
    """

    config: ModelConfig
    rows: int
    context: int
    deferred: bool = False


def least(step: Step) -> dict[str, float]:
    """Bytes by job, of all layers together."""
    found = _of_every_model(step)
    if step.config.full_layers:
        found |= _of_full_layers(step)
    if step.config.delta is not None:
        found |= _of_delta_layers(step, step.config.delta)
    return found


def _of_every_model(step: Step) -> dict[str, float]:
    c, n, w = step.config, step.rows, NARROW
    h, logits = c.hidden_size, n * c.vocab_size * WIDE
    products = sum(outputs * inner + n * (inner + outputs) + bias for outputs, inner, bias in matrices(c))
    # x, residual, y and their sum; the first norm has no residual, and nobody reads the sum of the last.
    activations = 4 * (2 * c.layers + 1) - 2 - 1
    return {
        # A host's id, a sampled one and its slot, a position, the angles of its sine and cosine; the id that is run.
        "inputs": n * (5 * WORD + c.rope.width * WIDE),
        "embedding": n * (WORD + 2 * h * w),
        "norms": (activations * n * h + (2 * c.layers + 1) * h) * w,
        "products": products * w,
        "swiglu": c.layers * 3 * n * c.intermediate_size * w,
        "head": (c.vocab_size + n) * h * w + logits,
        "sampling": logits + n * (SETTINGS + WORD),
    }


def matrices(config: ModelConfig) -> Iterator[tuple[int, int, int]]:
    """(outputs, inner, entries of bias) of every product but the head's."""
    c, h = config, config.hidden_size
    for _ in c.full_layers:
        yield c.projection_width, h, c.projection_width * c.qkv_bias
        yield h, c.query_width, 0
    for _ in c.delta_layers:
        assert c.delta is not None
        yield c.delta.projection_width, h, 0
        yield h, c.delta.value_width, 0
    for _ in range(c.layers):
        yield 2 * c.intermediate_size, h, 0
        yield h, c.intermediate_size, 0


def _of_full_layers(step: Step) -> dict[str, float]:
    c, n, w = step.config, step.rows, NARROW
    layers, columns = len(c.full_layers), n * (c.query_width + 2 * c.kv_width)
    angles = n * c.rope.width * WIDE  # half of them sines
    kv = n * step.context * 2 * c.kv_width
    tables = n * (-(-step.context // PAGE) + 1) * WORD
    found: dict[str, float] = {
        "prologue": layers * (2 * columns * w + 2 * c.qk_norm * c.head_dim * w + angles + n * WORD),
        "attention": layers * ((kv + 2 * n * c.query_width) * w + tables),
    }
    return found | ({"output gate": layers * 3 * n * c.query_width * w} if c.output_gate else {})


def _of_delta_layers(step: Step, d: DeltaConfig) -> dict[str, float]:
    n, w, layers = step.rows, NARROW, len(step.config.delta_layers)
    entries, outputs = d.value_heads * d.key_dim * d.value_dim, d.value_width
    columns = 2 * (d.conv_kernel - 1) * d.conv_width  # read, and written one further
    row: float = 2 * entries * WIDE
    if step.deferred:
        held = d.key_width + outputs + d.value_heads
        # Each of 8 tokens reads the state and the 0 to 7 entries held; 7 add an entry, one writes the state.
        row = (entries * (1 + 1 / RING) + held * ((RING - 1) / 2 + (RING - 1) / RING)) * WIDE + WORD
    row += (columns + d.conv_width + 2 * d.value_heads) * w + outputs * WIDE + WORD
    small = (d.conv_kernel * d.conv_width + 2 * d.value_heads) * WIDE
    return {
        "delta rule": layers * (n * row + small),
        "gated norm": layers * (n * outputs * (WIDE + 2 * w) + d.value_dim * WIDE),
    }
