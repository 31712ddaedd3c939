"""What an answer is made of: the values between the output machine and the dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer's text; never empty."""

    text: str


Event: TypeAlias = Text
