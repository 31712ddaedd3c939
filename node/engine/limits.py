"""How much may wait for the engine, and how long the engine may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """queue_requests     sequences that may wait beside those that run; more are refused
    queue_tokens       of the prompts that wait, together
    unhealthy_timeout  seconds without a step, while something waits for one, after which the node is not healthy
    watchdog_timeout   and after which the process ends
    """

    queue_requests: int
    queue_tokens: int
    unhealthy_timeout: float
    watchdog_timeout: float
