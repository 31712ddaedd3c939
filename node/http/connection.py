"""One connection: what the transport reports, and what it means in the phase the connection is in."""

import asyncio
import socket
from collections.abc import Awaitable
from enum import Enum
from typing import cast

from node.http.coding import decode
from node.http.cycle import CLIENT_GONE, RequestResponseCycle, log
from node.http.fault import Fault
from node.http.limits import HttpLimits
from node.http.line import Line
from node.http.message import Response, StreamResponse
from node.http.service import Service
from node.http.timer import Timer


class Phase(Enum):
    """What a connection waits for; each has its own time limit."""

    IDLE = "a head's first byte"
    HEAD = "a head's last byte"
    ANSWER = "the handler, or the end of its stream"
    BODY = "the body that the handler asked for"
    DROP = "the rest of a small body that nobody wants"
    LINGER = "the peer to read our last answer and close"
    CLOSED = "unsent bytes to leave"


RESTING = (Phase.IDLE, Phase.HEAD)
ANSWERING = (Phase.ANSWER, Phase.BODY)
ENDING = (Phase.LINGER, Phase.CLOSED)
BURST = 16  # pipelined requests answered before the loop may look at other peers: 1 to 2 ms


def seconds(phase: Phase, limits: HttpLimits) -> float | None:
    """How long a phase may last. A handler may take as long as it wants; the engine has its own deadlines."""
    match phase:
        case Phase.IDLE:
            return limits.idle_timeout
        case Phase.HEAD:
            return limits.header_timeout
        case Phase.BODY | Phase.DROP:
            return limits.body_timeout
        case Phase.LINGER:
            return limits.linger_timeout
        case Phase.CLOSED:
            return limits.send_timeout
        case Phase.ANSWER:
            return None


