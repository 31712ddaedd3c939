"""These tests run where kernels were imported under TRITON_INTERPRET=1: see the driver beside this folder."""

from __future__ import annotations

from kernels.device import INTERPRETED

collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]
