"""What was asked of a node and when: arrivals, lengths and what prompts share, without a word of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.engine.recording import read_recording

IDS = 100_000  # token ids of made-up text: any number that makes two parts differ


class TraceError(Exception):
    """The file is neither a trace nor a recording."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One line of a trace.

    at            seconds from the start, or after the end of the request that this one follows
    parts         (name, tokens) of its prompt; equal names are equal text
    output        tokens it will be answered with
    boundaries    as in Sequence
    after         the id of a request whose answer this one waits for; its prompt begins with the first `kept`
                  tokens of that one's prompt and answer
    """

    id: str
    at: float
    parts: tuple[tuple[str, int], ...]
    output: int
    organization: str = ""
    boundaries: tuple[int, ...] = ()
    after: str | None = None
    kept: int = 0

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self.kept + sum(tokens for _, tokens in self.parts)


def text_ids(name: str, tokens: int) -> NDArray[np.int64]:
    """int64 [tokens]: the text of that name; a longer one begins with the shorter."""
    return np.random.default_rng(crc32(name.encode())).integers(0, IDS, tokens)


def write_trace(path: Path, requests: list[TraceRequest]) -> None:
    lines = []
    for request in requests:
        facts = {name: value for name, value in asdict(request).items() if value not in ("", (), None, 0)}
        lines.append(json.dumps({"id": request.id, "at": request.at, **facts}, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n")


def read_trace(path: Path) -> list[TraceRequest]:
    """Of a trace, or of a recording of the engine. Raises TraceError, OSError."""
    try:
        with path.open("rb") as file:
            recorded = b'"event"' in file.readline(64)
        return list(_of_recording(path) if recorded else _of_lines(path))
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path} is neither a trace nor a recording: {error}") from error


def _of_lines(path: Path) -> Iterator[TraceRequest]:
    for line in path.read_text().splitlines():
        facts = json.loads(line)
        parts = tuple((str(name), int(tokens)) for name, tokens in facts.pop("parts"))
        yield TraceRequest(parts=parts, boundaries=tuple(facts.pop("boundaries", ())), **facts)


def _of_recording(path: Path) -> Iterator[TraceRequest]:
    """Each arrival as it came, with as many tokens as it was answered with in the end."""
    arrivals: list[dict[str, Any]] = []
    outputs: dict[str, int] = {}
    for event in read_recording(path):
        if event["event"] == "arrival":
            arrivals.append(event)
        elif event["event"] == "progress":
            for name, ids in event["ids"].items():
                outputs[name] = outputs.get(name, 0) + len(ids)
    for event in arrivals:
        tail = event["prompt"] - PAGE * len(event["pages"])
        parts = [(key, PAGE) for key in event["pages"]] + [(event["id"], tail)] * bool(tail)
        yield TraceRequest(
            event["id"],
            event["at"],
            tuple(parts),
            outputs.get(event["id"], 0),
            event["organization"],
            tuple(event["boundaries"]),
        )
