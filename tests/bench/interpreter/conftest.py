"""These tests run where kernels were imported under TRITON_INTERPRET=1: see tests/kernels/test_interpreter.py."""

from __future__ import annotations

from kernels.device import INTERPRETED

collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]
