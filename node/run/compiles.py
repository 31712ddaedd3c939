"""How often Triton prepares a kernel in this process: after the node is ready each time is a request that waits."""

from __future__ import annotations

import logging
from typing import Any

from kernels.device import triton

log = logging.getLogger("node.run")


class Compiles:
    """Counts specialisations from its making on, those that come from Triton's folder of compiled kernels included:
    loading one takes milliseconds, and the next node may not find it there.
    """

    def __init__(self) -> None:
        self.total = 0
        self._warm: int | None = None
        if triton is not None:
            # The hooks of triton.jit would do as well, but write every specialisation out as JSON first.
            self._before = triton.knobs.compilation.listener
            triton.knobs.compilation.listener = self._compiled

    @property
    def after_ready(self) -> int:
        """0 while the node warms up; then it must stay 0."""
        return 0 if self._warm is None else self.total - self._warm

    def ready(self) -> None:
        """From here on every one is a fault of the warm-up, and is logged by name."""
        self._warm = self.total

    def _compiled(self, **told: Any) -> None:
        self.total += 1
        if self._warm is not None:
            log.warning("compiled after ready: %s", getattr(told["src"], "name", "a kernel"))
        if self._before is not None:
            self._before(**told)
