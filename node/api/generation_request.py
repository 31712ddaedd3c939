"""What a request asks of the model, in no dialect's words."""

from __future__ import annotations

from dataclasses import dataclass

from node.chat.conversation import Conversation
from node.chat.output_constraints import OutputConstraints
from node.engine.sampling import Sampling

HEAVY = 8 * 1024  # bytes: parsing, rendering and tokenizing as much takes the loop 1 to 15 ms


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """conversation  what the model reads
    sampling      how it chooses
    max_tokens    most tokens to write; clamped to the remaining context
    stops         stop sequences
    constraints   what its answer has to keep to
    size          bytes of the request; what reading it, and compiling its schemas, may cost
    """

    conversation: Conversation
    sampling: Sampling
    max_tokens: int
    stops: tuple[str, ...]
    constraints: OutputConstraints
    size: int = 0

    @property
    def heavy(self) -> bool:
        """Whether it is too large to be worked on between the frames of streams."""
        return self.size > HEAVY
