"""How a device's memory is divided: computed before anything is loaded, printed, and then kept to."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.constants import PAGE
from node.model.config import DeltaConfig, ModelConfig

DTYPE_BYTES = {"bfloat16": 2, "float32": 4}
GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """memory_utilization          of the memory, planned for; the rest stays free
    state_share                 of what weights and workspace leave, for slots at most
    sequences_per_cached_state  one more slot, that keeps a cached state, for so many that run
    min_cached_states           even where few run, as far as slots go
    """

    memory_utilization: float
    state_share: float
    sequences_per_cached_state: int
    min_cached_states: int


class DoesNotFit(Exception):
    """The plan cannot hold one full context. The message says what would."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes, and the pages, slots and sequences they make. The bytes include a scratch page and slot.

    memory       the device's, or what the operator allows
    workspace    activations of the largest step, and logits
    state_slots  of the sequences and of cached states
    """

    memory: int
    weights: int
    workspace: int
    page_bytes: int
    slot_bytes: int
    pages: int
    state_slots: int
    sequences: int
    context: int

    @property
    def cached_states(self) -> int:
        """Slots that keep the state at the end of a prefix."""
        return max(0, self.state_slots - self.sequences)

    @property
    def kv(self) -> int:
        return (self.pages + 1) * self.page_bytes

    @property
    def state(self) -> int:
        return (self.state_slots + 1) * self.slot_bytes

    @property
    def total(self) -> int:
        return self.weights + self.workspace + self.kv + self.state

    @property
    def tokens(self) -> int:
        """Of KV, in all pages."""
        return self.pages * PAGE

    def table(self) -> str:
        """For people."""
        slots = f"{self.state_slots:,} slots of {self.slot_bytes / 2**20:.1f} MiB"
        slots += f", {self.cached_states:,} for cached states"
        rows = (
            ("weights", self.weights, ""),
            ("workspace", self.workspace, "activations of the largest step, logits"),
            ("state", self.state, slots if self.slot_bytes else "the model has no delta layers"),
            ("KV", self.kv, f"{self.pages:,} pages of {PAGE} tokens = {self.tokens:,} tokens"),
            ("total", self.total, f"of {self.memory / GIB:.2f} GiB"),
        )
        lines = [f"  {name:<10} {count / GIB:>8.2f} GiB  {note}".rstrip() for name, count, note in rows]
        full = self.pages // -(-self.context // PAGE)
        last = f"  {self.sequences:,} sequences at most, {full:,} of {self.context:,} tokens at once"
        return "\n".join([*lines, last])


def plan_memory(
    config: ModelConfig,
    *,
    memory: int,
    dtype: str,
    context: int,
    sequences: int,
    step_tokens: int,
    shares: MemoryShares,
    packed_head: bool = False,
    deferred: bool = False,
    workspace: int | None = None,
) -> MemoryPlan:
    """Divide `memory` bytes for up to `sequences` running at once; raises DoesNotFit if one does not fit.

    Slots come first, as far as their share goes, because a sequence needs one whatever its length; pages take
    the rest, but no more than the sequences could ever fill.

    packed_head  a tied head is kept twice: as the table of embeddings, and in the layout a CPU multiplies by
    deferred     state writes are, and each slot has a ring
    workspace    as node.run.measure found it, once the weights are there; else it is reckoned
    """
    width = DTYPE_BYTES[dtype]
    weights = (config.parameters + config.vocab_size * config.hidden_size * packed_head) * width
    if workspace is None:
        workspace = _workspace(config, width, sequences, step_tokens)
    page_bytes = PAGE * config.kv_bytes_per_token(width)
    slot_bytes = config.slot_bytes(width) + config.ring_bytes * deferred
    context_pages = -(-context // PAGE)

    left = int(memory * shares.memory_utilization) - weights - workspace - page_bytes - slot_bytes
    if slot_bytes:
        spare = min(int(left * shares.state_share), left - context_pages * page_bytes)
        sequences, slots = _slots(sequences, max(1, spare // slot_bytes), shares)
    else:
        slots = 0
    pages = min((left - slots * slot_bytes) // page_bytes, sequences * context_pages)
    if pages < context_pages:
        least = weights + workspace + (context_pages + 1) * page_bytes + 2 * slot_bytes
        fitting = max(0, left - slot_bytes) // page_bytes * PAGE
        fits = f"; a context of {fitting:,} would fit (--context {fitting})" if fitting >= PAGE else ""
        needs = f"one context of {context:,} tokens needs {least / shares.memory_utilization / GIB:.2f} GiB"
        raise DoesNotFit(f"{needs}, {memory / GIB:.2f} GiB are given (--device-memory){fits}")
    return MemoryPlan(memory, weights, workspace, page_bytes, slot_bytes, pages, slots, sequences, context)


def _slots(sequences: int, most: int, shares: MemoryShares) -> tuple[int, int]:
    """(sequences, slots) of at most `most` slots; where they are short both kinds are."""
    per_cached_state = shares.sequences_per_cached_state
    cached_states = max(shares.min_cached_states, sequences // per_cached_state)
    if sequences + cached_states <= most:
        return sequences, sequences + cached_states
    running = min(sequences, most - most // (per_cached_state + 1))
    return running, most


def _workspace(config: ModelConfig, width: int, sequences: int, step_tokens: int) -> int:
    """Bytes that live at once in the widest layer of the largest step, and float32 logits of all rows."""
    delta = _delta_workspace(config.delta, width) if config.delta is not None else 0
    widest = max(3 * config.intermediate_size * width, 2 * config.projection_width * width, delta)
    return step_tokens * (widest + 4 * config.hidden_size * width) + 2 * sequences * config.vocab_size * 4


def _delta_workspace(d: DeltaConfig, width: int) -> int:
    """Bytes a token of a prompt: its projection, and what kernels.delta_prefill keeps between launches: k, w, u and o
    in float32, q and v' in 16 bits, a 16-bit state a chunk (of a page's 64 tokens).
    """
    writes = d.value_heads * d.key_dim
    kept = (2 + 4) * d.key_width + 4 * writes + (4 + 2 + 4) * d.value_width
    return d.projection_width * width + kept + 2 * writes * d.value_dim // PAGE