class Connection(asyncio.Protocol):
    """Answers the requests of one peer, in order, one at a time."""

    _line: Line
    _cycle: RequestResponseCycle

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        self._service = service
        self._loop = loop
        self._timer = Timer(loop, self._expired)
        self._phase = Phase.IDLE
        self._since = loop.time()
        self._task: asyncio.Task[None] | None = None
        self._body_arrived: asyncio.Future[None] | None = None
        self._lingered = 0  # bytes dropped since our last answer
        self._ended = False  # the peer has sent its last byte
        self._lost = False

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._phase in ANSWERING

    # What the transport reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio's but do not derive from them.
        self._line = Line(cast(asyncio.Transport, transport), self._loop)
        # A token's frame must not wait for the acknowledgement of the one before.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._service.join(self)
        self._enter(Phase.IDLE)
        self.drain()

    def data_received(self, data: bytes) -> None:
        match self._phase:
            case Phase.IDLE | Phase.HEAD | Phase.ANSWER:
                self._line.inbox.append(data)
                self._advance()
            case Phase.BODY:
                self._receive_body(data)
            case Phase.DROP:
                self._drop_body(data)
            case Phase.LINGER:
                self._lingered += len(data)
                if self._lingered > self._service.limits.max_linger:
                    self.abandon()
            case Phase.CLOSED:
                pass

    def eof_received(self) -> bool:
        """The peer has shut down its sending side.

        While a task answers, that counts as having left: a closed socket and a half-closed one look the same
        until something is written, and a request that nobody reads must not occupy a GPU. Answers that
        take no task are written in full before this is looked at, so a half-closing peer gets those.
        """
        self._ended = True
        if self.busy:
            self._service.disconnects += 1
            self.abandon()
        elif self._phase not in RESTING:
            self._close()
        else:
            self._advance()
        return True  # we close; the transport must not, while answers are unsent

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self.busy:
            self._service.disconnects += 1
        self.abandon()
        self._timer.cancel()
        self._leave()

    def pause_writing(self) -> None:
        self._line.flow.hold()
        self._set_timer()

    def resume_writing(self) -> None:
        self._line.flow.release()
        self._set_timer()
        self._advance()

    # From one request to the next

    def _advance(self) -> None:
        """Takes up requests for as long as whole heads are here and the peer takes our answers."""
        line = self._line
        for _ in range(BURST):
            if self._phase not in RESTING or self._task is not None or line.flow.held:
                break
            try:
                head = line.inbox.take_head(self._service.limits.max_header)
            except Fault as fault:
                self._refuse(fault)
                break
            if head is None:
                self._rest()
                break
            self._begin(head)
        else:
            self._loop.call_soon(self._advance)
        line.regulate()

    def _rest(self) -> None:
        if self._ended:
            self._close()
        elif self._phase is Phase.IDLE and self._line.inbox:
            self._enter(Phase.HEAD)

    def _begin(self, head: bytes) -> None:
        cycle = self._begin_cycle()
        try:
            outcome = cycle.call(head)
        except Exception as error:
            outcome = cycle.render(error)
        if isinstance(outcome, Response):
            cycle.answer(outcome)
            self._finish(cycle)
        else:
            self._start_task(cycle, outcome)

    def _refuse(self, fault: Fault) -> None:
        """Answers a head that cannot be parsed, or does not come."""
        cycle = self._begin_cycle()
        cycle.answer(cycle.render(fault))
        self._finish(cycle)

    def _begin_cycle(self) -> RequestResponseCycle:
        self._cycle = RequestResponseCycle(self._service, self._line, self._read_body)
        self._enter(Phase.ANSWER)
        return self._cycle

    def _start_task(self, cycle: RequestResponseCycle, outcome: Awaitable[Response | StreamResponse]) -> None:
        task = self._task = self._loop.create_task(self._serve(cycle, outcome))

        def settled(task: asyncio.Task[None]) -> None:
            if asyncio.iscoroutine(outcome):
                outcome.close()  # a task cancelled before its first step never awaited it
            self._settled(cycle, task)

        task.add_done_callback(settled)
        if self._ended:  # it was half-closed before the request's turn came
            self._service.disconnects += 1
            self.abandon()

    async def _serve(
        self, cycle: RequestResponseCycle, outcome: Awaitable[Response | StreamResponse]
    ) -> None:
        try:
            response = await outcome
        except Exception as error:
            response = cycle.render(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something that the handler waited for was cancelled, not the handler.
            response = cycle.render(error)
        if isinstance(response, Response):
            cycle.answer(response)
        else:
            await cycle.stream(response)
        self._finish(cycle)

    def _settled(self, cycle: RequestResponseCycle, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s answer broke off", cycle.id, exc_info=error)
        if self.busy:  # its end was never written, and a body that breaks off is all that can tell the peer
            self.abandon()
        if not cycle.finished:
            cycle.finish(CLIENT_GONE)
        self._advance()
        self._leave()

    def _finish(self, cycle: RequestResponseCycle) -> None:
        """The answer's last byte is written: decides what becomes of the connection."""
        if self._phase is Phase.CLOSED:  # the handler carried on although it was cancelled
            return
        cycle.finish(cycle.status)
        complete = cycle.exchange.complete
        if cycle.exchange.reusable and not cycle.closes and not self._service.draining:
            self._enter(Phase.IDLE if complete else Phase.DROP)
        elif self._ended or (complete and not self._line.inbox):
            self._close()
        else:
            # Closing with bytes unread makes the kernel send a reset, which destroys our answer on its way.
            self._enter(Phase.LINGER)
            self._line.half_close()

    # Bodies

    async def _read_body(self) -> bytes:
        cycle = self._cycle
        exchange = cycle.exchange
        if self._phase is not Phase.ANSWER:
            raise RuntimeError("a body can be read only while its request is being answered")
        exchange.admit_body()
        if not exchange.complete:
            cycle.receive(self._line.inbox.take_all(), keep=True)
        if not exchange.complete:
            if exchange.expects_continue:
                self._line.write(exchange.go_ahead())
            self._body_arrived = self._loop.create_future()
            self._enter(Phase.BODY)
            self._line.regulate()
            try:
                await self._body_arrived
            finally:
                self._leave_body()
        if exchange.coding is None:
            return exchange.body
        # Even a small one on a thread: how much comes out is known only afterwards.
        limit = self._service.limits.max_body
        return await asyncio.to_thread(decode, exchange.body, exchange.coding, limit)

    def _receive_body(self, data: bytes) -> None:
        try:
            self._cycle.receive(data, keep=True)
        except Fault as fault:
            self._end_body(fault)
        else:
            if self._cycle.exchange.complete:
                self._end_body(None)

    def _leave_body(self) -> None:
        if self._phase is Phase.BODY:
            self._enter(Phase.ANSWER)

    def _end_body(self, fault: Fault | None) -> None:
        self._leave_body()
        arrived = self._body_arrived
        if arrived is None or arrived.done():
            return
        if fault is None:
            arrived.set_result(None)
        else:
            arrived.set_exception(fault)

    def _drop_body(self, data: bytes) -> None:
        try:
            self._cycle.receive(data, keep=False)
        except Fault:
            self._close()  # its request has been answered
            return
        if self._cycle.exchange.complete:
            self._enter(Phase.IDLE)
            self._advance()

    # Time, and the end

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._since = self._loop.time()
        self._set_timer()

    def _set_timer(self) -> None:
        limits = self._service.limits
        held_since = self._line.flow.held_since
        limit = seconds(self._phase, limits)
        if held_since is not None and self._phase not in ENDING:
            self._timer.set(held_since + limits.send_timeout)
        else:
            self._timer.set(None if limit is None else self._since + limit)

    def _expired(self) -> None:
        if self._line.flow.held:
            self._service.stalled += 1
            self.abandon()
            return
        match self._phase:
            case Phase.IDLE:
                self._close()
            case Phase.HEAD:
                self._refuse(Fault("timeout"))
            case Phase.BODY:
                self._end_body(Fault("timeout"))
            case _:
                self.abandon()

    def drain(self) -> None:
        """Closes at once if the server drains and no request is being answered."""
        if self._service.draining and not self.busy and self._phase is not Phase.CLOSED:
            self._close()

    def abandon(self) -> None:
        """Gives up at once: cancels the task and drops what is unsent."""
        if self._task is not None:
            self._task.cancel()
        self._phase = Phase.CLOSED
        self._timer.set(None)
        self._line.abort()

    def _close(self) -> None:
        self._enter(Phase.CLOSED)
        self._line.close()

    def _leave(self) -> None:
        if self._lost and self._task is None:
            self._service.leave(self)
