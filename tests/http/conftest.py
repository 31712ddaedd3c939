from collections.abc import Iterator

import pytest

from tests.http.support import Peer, Running


@pytest.fixture
def running() -> Iterator[Running]:
    with Running() as running:
        yield running


@pytest.fixture
def peer(running: Running) -> Iterator[Peer]:
    with running.peer() as peer:
        yield peer
