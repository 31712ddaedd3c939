"""The real scheduler on a model of a device: what a trace would see, in seconds of the device's and not ours."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.engine.roofline import H200, QWEN3_5_9B, Device, Work
from node.engine.sampling import Sampling
from node.engine.scheduler import Budget, Counts, Scheduler
from node.engine.sequence import Sequence
from node.engine.step import Step
from node.engine.trace import TraceRequest, read_trace, text_ids

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Setup:
    """The node that is simulated: one H200 with Qwen3.5-9B, unless told otherwise.

    reuse  keep states; off, every prompt is run whole
    fair   queue by organization; off, whoever comes first is first
    """

    device: Device = H200
    work: Work = QWEN3_5_9B
    pages: int = 46_000
    cached_states: int = 128
    context: int = 32_768
    budget: Budget = field(default_factory=lambda: Budget(256, 8192, 512))
    reuse: bool = True
    fair: bool = True


@dataclass(slots=True)
class Life:
    """One request as the client sees it; seconds from the start."""

    request: TraceRequest
    answer: NDArray[np.int64]
    prompt: NDArray[np.int64]
    arrived: float
    tokens: list[float] = field(default_factory=list)

    @property
    def first(self) -> float:
        """Seconds to the first token."""
        return self.tokens[0] - self.arrived


@dataclass(frozen=True, slots=True)
class Outcome:
    """lives    of all requests
    counts   of the scheduler
    seconds  until the last token
    steps    and of them those that ran prompts
    """

    lives: list[Life]
    counts: Counts
    seconds: float
    steps: int
    prompt_steps: int

    def firsts(self, organization: str | None = None) -> NDArray[np.float64]:
        """Seconds to the first token of each request."""
        lives = [life for life in self.lives if organization in (None, life.request.organization)]
        return np.array([life.first for life in lives])

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Seconds between the tokens of an answer, of all answers."""
        return np.concatenate([np.zeros(0), *(np.diff(life.tokens) for life in self.lives)])

    @property
    def organizations(self) -> list[str]:
        return sorted({life.request.organization for life in self.lives})

    @property
    def hit_rate(self) -> float:
        """Tokens of prompts that were not run, of all."""
        return self.counts.reused / max(1, self.counts.reused + self.counts.prompt)

    def table(self) -> str:
        """For people."""
        counts = self.counts
        rows = [
            ("requests", f"{len(self.lives):,} in {self.seconds:.1f} s"),
            ("steps", f"{self.steps:,}, of which {self.prompt_steps:,} ran prompts"),
            ("output", f"{counts.sampled:,} tokens, {counts.sampled / self.seconds:,.0f} a second"),
            ("prompts", f"{counts.prompt + counts.reused:,} tokens, {counts.prompt:,} of them run"),
            ("hit rate", f"{self.hit_rate:.1%}"),
            ("preemptions", f"{counts.preemptions:,}, {counts.recomputed:,} tokens run again"),
            ("first token", _percentiles(self.firsts())),
        ]
        if len(self.organizations) > 1:
            rows += [(f"  {name}", _percentiles(self.firsts(name))) for name in self.organizations]
        rows.append(("between", _percentiles(self.gaps)))
        return "\n".join(f"  {name:<14} {value}" for name, value in rows)


def simulate(path: Path, setup: Setup | None = None) -> str:
    """Replay a trace or a recording and tell what it would have seen. Raises TraceError, OSError."""
    setup = setup or Setup()
    about = f"{path.name} on {setup.device.name}, {setup.work.name}, modelled"
    return f"{about}\n{replay(read_trace(path), setup).table()}"


def replay(requests: list[TraceRequest], setup: Setup) -> Outcome:
    """Run all requests to their end."""
    slots = setup.budget.sequences + (setup.cached_states if setup.reuse else 0)
    scheduler = Scheduler(setup.pages, slots, setup.context, setup.budget, recurrent=True)
    followers: dict[str, list[TraceRequest]] = defaultdict(list)
    arrivals: list[tuple[float, int, TraceRequest]] = []
    order = itertools.count()
    for request in requests:
        if request.after is None:
            heapq.heappush(arrivals, (request.at, next(order), request))
        else:
            followers[request.after].append(request)
    live: dict[Sequence, Life] = {}
    ended: dict[str, Life] = {}
    now, steps, prompt_steps = 0.0, 0, 0
    while arrivals or scheduler.has_work:
        while arrivals and arrivals[0][0] <= now:
            at, _, request = heapq.heappop(arrivals)
            life = _begin(request, at, ended.get(request.after or ""))
            sequence = _sequence(life, setup.fair)
            scheduler.check(sequence)
            scheduler.add(sequence)
            live[sequence] = life
        step = scheduler.plan()
        if step is None:
            now = arrivals[0][0]
            continue
        now += setup.work.step_seconds(step.plan, setup.device)
        steps, prompt_steps = steps + 1, prompt_steps + bool(step.chunks)
        for progress in scheduler.retire(step, _samples(step, live)):
            life = live[progress.sequence]
            life.tokens += [now] * len(progress.ids)
            if progress.finish_reason is not None:
                del live[progress.sequence]
                ended[life.request.id] = life
                for follower in followers.pop(life.request.id, ()):
                    heapq.heappush(arrivals, (now + follower.at, next(order), follower))
    return Outcome(list(ended.values()), scheduler.counts, now, steps, prompt_steps)


def _begin(request: TraceRequest, at: float, before: Life | None) -> Life:
    said = np.zeros(0, np.int64) if before is None else np.concatenate([before.prompt, before.answer])
    parts = [text_ids(name, tokens) for name, tokens in request.parts]
    answer = text_ids(f"answer to {request.id}", max(1, request.output))
    return Life(request, answer, np.concatenate([said[: request.kept], *parts]), at)


def _sequence(life: Life, fair: bool) -> Sequence:
    request = life.request
    organization = request.organization if fair else ""
    return Sequence(
        request.id,
        life.prompt,
        len(life.answer),
        Sampling(0.0),
        frozenset(),
        organization=organization,
        boundaries=request.boundaries,
    )


def _samples(step: Step, live: dict[Sequence, Life]) -> NDArray[np.int64]:
    return np.array([live[s].answer[len(s.output)] for s in step.sampling], dtype=np.int64)


def _percentiles(seconds: NDArray[np.float64]) -> str:
    if not len(seconds):
        return "none"
    values = np.percentile(seconds, PERCENTILES) * 1e3
    return ", ".join(f"p{p} {value:,.1f} ms" for p, value in zip(PERCENTILES, values, strict=True))
