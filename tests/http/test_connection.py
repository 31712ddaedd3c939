"""What sockets cannot be made to do on time: moments between two steps of the loop."""

import asyncio
from unittest.mock import Mock

from node.http.connection import Connection
from node.http.service import Service
from tests.http.support import LIMITS, Site, get, post, render


class HeldClock(asyncio.SelectorEventLoop):
    """A loop whose time the test moves."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def rounds(count: int) -> None:
    """Lets the loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_request_that_arrives_between_an_answer_and_the_end_of_its_task_waits_for_it() -> None:
    async def scenario() -> list[bytes]:
        service = Service(Site().router, render, LIMITS)
        transport = Mock(**{"is_closing.return_value": False})
        connection = Connection(service, asyncio.get_running_loop())
        connection.connection_made(transport)
        connection.data_received(post("/echo", b"one"))
        await asyncio.sleep(0)  # the task has run to its end, but the loop has not said so yet
        assert transport.write.call_count == 1
        connection.data_received(post("/echo", b"two"))
        await rounds(10)
        connection.connection_lost(None)
        await service.empty.wait()
        return [call.args[0].partition(b"\r\n\r\n")[2] for call in transport.write.call_args_list]

    assert asyncio.run(asyncio.wait_for(scenario(), 5)) == [b"one", b"two"]


def test_each_frame_of_a_stream_is_one_write() -> None:
    async def scenario() -> list[bytes]:
        service = Service(Site().router, render, LIMITS)
        transport = Mock(**{"is_closing.return_value": False})
        connection = Connection(service, asyncio.get_running_loop())
        connection.connection_made(transport)
        connection.data_received(b"GET /three HTTP/1.1\r\nhost: x\r\n\r\n")
        await rounds(20)
        connection.connection_lost(None)
        await service.empty.wait()
        return [call.args[0] for call in transport.write.call_args_list]

    head, *frames = asyncio.run(asyncio.wait_for(scenario(), 5))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and head.endswith(b"\r\n\r\n")
    assert frames == [b"9\r\ndata: %d\n\n\r\n" % n for n in (1, 2, 3)] + [b"0\r\n\r\n"]


def test_c14_idle_connection_outlives_a_proxy_s_pool_of_90_seconds_and_is_closed_after_120() -> None:
    async def scenario(loop: HeldClock) -> None:
        service = Service(Site().router, render, LIMITS)
        transport = Mock(**{"is_closing.return_value": False})
        connection = Connection(service, loop)
        connection.connection_made(transport)
        connection.data_received(get("/health"))
        for ahead, closed in ((90.0, False), (119.0, False), (121.0, True)):
            loop.ahead = ahead
            await rounds(3)
            assert transport.close.called == closed, ahead
        connection.connection_lost(None)

    with asyncio.Runner(loop_factory=HeldClock) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, HeldClock)
        runner.run(scenario(loop))
