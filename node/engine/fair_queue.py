"""Who is admitted next: organizations by what they have had, and within one whoever came first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator

from node.engine.sequence import Sequence


class FairQueue:
    """Start-time fair queueing over tokens.

    Each organization's clock runs by the tokens that its sequences are admitted for, and the one furthest behind
    is next. One that comes back from idling starts at the present: idling earns nothing.
    """

    def __init__(self) -> None:
        self._queues: dict[str, OrderedDict[Sequence, None]] = {}
        self._clocks: dict[str, int] = {}
        self._now = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[Sequence]:
        for queue in self._queues.values():
            yield from queue

    def add(self, sequence: Sequence) -> None:
        self._queue(sequence.organization)[sequence] = None

    def add_first(self, sequence: Sequence) -> None:
        """Before all others of its organization: it has waited its turn already."""
        queue = self._queue(sequence.organization)
        queue[sequence] = None
        queue.move_to_end(sequence, last=False)

    def remove(self, sequence: Sequence) -> None:
        queue = self._queues[sequence.organization]
        del queue[sequence]
        if not queue:
            del self._queues[sequence.organization]

    def first(self, besides: Collection[Sequence], full: Collection[str]) -> Sequence | None:
        """Who is next, sequences `besides` and organizations `full` aside."""
        for name in sorted(self._queues, key=self._clocks.__getitem__):
            if name not in full:
                for sequence in self._queues[name]:
                    if sequence not in besides:
                        return sequence
        return None

    def admit(self, sequence: Sequence, tokens: int) -> None:
        """It leaves the queue, and its organization is promised `tokens`."""
        self._now = max(self._now, self._clocks[sequence.organization])
        self.remove(sequence)
        self.correct(sequence, tokens)

    def correct(self, sequence: Sequence, tokens: int) -> None:
        """Its organization had so many tokens more than it was promised, or fewer if negative."""
        name = sequence.organization
        self._clocks[name] = self._clocks.get(name, self._now) + tokens
        if not self._queues:  # nobody is kept waiting: all start anew
            self._now = max(self._now, *self._clocks.values())
        self._clocks = {
            name: clock for name, clock in self._clocks.items() if clock > self._now or name in self._queues
        }

    def _queue(self, name: str) -> OrderedDict[Sequence, None]:
        if name not in self._queues:
            self._queues[name] = OrderedDict()
            self._clocks[name] = max(self._clocks.get(name, 0), self._now)
        return self._queues[name]
