"""The fields of a request that hold one value each, and their ranges."""

from __future__ import annotations

import secrets

import msgspec

from node.api.errors import invalid
from node.engine.sampling import Sampling

MOST_STOP_SEQUENCES = 16
LONGEST_STOP_SEQUENCE = 256  # characters
LARGEST_SEED = 2**64 - 1
# Logits are a few hundred at most: what stretches them further says nothing more, and on the way to infinity it ends
# the request. Those who offer this penalty suggest 1 to 1.5.
LEAST_REPETITION, MOST_REPETITION = 0.1, 2.0
LEAST_TEMPERATURE = 1e-5  # below it vLLM takes the likeliest token, too: nothing else has a chance


class Scalars(msgspec.Struct):
    """The fields that hold one value each."""

    model: str
    max_tokens: int | None = None
    stream: bool = False
    stop_sequences: list[str] = []
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            self.temperature if self.temperature >= LEAST_TEMPERATURE and self.top_p else 0.0,
            self.top_p or 1.0,
            self.top_k,
            secrets.randbits(64) if self.seed is None else self.seed,
            self.min_p,
            self.repetition_penalty,
            self.frequency_penalty,
            self.presence_penalty,
        )


def check_ranges(asked: Scalars) -> None:
    """Raises ApiError naming the first field at fault."""
    if asked.max_tokens is not None and asked.max_tokens < 0:
        raise invalid("max_tokens", "must not be negative")
    if not 0.0 <= asked.temperature <= 2.0:
        raise invalid("temperature", "must be between 0 and 2")
    if not 0.0 <= asked.top_p <= 1.0:
        raise invalid("top_p", "must be between 0 and 1")
    if not 0 <= asked.top_k < 2**31:
        raise invalid("top_k", "must be between 0 and 2147483647")
    if not 0.0 <= asked.min_p <= 1.0:
        raise invalid("min_p", "must be between 0 and 1")
    for name in ("presence_penalty", "frequency_penalty"):
        if not -2.0 <= getattr(asked, name) <= 2.0:
            raise invalid(name, "must be between -2 and 2")
    if not LEAST_REPETITION <= asked.repetition_penalty <= MOST_REPETITION:
        raise invalid("repetition_penalty", f"must be between {LEAST_REPETITION} and {MOST_REPETITION}")
    if asked.seed is not None and not 0 <= asked.seed <= LARGEST_SEED:
        raise invalid("seed", "must be a whole number of at most 64 bits")
    if len(asked.stop_sequences) > MOST_STOP_SEQUENCES:
        raise invalid("stop_sequences", f"at most {MOST_STOP_SEQUENCES}")
    for number, stop in enumerate(asked.stop_sequences):
        path = f"stop_sequences.{number}"
        if not stop.strip():
            raise invalid(path, "each stop sequence must contain non-whitespace")
        if len(stop) > LONGEST_STOP_SEQUENCE:
            raise invalid(path, f"at most {LONGEST_STOP_SEQUENCE} characters")
