"""How a sequence chooses its next token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request asked of the sampler.

    temperature  0 takes the likeliest token; above, logits are divided by it
    top_p        keep the likeliest tokens until their probabilities sum to this, in (0, 1]
    top_k        keep this many of the likeliest tokens; 0 keeps all
    seed         64 bits; with a token's position it fixes that token's noise, whatever shares the step
    min_p        keep tokens at least this likely beside the likeliest, in [0, 1]; 0 keeps all
    repetition   divides the logits of what prompt or output hold, above 0; 1 changes nothing
    frequency    is taken from a logit as often as the output holds its token
    presence     is taken from a logit once if the output holds its token
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    min_p: float = 0.0
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def penalties(self) -> tuple[float, float, float]:
        return self.repetition, self.frequency, self.presence

    @property
    def penalised(self) -> bool:
        return self.penalties != (1.0, 0.0, 0.0)
