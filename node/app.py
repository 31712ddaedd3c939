"""Wiring: builds the parts, hands each what it needs, and ends them in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import uvloop

from kernels.constants import PAGE
from kernels.device import triton
from node.access.keys import (
    KeyFault,
    Keyring,
    check_configured,
    first_start_key,
    hash_key,
    recognisable,
    state_folder,
)
from node.api.compiler import Compiler
from node.api.model_service import ModelService
from node.api.routes import EXPOSED_HEADERS, build_routes, loading_routes, render_error
from node.chat.chat import Chat
from node.checkpoint import CheckpointError
from node.device import choose_context, choose_device, memory_plan, read_config, step_budget
from node.engine.engine import Engine
from node.engine.limits import EngineLimits
from node.engine.recording import Recorder
from node.engine.scheduler import Scheduler
from node.http.cors import Cors
from node.http.limits import HttpLimits
from node.http.server import Server
from node.model.config import ModelConfig
from node.model.stops import stop_ids
from node.run.compiles import Compiles
from node.run.graph_runner import GraphRunner
from node.run.load import load_model, warm_up
from node.run.measure import measured_workspace
from node.run.memory import MemoryPlan
from node.run.model_runner import ModelRunner
from node.run.warm import warm_all
from node.settings import Settings, SettingsError
from node.telemetry.metrics import Metrics

WATCH_SECONDS = 5.0
SWITCH_SECONDS = (
    0.0005  # how long a thread may keep the GIL while the other waits; Python's own 5 ms is a whole step
)
SIGNALLED = 128  # the status of what a signal ended is its number above this, as shells have it
WORKERS = 2  # tokenizing long prompts; the tokenizer lets go of the GIL

log = logging.getLogger("node.app")


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError and CheckpointError for what the operator can mend."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    sys.setswitchinterval(SWITCH_SECONDS)
    config = read_config(settings)
    context = choose_context(settings, config)
    if settings.deferred and config.delta is None:
        log.warning("--state-writes eighth: the model has no delta layers, and so no states to write")
    plan = memory_plan(settings, config)
    hashes, shown = _keys(settings)
    chat = Chat.read(settings.model)
    if chat.tokenizer.vocabulary_size > config.vocab_size:
        counts = f"{chat.tokenizer.vocabulary_size:,} tokens for {config.vocab_size:,} rows of the table"
        raise CheckpointError(f"tokenizer and weights are not of one model: {counts}", path=settings.model)
    node = Node(settings, config, plan, context, chat, Keyring(hashes))
    print(
        f"{settings.name} from {settings.model} on {choose_device(settings)}, {context:,} tokens of context"
    )
    print(plan.table(), flush=True)
    uvloop.run(node.run(shown))


def _keys(settings: Settings) -> tuple[frozenset[str], str]:
    """(hashes of the keys that open the node, what to print as the key)."""
    if settings.api_key is not None:
        try:
            check_configured(settings.api_key)
        except KeyFault as error:
            raise SettingsError(f"--api-key: {error}") from None
        return frozenset(
            {hash_key(settings.api_key)}
        ), f"the configured one, {recognisable(settings.api_key)}"
    if not settings.loopback:
        raise SettingsError(
            f"--host {settings.host} is open to other machines: set --api-key or B3OS_NODE_API_KEY"
        )
    path = state_folder() / "key"
    try:
        hashed, key = first_start_key(path)
    except KeyFault as error:
        raise SettingsError(str(error)) from None
    return frozenset({hashed}), key or f"the one shown at the first start (remove {path} for a new one)"


class Node:
    """The process: one server, one engine, one model."""

    def __init__(
        self,
        settings: Settings,
        config: ModelConfig,
        plan: MemoryPlan,
        context: int,
        chat: Chat,
        keyring: Keyring,
    ) -> None:
        self._settings = settings
        self._config = config
        self._plan = plan
        self._context = context
        self._chat = chat
        self._keyring = keyring
        self._loaded = False
        self._ended = asyncio.Event()
        self.compiles = Compiles()

    async def run(self, shown_key: str) -> None:
        settings = self._settings
        cors = Cors(settings.cors_origins, EXPOSED_HEADERS) if settings.cors_origins else None
        server = Server(loading_routes(), render_error, settings.part(HttpLimits), cors)
        try:
            # Before the weights: a taken port should not cost a minute, and probes may ask meanwhile.
            await server.start(settings.host, settings.port)
        except OSError as error:
            raise SettingsError(f"--port: {settings.host}:{settings.port}: {error.strerror}") from None
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._end, name)
        try:
            # A thread that ends: its handle to cuBLAS, with the memory that it works in, goes on to the engine's.
            with ThreadPoolExecutor(1, thread_name_prefix="load") as loading:
                engine = await loop.run_in_executor(loading, self._load)
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise SettingsError(f"{settings.model}: {error}") from None
        self._loaded = True
        engine.start(loop)
        with (
            ThreadPoolExecutor(WORKERS, thread_name_prefix="tokenize") as workers,
            Compiler(settings.queue_schema_bytes) as compiler,
        ):
            service = self._service(engine, workers, compiler)
            server.route(build_routes(service, self._metrics(engine)))
            watch = asyncio.create_task(_watch(engine))
            gc.freeze()  # what lives now lives to the end: the collector need not look at it again
            self._greet(server.port, shown_key)
            await self._ended.wait()
            log.info("draining, %d requests run", engine.live)
            engine.accepting = False
            await server.shutdown(settings.drain_timeout)
            watch.cancel()
            await asyncio.to_thread(engine.stop)

    def _end(self, signal_number: int) -> None:
        """Let what runs end. Where nothing runs yet, or at the second signal, end at once."""
        if self._loaded and not self._ended.is_set():
            self._ended.set()
            return
        log.warning("signal %d: ending at once", signal_number)
        sys.stdout.flush()
        # Threads inside torch cannot be unwound: an orderly exit beside them aborts the process.
        os._exit(SIGNALLED + signal_number)

    def _load(self) -> Engine:
        device, started = choose_device(self._settings), time.monotonic()
        if device == "cuda" and triton is not None:
            _start_triton()
        model = load_model(self._settings.model, getattr(torch, self._settings.dtype), device)
        budget, deferred = step_budget(self._settings, device), self._settings.deferred
        captured = device == "cuda"
        if captured:  # what steps and graphs really take is known only now, and pages get the rest
            largest = budget.tokens, self._plan.sequences
            # The device of this process, which others may share, need not be the one that the driver lists first.
            # Asked before the warm-up, for what that leaves outside torch's allocator is in `taken`.
            ours = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
            taken = measured_workspace(model, self._context, *largest, deferred)
            self._plan = memory_plan(self._settings, self._config, taken, ours)
            log.info("memory as measured:\n%s", self._plan.table())
        plan = self._plan
        runner = ModelRunner(model, plan.pages + 1, plan.state_slots + 1, device, deferred)
        # On a CPU launching a step is running it: planning ahead would only cost a token of every answer.
        static = GraphRunner(runner, self._context) if captured else None
        if static is None:
            warm_up(runner)
        else:
            warm_all(static, budget.tokens, plan.sequences)
        self.compiles.ready()
        self._chat.warm_constraints(self._config.vocab_size)
        budget = budget.with_sequences(plan.sequences)
        scheduler = Scheduler(plan.pages, plan.state_slots, self._context, budget, bool(plan.slot_bytes))
        log.info("loaded and warm in %.1f s", time.monotonic() - started)
        limits = self._settings.part(EngineLimits)
        return Engine(scheduler, static or runner, limits, ahead=static, recorder=self._recorder())

    def _recorder(self) -> Recorder | None:
        path = self._settings.record
        try:
            return None if path is None else Recorder(path, self._settings.record_texts)
        except OSError as error:
            raise SettingsError(f"--record: {path}: {error.strerror}") from None

    def _service(self, engine: Engine, workers: ThreadPoolExecutor, compiler: Compiler) -> ModelService:
        return ModelService(
            name=self._settings.name,
            context=self._context,
            created=int((self._settings.model / "config.json").stat().st_mtime),
            width=self._config.vocab_size,
            stop_ids=stop_ids(self._settings.model),
            first_token_timeout=self._settings.first_token_timeout,
            queue_timeout=self._settings.queue_timeout,
            chat=self._chat,
            engine=engine,
            keyring=self._keyring,
            workers=workers,
            compiler=compiler,
        )

    def _metrics(self, engine: Engine) -> Metrics:
        plan = self._plan
        memory = {"weights": plan.weights, "workspace": plan.workspace, "state": plan.state, "kv": plan.kv}
        name, compiles = self._settings.name, self.compiles
        return Metrics(name, PAGE, memory, lambda: engine.snapshot, lambda: compiles.after_ready)

    def _greet(self, port: int, shown_key: str) -> None:
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        base = f"http://{host}:{port}/v1/infer"
        question = {
            "model": settings.name,
            "max_tokens": 64,
            "messages": [{"role": "user", "content": "Name one river in Oregon."}],
        }
        secret = shown_key if " " not in shown_key else "$B3OS_API_KEY"
        print(f"base URL  {base}\nkey       {shown_key}\ntry       curl -s {base}/v1/messages", end="")
        print(f' -H "Authorization: Bearer {secret}" -H "Content-Type: application/json"', end="")
        print(f" -d {shlex.quote(json.dumps(question))}", flush=True)


def _start_triton() -> None:
    """Triton compiles its launcher, in C, when first used: better before the weights. Raises SettingsError."""
    try:
        triton.runtime.driver.active.get_current_device()
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        raise SettingsError(f"--device cuda: Triton cannot start: {error}") from None


async def _watch(engine: Engine) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            engine.health.exit_if_stuck(time.monotonic())
