"""A whole node in this process, on real sockets, whose model is a script."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import uvloop
from numpy.typing import NDArray

from kernels.constants import PAGE
from node.access.keys import Keyring, hash_key
from node.api.compiler import Compiler
from node.api.model_service import ModelService
from node.api.routes import build_routes, render_error
from node.chat.chat import Chat
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.plan import GetSamplingMetadata, SamplingMetadata, StepPlan
from node.engine.scheduler import Budget, Scheduler
from node.http.cors import Cors
from node.http.limits import HttpLimits
from node.http.server import Server
from node.settings import Settings
from node.telemetry.metrics import Metrics

DEMO = Path(__file__).parent.parent / "weights" / "demo"
KEY = "b3os_test_key"
MODEL = "b3os/scripted"
CREATED = 1_790_000_000


@dataclass
class ScriptedRunner:
    """Each sequence that starts plays the next script, then the stop id. The last script repeats.

    What a script says must be allowed by the masks of its sequence, or the step fails.

    seconds   of each step
    gate      steps wait while it is cleared
    failures  steps still to fail
    prompts   the ids of each sequence's prompt, as its pages hold them
    """

    scripts: Sequence[Sequence[int]]
    stop_id: int
    pages: int
    seconds: float = 0.0
    gate: threading.Event = field(default_factory=threading.Event)
    failures: int = 0
    steps: int = 0
    prompts: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()
        self._playing: dict[int, tuple[int, int]] = {}  # by slot: number of the script, ids played
        self._pages = np.zeros((self.pages + 1, PAGE), dtype=np.int64)

    def run(self, plan: StepPlan, get_metadata: GetSamplingMetadata) -> NDArray[np.int64]:
        self.gate.wait()
        time.sleep(self.seconds)
        self.steps += 1
        if self.failures:
            self.failures -= 1
            raise RuntimeError("scripted failure of /secret/path")
        begun = {*plan.state_slots[plan.fresh_rows].tolist(), *plan.restores[:, 1].tolist()}
        sampled = []
        for row, slot in enumerate(plan.state_slots.tolist()):
            here = slice(plan.cu_seqlens[row], plan.cu_seqlens[row + 1])
            positions = plan.positions[here]
            self._pages[plan.page_table[row][positions // PAGE], positions % PAGE] = plan.token_ids[here]
            if slot in begun:
                self._playing[slot] = (len(self.prompts), 0)
                self.prompts.append([])
            number, played = self._playing[slot]
            if played == 0:  # what earlier sequences have run of it lies in its pages already
                read = self._pages[plan.page_table[row]].reshape(-1)
                self.prompts[number] = read[: plan.context_lengths[row]].tolist()
            if row in plan.sample_rows:
                script = self.scripts[min(number, len(self.scripts) - 1)]
                sampled.append(script[played] if played < len(script) else self.stop_id)
                self._playing[slot] = (number, played + 1)
        self._follow(get_metadata(), sampled)
        return np.array(sampled, dtype=np.int64)

    def _follow(self, metadata: SamplingMetadata | None, sampled: list[int]) -> None:
        """Where a mask allows one id alone, it is taken; what the script says must be allowed elsewhere."""
        for row, bits in zip(metadata.masked.tolist(), metadata.bits, strict=True) if metadata else ():
            allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
            if len(allowed) == 1:
                sampled[row] = int(allowed[0])
            assert sampled[row] in allowed, f"{sampled[row]} is forbidden"


@dataclass(frozen=True)
class RunningNode:
    port: int
    runner: ScriptedRunner
    engine: Engine
    server: Server
    chat: Chat

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/infer"

    def wait_until_idle(self) -> None:
        """Until nothing lives and every page and slot is back; fails after 5 s."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            picture = self.engine.snapshot
            everything_back = (picture.pages_free, picture.state_slots_free) == (
                picture.pages_total,
                picture.state_slots_total,
            )
            if self.engine.live == 0 and picture.running == picture.waiting == 0 and everything_back:
                return
            time.sleep(0.005)
        raise AssertionError(f"still busy: {self.engine.live} live, {self.engine.snapshot}")


@contextlib.contextmanager
def running_node(
    *texts: str,
    seconds: float = 0.0,
    context: int = 2048,
    first_token_timeout: float = 10.0,
    queue_timeout: float = 60.0,
    pages: int = 256,
    limits: HttpLimits | None = None,
    queue_requests: int = 1024,
    cors: Cors | None = None,
) -> Iterator[RunningNode]:
    """A node whose sequences write `texts`, in the order in which they start."""
    chat = Chat.read(DEMO)
    end = chat.tokenizer.control["<|im_end|>"]
    runner = ScriptedRunner([chat.written(text) for text in texts or ("",)], end, pages, seconds)
    scheduler = Scheduler(
        pages, 32, context, Budget(16, 512, 128), recurrent=True
    )  # 16 slots hold checkpoints
    settings = Settings(queue_requests=queue_requests)
    engine = Engine(scheduler, runner, settings.part(EngineLimits))
    started: list[Server] = []
    ready, ending = threading.Event(), asyncio.Event()

    async def serve() -> None:
        with ThreadPoolExecutor(1) as workers, Compiler(settings.queue_schema_bytes) as compiler:
            service = ModelService(
                name=MODEL,
                context=context,
                created=CREATED,
                width=chat.tokenizer.vocabulary_size + 3,
                stop_ids=frozenset({end}),
                first_token_timeout=first_token_timeout,
                queue_timeout=queue_timeout,
                chat=chat,
                engine=engine,
                keyring=Keyring(frozenset({hash_key(KEY)})),
                workers=workers,
                compiler=compiler,
            )
            loops.append(asyncio.get_running_loop())
            engine.start(loops[0])
            metrics = Metrics(MODEL, PAGE, {}, lambda: engine.snapshot, lambda: 0)
            bounds = limits or settings.part(HttpLimits)
            server = Server(build_routes(service, metrics), render_error, bounds, cors)
            await server.start("127.0.0.1", 0)
            started.append(server)
            ready.set()
            await ending.wait()
            await server.shutdown(1.0)
            await asyncio.to_thread(engine.stop)

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: uvloop.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield RunningNode(started[0].port, runner, engine, started[0], chat)
    finally:
        runner.gate.set()
        loops[0].call_soon_threadsafe(ending.set)
        thread.join(10)
        assert not thread.is_alive()
