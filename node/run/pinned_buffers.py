"""The host's side of captured steps: pinned memory that the device copies from and to while Python goes on."""

from __future__ import annotations

import torch

SIZE = 3  # one step runs, one is launched after it, and one has been read but not yet been let go of


class PinnedBuffer:
    """One step's buffers on the host: what it was told, and what it answered.

    words  int64  the plan, as Inputs.load lays it out
    ids    int64 [B]
    """

    def __init__(self, words: int, rows: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.words = torch.zeros(words, dtype=torch.int64, pin_memory=pinned)
        self.ids = torch.zeros(rows, dtype=torch.int64, pin_memory=pinned)
        self._done = torch.cuda.Event() if pinned else None

    def mark(self) -> None:
        """What was launched so far has to be done before `wait` returns."""
        if self._done is not None:
            self._done.record()

    def wait(self) -> None:
        if self._done is not None:
            self._done.synchronize()


class PinnedBufferRing:
    """Buffers in turn. A step's ids must be read before SIZE more steps have been handle."""

    def __init__(self, words: int, rows: int, device: torch.device) -> None:
        self._buffers = [PinnedBuffer(words, rows, device) for _ in range(SIZE)]
        self._next = 0

    def take(self) -> PinnedBuffer:
        buffer = self._buffers[self._next]
        self._next = (self._next + 1) % SIZE
        buffer.wait()  # of a step that failed the copies may still run; of any other this returns at once
        return buffer
