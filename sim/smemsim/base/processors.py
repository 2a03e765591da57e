"""How many processors there are for this process, and whether it may start others. Importing this module imports
neither multiprocessing nor numpy.
"""

from __future__ import annotations

import functools
import os
import sys

__all__ = ["can_be_copied", "can_have_children", "idle", "processors", "room"]


_QUOTA, _OLD_QUOTA, _OLD_PERIOD = (
    f"/sys/fs/cgroup/{name}" for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
)  # of the control group


def processors() -> int:
    """Processors that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _quota() or count))


@functools.cache
def _quota() -> int:
    """Whole processors that the control group of this process may use; 0 where it says nothing."""
    given = _words(_QUOTA) or [*_words(_OLD_QUOTA), *_words(_OLD_PERIOD)]
    if len(given) != 2 or not all(word.isdecimal() and int(word) for word in given):
        return 0
    return max(1, int(given[0]) // int(given[1]))


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except (OSError, ValueError):
        return []


def can_be_copied() -> bool:
    """Is this a system on which processes are copied, and ask for nothing that a copy has not
    (`smemsim.run.procs.forks`)?
    """
    return sys.platform == "linux" and hasattr(os, "memfd_create") and hasattr(os, "fork")


def idle() -> int:
    """The number of idle processors, as far as it is known. If this process may use only a part of the machine: that
    part without its own processor.
    """
    count, running = processors(), _words("/proc/loadavg")[3:4]
    if count != os.cpu_count() or not running:
        return count - 1
    return max(0, count - max(1, int(running[0].partition("/")[0])))


def room() -> int:
    """Bytes of free memory; a huge number if the machine does not report it."""
    words = _words("/proc/meminfo")
    return 1024 * int(words[words.index("MemAvailable:") + 1]) if "MemAvailable:" in words else sys.maxsize


def can_have_children() -> bool:
    """May this process start others? Those of a multiprocessing.Pool may not."""
    started_by = sys.modules.get("multiprocessing.process")  # which every such process has imported
    return started_by is None or not started_by.current_process().daemon
