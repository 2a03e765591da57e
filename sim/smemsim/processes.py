"""Processes of this machine: how many are worth having, and a pool of them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["can_have_children", "pool", "processors", "without_main"]


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_have_children() -> bool:
    """May this process start others? Those of a multiprocessing.Pool may not."""
    return not multiprocessing.current_process().daemon


def pool(count: int, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()) -> concurrent.futures.ProcessPoolExecutor:
    """`count` fresh processes, each of which calls `begin` first. They end with this one, and Ctrl-C is this one's alone."""
    context = multiprocessing.get_context("spawn")  # threads of this process are nothing to fork
    return concurrent.futures.ProcessPoolExecutor(count, context, initializer=_begin, initargs=(begin, arguments))


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Processes that start meanwhile do not import the caller's script, which would run it once more where it has no `if __name__` guard."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


def _begin(begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
    if begin is not None:
        begin(*arguments)
