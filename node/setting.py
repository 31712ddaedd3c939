"""One thing that the operator decides: how it is written, what it is until then, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ENVIRONMENT = "B3OS_NODE_"


class Group(StrEnum):
    """What a setting is about, in the order of `serve --help`."""

    MODEL = "Model"
    LISTENING = "Listening"
    MEMORY = "Memory"
    SCHEDULING = "Scheduling"
    QUEUE = "Queue"
    TIMEOUTS = "Timeouts"
    HTTP = "HTTP limits"
    DIAGNOSTICS = "Diagnostics"


@dataclass(frozen=True, slots=True)
class PerDevice:
    """A number that is another on a GPU than on a CPU."""

    cuda: int
    cpu: int

    def on(self, device: str) -> int:
        return self.cuda if device == "cuda" else self.cpu


@dataclass(frozen=True, slots=True)
class Unset:
    """A default that follows from something else: its value in Settings, and in words what it comes to."""

    value: Any
    words: str


@dataclass(frozen=True, slots=True)
class Auto(Unset):
    """A default that is found out at the start, which operators may ask for as `auto`."""


def per_device(cuda: int, cpu: int) -> Auto:
    return Auto(PerDevice(cuda, cpu), f"{cuda} on cuda, {cpu} on cpu")


@dataclass(frozen=True, slots=True)
class Setting:
    """name     the TOML key; flag and variable follow from it
    default  as an operator would write it, where that can be
    parse    what an operator writes; raises ValueError
    help     what it decides, in one line
    reason   of the default
    was      a name that files, variables and scripts may still use
    """

    name: str
    group: Group
    default: str | Unset
    parse: Callable[[str], Any]
    help: str
    reason: str
    was: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.was) if self.was else (self.name,)

    @property
    def shown(self) -> str:
        """The default, for people."""
        if isinstance(self.default, str):
            return self.default
        return f"auto: {self.default.words}" if isinstance(self.default, Auto) else self.default.words

    def read(self, text: str) -> Any:
        """Raises ValueError, which says what is wanted."""
        if text == "auto" and isinstance(self.default, Auto):
            return self.default.value
        return self.parse(text)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    return ENVIRONMENT + name.upper()
