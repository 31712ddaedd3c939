"""Health is progress: steps complete, or nothing waits for one."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from dataclasses import dataclass

FATAL_FAILURES = 3  # steps that raise in a row: a poisoned device does not recover
EXIT_STUCK = 70  # EX_SOFTWARE of sysexits.h

log = logging.getLogger("node.health")


@dataclass(slots=True)
class Health:
    """Fed by the engine, asked by /health and by the watchdog. Times are time.monotonic() seconds.

    unhealthy_timeout  seconds without progress, while something waits for it, after which /health fails
    watchdog_timeout   and after which the process ends
    progress_at        when a step last completed, or work last arrived at an idle engine
    busy               whether anything waits for a step
    failures           steps that raised, in a row
    """

    unhealthy_timeout: float
    watchdog_timeout: float
    progress_at: float
    busy: bool = False
    failures: int = 0

    def stalled_for(self, now: float) -> float:
        """Seconds without progress while something waits for it."""
        return now - self.progress_at if self.busy else 0.0

    def healthy(self, now: float) -> bool:
        return self.stalled_for(now) < self.unhealthy_timeout and self.failures < FATAL_FAILURES

    def exit_if_stuck(self, now: float) -> None:
        """End the process, with every thread's stack on stderr, once waiting longer cannot help."""
        if self.stalled_for(now) < self.watchdog_timeout and self.failures < FATAL_FAILURES:
            return
        log.critical("no step for %.0f s, %d failed in a row: exiting", self.stalled_for(now), self.failures)
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        os._exit(EXIT_STUCK)
