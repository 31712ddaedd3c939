"""What an answer is made of: the values between the output parser and the dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's thinking; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text; never empty. After a call it begins a new part."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The model calls a tool, which need not be one that was offered."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of the call that is open; never empty, and never a part of a character or escape.

    Up to CallEnd they come to exactly one JSON object. Nothing is promised of a call without a CallEnd.
    """

    json: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call that is open is complete."""


Event: TypeAlias = ThinkingDelta | TextDelta | CallStart | CallArguments | CallEnd


def merge(events: list[Event]) -> list[Event]:
    """The same events, neighbours of a kind as one."""
    merged: list[list[Event]] = []
    for event in events:
        if (
            merged
            and type(event) is type(merged[-1][0])
            and isinstance(event, ThinkingDelta | TextDelta | CallArguments)
        ):
            merged[-1].append(event)
        else:
            merged.append([event])
    return [_joined(run) for run in merged]


def _joined(run: list[Event]) -> Event:
    if len(run) == 1:
        return run[0]
    match run[0]:
        case ThinkingDelta():
            return ThinkingDelta("".join(event.text for event in run if isinstance(event, ThinkingDelta)))
        case TextDelta():
            return TextDelta("".join(event.text for event in run if isinstance(event, TextDelta)))
        case _:
            return CallArguments("".join(event.json for event in run if isinstance(event, CallArguments)))
