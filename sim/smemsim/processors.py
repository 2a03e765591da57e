"""How many processors there are for this process, and whether it may start others. Importing this module imports neither multiprocessing nor numpy."""

from __future__ import annotations

import os
import sys

__all__ = ["can_have_children", "processors"]


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_have_children() -> bool:
    """May this process start others? Those of a multiprocessing.Pool may not."""
    started_by = sys.modules.get("multiprocessing.process")  # which every such process has imported
    return started_by is None or not started_by.current_process().daemon
