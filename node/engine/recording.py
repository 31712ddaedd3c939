"""A file of all that the engine was asked, planned and answered, to be looked at or replayed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kernels.constants import PAGE
from node.engine.plan import StepPlan
from node.engine.sequence import Sequence
from node.engine.step import Progress, Step

log = logging.getLogger("node.recording")
OWNER_ALONE = 0o600
FIELDS = tuple(field.name for field in dataclasses.fields(StepPlan))


class Recorder:
    """Writes one JSON line an event; a plan's line is followed by its arrays, as numpy saves them.

    Only its owner may read the file. Organizations and the pages of prompts are told by keyed hashes, whose key is
    forgotten with the recording: enough to see what is shared, too little to find out by guessing. Ids of tokens, in
    which prompts and answers could be read, are zeros unless `texts` is set. A disk that fills up ends the recording
    and not the engine.
    """

    def __init__(self, path: Path, texts: bool = False) -> None:
        """Raises OSError."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ALONE)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, OWNER_ALONE)  # of a file that was there before
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._began = time.monotonic()
        self._salt = secrets.token_bytes(16)
        self._texts = texts

    def arrival(self, sequence: Sequence) -> None:
        pages = [self._hidden(key) for key in sequence.page_keys(len(sequence.prompt) // PAGE)]
        self._event(
            "arrival",
            id=sequence.id,
            organization=self._hidden(sequence.organization.encode()),
            prompt=len(sequence.prompt),
            pages=pages,
            boundaries=sequence.boundaries,
            limit=sequence.limit,
        )

    def plan(self, step: Step) -> None:
        self._event("plan", rows=[sequence.id for sequence in step.sequences], decoding=step.decoding)
        with self._writing():
            for name in FIELDS:
                values = getattr(step.plan, name)
                np.save(self._file, values if self._texts or name != "token_ids" else np.zeros_like(values))

    def progress(self, progress: list[Progress]) -> None:
        ids = {sequence.id: ids if self._texts else (0,) * len(ids) for sequence, ids, _ in progress if ids}
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

    def _hidden(self, data: bytes) -> str:
        return blake2b(data, key=self._salt, digest_size=16).hexdigest()

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
