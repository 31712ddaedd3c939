"""What a request asks of the model, in no dialect's words."""

from __future__ import annotations

from dataclasses import dataclass

from node.chat.conversation import Conversation
from node.chat.guarantee import Guarantee
from node.engine.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Wish:
    """conversation  what the model reads
    sampling      how it chooses
    max_tokens    most tokens to write; clamped to the room left
    stops         stop sequences
    guarantee     what its answer has to keep to
    """

    conversation: Conversation
    sampling: Sampling
    max_tokens: int
    stops: tuple[str, ...]
    guarantee: Guarantee
