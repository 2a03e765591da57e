"""Processes: a pool of them, and those of a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import importlib
import multiprocessing
import multiprocessing.context
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.base.errors import InputError

__all__ = ["Lost", "close_client", "dask_client", "pool", "version", "without_main"]


SAFE_PATH = "PYTHONSAFEPATH"
AWAY = 20.0  # seconds that a Dask scheduler may not answer


def pool(count: int, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()) -> concurrent.futures.ProcessPoolExecutor:
    """`count` fresh processes, each of which calls `begin` first. They end with this one, and Ctrl-C is this one's
    alone.
    """
    with _safe_path():  # it starts a process that watches semaphores
        return concurrent.futures.ProcessPoolExecutor(count, _Context(), initializer=_begin, initargs=(begin, arguments))


_starts = threading.RLock()


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Pythons that start meanwhile import nothing from the current folder (Python's `-P`): multiprocessing starts them
    by `-c`, which looks there first.
    """
    with _starts:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            os.environ.pop(SAFE_PATH)
            if before is not None:
                os.environ[SAFE_PATH] = before


class _Process(multiprocessing.context.SpawnProcess):
    """A fresh process: threads of this one are nothing to fork."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  (multiprocessing's name)
        with _safe_path():
            return multiprocessing.context.SpawnProcess._Popen(process_obj)


class _Context(multiprocessing.context.SpawnContext):
    Process = _Process


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Processes that start meanwhile do not import the caller's script, which would run it once more where it has no
    `if __name__` guard.
    """
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


def dask_client(address: str) -> Any:
    """A `distributed.Client` of the scheduler at an address, whose workers have this smemsim. Raises InputError with
    what is missing.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise InputError("--dask: needs dask.distributed, which is not installed: pip install 'smemsim[campaign]'") from None
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
        client.wait_for_workers(1, timeout=30)
    except (OSError, ValueError, TimeoutError) as e:
        raise InputError(f"--dask {address}: no Dask scheduler with a worker answers there: {e}") from None
    others = {found for found in client.run(version).values() if found != version()}
    if others:
        client.close()
        raise InputError(
            f"--dask {address}: workers have smemsim {', '.join(sorted(others))}, here is {version()}; install the same everywhere"
        )
    return client


def close_client(client: Any) -> None:
    """Close a Dask client; one whose scheduler is gone is not waited for."""
    if client is not None:
        with contextlib.suppress(Exception):  # whatever distributed makes of a scheduler that is gone
            client.close(timeout=5)


class Lost:
    """Looks whether the scheduler of a Dask client still answers: a client whose scheduler is gone waits for it for
    ever.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._since: float | None = None

    def check(self) -> None:
        """InputError where the scheduler has been away for longer than a short break of the line takes."""
        if self._client.status == "running":
            self._since = None
            return
        now = time.monotonic()
        self._since = self._since or now
        if self._client.status == "closed" or now - self._since > AWAY:
            raise InputError(
                f"--dask: the scheduler no longer answers ({self._client.status}); start it again, or leave --dask out to work on this machine"
            )


@functools.cache
def version() -> str:
    """The version of smemsim, and a digest of its source: what is spread or resumed goes on only with the code it was
    begun with.
    """
    folder = pathlib.Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return f"{importlib.import_module('smemsim').__version__}+{digest.hexdigest()[:12]}"
