"""The step as a value: all that one forward pass needs to know, and nothing else crosses to the runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NO_TOKEN = -1  # sampled where a row's logits were no finite numbers
SCRATCH = 0  # page 0 and slot 0 belong to no sequence: padding reads and writes there


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


def _no_pairs() -> NDArray[np.int64]:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One forward pass over R rows, a sequence each, that hold N tokens in all. S of the rows sample.

    Rows that hold one token come first (`decode_rows` of them), so that the two kinds of kernel each see a
    contiguous range.

    token_ids      int64   [N]      tokens to run, row by row
    positions      int64   [N]      position of each token in its sequence, from 0
    cu_seqlens     int64   [R + 1]  where each row's tokens begin in token_ids
    page_table     int64   [R, P]   pages of each row in order of position; SCRATCH beyond its length
    state_slots    int64   [R]      state slot of each row; SCRATCH where the model has none
    sample_rows    int64   [S]      rows whose last token is followed by a sampled one
    temperature    float32 [S]      as in Sampling; 0 is greedy
    top_p          float32 [S]
    top_k          int64   [S]
    seeds          uint64  [S]
    min_p          float32 [S]      or empty, where no row asks for it

    Of prefixes that are reused:

    restores       int64   [K, 2]   (from, to): slots copied before the pass; none of them is both
    saves          int64   [C, 2]   (from, to): slots copied after it; likewise
    skip_kv_write  int64   [D]      indexes in token_ids that run for the state alone: their keys and values lie in
                                    pages that others read too, and go to SCRATCH instead

    Of a step that is planned while the one before it runs:

    future_tokens  int64   [F, 2]   (index in token_ids, index among the sampled ids of the step before): tokens
                                    that the host does not know yet

    Of prompts that hold more than text:

    rope_positions  int64  [3, N]   time, height and width, by which the heads turn; or empty, where all three are
                                    the position
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    cu_seqlens: NDArray[np.int64]
    page_table: NDArray[np.int64]
    state_slots: NDArray[np.int64]
    sample_rows: NDArray[np.int64]
    temperature: NDArray[np.float32]
    top_p: NDArray[np.float32]
    top_k: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    restores: NDArray[np.int64] = field(default_factory=_no_pairs)
    saves: NDArray[np.int64] = field(default_factory=_no_pairs)
    skip_kv_write: NDArray[np.int64] = field(default_factory=_nothing)
    future_tokens: NDArray[np.int64] = field(default_factory=_no_pairs)
    min_p: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    rope_positions: NDArray[np.int64] = field(default_factory=_nothing)

    @property
    def rows(self) -> int:
        return len(self.state_slots)

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @property
    def row_lengths(self) -> NDArray[np.int64]:
        """int64 [R]: tokens each row runs in this step."""
        return np.diff(self.cu_seqlens)

    @property
    def decode_rows(self) -> int:
        """How many leading rows hold one token."""
        return int(np.count_nonzero(self.row_lengths == 1))

    @property
    def last_tokens(self) -> NDArray[np.int64]:
        """int64 [R]: index in token_ids of each row's last token."""
        return self.cu_seqlens[1:] - 1

    @property
    def context_lengths(self) -> NDArray[np.int64]:
        """int64 [R]: tokens of each sequence that are in its pages once this step is done."""
        return self.positions[self.last_tokens] + 1

    @property
    def fresh_rows(self) -> NDArray[np.int64]:
        """int64 [F]: rows that begin their sequence; their slots still hold another's state."""
        return np.flatnonzero(self.positions[self.cu_seqlens[:-1]] == 0)

    @property
    def sample_positions(self) -> NDArray[np.int64]:
        """int64 [S]: the position that each sampled token will take in its sequence."""
        return self.context_lengths[self.sample_rows]


@dataclass(frozen=True, slots=True)
class SamplingMetadata:
    """What sampling needs to know of the ids before: not of the plan, for the last of them may come after it.

    masked     int64   [M]     indexes, among the step's S sampled rows, of those that are constrained
    bits       uint32  [M, W]  one bit an id, set where it is allowed: bit `i % 32` of word `i // 32` is id i's
    seen       int64   [3, K]  index among the sampled rows, id, and how often the output holds it
    penalties  float32 [3, S]  repetition, frequency and presence, as in Sampling
    """

    masked: NDArray[np.int64]
    bits: NDArray[np.uint32]
    seen: NDArray[np.int64]
    penalties: NDArray[np.float32]


GetSamplingMetadata = Callable[[], SamplingMetadata | None]


def no_sampling_metadata() -> None:
    """Of a step whose rows may sample anything."""
