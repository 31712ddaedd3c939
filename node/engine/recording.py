"""A file of all that the engine was asked, planned and answered, to be looked at or replayed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kernels.constants import PAGE
from node.engine.plan import StepPlan
from node.engine.sequence import Sequence
from node.engine.step import Progress, Step

log = logging.getLogger("node.recording")
FIELDS = tuple(field.name for field in dataclasses.fields(StepPlan))


class Recorder:
    """Writes one JSON line an event; a plan's line is followed by its arrays, as numpy saves them.

    Prompts are told by the keys of their pages: enough to see what they share, too little to read them.
    A disk that fills up ends the recording and not the engine.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._began = time.monotonic()

    def arrival(self, sequence: Sequence) -> None:
        pages = [key.hex() for key in sequence.page_keys(len(sequence.prompt) // PAGE)]
        self._event(
            "arrival",
            id=sequence.id,
            organization=sequence.organization,
            prompt=len(sequence.prompt),
            pages=pages,
            boundaries=sequence.boundaries,
            limit=sequence.limit,
        )

    def plan(self, step: Step) -> None:
        self._event("plan", rows=[sequence.id for sequence in step.sequences], decoding=step.decoding)
        with self._writing():
            for name in FIELDS:
                np.save(self._file, getattr(step.plan, name))

    def progress(self, progress: list[Progress]) -> None:
        ids = {sequence.id: ids for sequence, ids, _ in progress if ids}
        ends = {
            sequence.id: {
                "finish_reason": finish_reason,
                "output": len(sequence.output),
                "cached": sequence.cached,
            }
            for sequence, _, finish_reason in progress
            if finish_reason is not None
        }
        self._event("progress", ids=ids, ends=ends)

    def close(self) -> None:
        with self._writing():
            self._file.close()

    def _event(self, kind: str, **facts: Any) -> None:
        line = {"event": kind, "at": round(time.monotonic() - self._began, 6), **facts}
        with self._writing():
            self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            log.error("the recording ends here: %s", error)
            with contextlib.suppress(OSError):  # closing writes what is left
                self._file.close()
            self._file = Path(os.devnull).open("wb")  # noqa: SIM115 - stays open, as the one before


def read_recording(path: Path) -> Iterator[dict[str, Any]]:
    """The events in order; those of kind "plan" have the StepPlan under "plan"."""
    with path.open("rb") as file:
        while line := file.readline():
            event = json.loads(line)
            if event["event"] == "plan":
                event["plan"] = StepPlan(**{name: np.load(file) for name in FIELDS})
            yield event
