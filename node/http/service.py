"""What all connections of a server share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from node.http.cors import Cors
from node.http.limits import HttpLimits
from node.http.message import Request, Response
from node.http.router import Router

RenderError = Callable[[BaseException, Request | None, str], Response]


@dataclass(frozen=True, slots=True)
class Statistics:
    """A server at one moment. The last three only grow.

    connections   open, idle ones included
    in_flight     requests whose answer is not finished
    requests      heads that were complete or refused
    disconnects   peers that left while their request was being answered
    stalled       peers dropped because they did not read
    """

    connections: int
    in_flight: int
    requests: int
    disconnects: int
    stalled: int


class Member(Protocol):
    """A connection, as far as the service minds."""

    @property
    def busy(self) -> bool: ...

    def drain(self) -> None: ...

    def abandon(self) -> None: ...


@dataclass(slots=True)
class Service:
    """Routes, limits and who may ask across origins, fixed; who is connected; and the counters."""

    router: Router
    render_error: RenderError
    limits: HttpLimits
    cors: Cors | None = None
    members: set[Member] = field(default_factory=set)
    draining: bool = False
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0
    disconnects: int = 0
    stalled: int = 0

    def join(self, member: Member) -> None:
        """A connection was made."""
        self.members.add(member)
        self.empty.clear()

    def leave(self, member: Member) -> None:
        """A connection is closed and its task has ended."""
        self.members.discard(member)
        if not self.members:
            self.empty.set()

    def statistics(self) -> Statistics:
        """The counters as they are now."""
        return Statistics(
            connections=len(self.members),
            in_flight=sum(member.busy for member in self.members),
            requests=self.requests,
            disconnects=self.disconnects,
            stalled=self.stalled,
        )
