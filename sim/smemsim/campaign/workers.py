"""Who does the chunks: this process, a pool of processes, or a Dask cluster; all as `concurrent.futures` has it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
import traceback
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from smemsim.campaign.space import ChunkResult, Trouble
from smemsim.campaign.spaces import space
from smemsim.errors import InputError
from smemsim.processes import Lost, close_client, dask_client, pool, processors

__all__ = ["Crew", "crew", "do_chunk", "processors"]


def do_chunk(name: str, seed: int, chunk: int) -> tuple[ChunkResult, float]:
    """(what a chunk gave, seconds that it took); an exception that nobody expected is a trouble of its own."""
    begun = time.perf_counter()
    try:
        result = space(name).run(seed, chunk)
    except Exception as e:
        what = f"the chunk raises {type(e).__name__}: {e}"
        shown = {"space": name, "seed": seed, "chunk": chunk, "traceback": traceback.format_exc()}
        result = ChunkResult(0, {}, (Trouble(what, shown, f"smemsim campaign --reproduce {name}:{seed}:{chunk}"),))
    return result, time.perf_counter() - begun


class Crew:
    """Workers that take chunks. `count` is how many work at a time."""

    def __init__(self, count: int) -> None:
        self.count = count

    def submit(self, name: str, seed: int, chunk: int) -> concurrent.futures.Future[Any]:
        """Begin a chunk; here it is done at once."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_result(do_chunk(name, seed, chunk))
        return future

    def survives(self, error: BaseException) -> bool:
        """Can the crew go on after that? Chunks whose futures raise it have to be begun again."""
        del error
        return False

    def check(self) -> None:
        """Are there workers still? InputError where nobody will ever answer."""

    def close(self) -> None:
        """Send the workers home; what they have in hand is dropped."""


class _Processes(Crew):
    """Processes of this machine; a new pool where one of them dies."""

    DEATHS = 5  # pools in a row that die before a chunk is done

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._deaths = 0
        self._pool = self._new()

    def _new(self) -> concurrent.futures.ProcessPoolExecutor:
        return pool(self.count)

    def submit(self, name: str, seed: int, chunk: int) -> concurrent.futures.Future[Any]:
        try:
            return self._pool.submit(do_chunk, name, seed, chunk)
        except BrokenProcessPool as e:  # found out before the futures say so
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_exception(e)
            return future

    def survives(self, error: BaseException) -> bool:
        if not isinstance(error, BrokenProcessPool):
            return False
        if getattr(self._pool, "_broken", False):
            self._deaths += 1
            if self._deaths > self.DEATHS:
                raise InputError(
                    f"{self._deaths} times a worker process died before anything was done: memory may be short; --workers 1 does the chunks here"
                )
            self._pool.shutdown(wait=False)
            self._pool = self._new()
        return True

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Cluster(Crew):
    """A Dask cluster: pure tasks, which the scheduler gives to another worker where one is lost."""

    RETRIES = 5

    def __init__(self, address: str) -> None:
        self._client = dask_client(address)
        self._lost = Lost(self._client)
        super().__init__(max(1, sum(self._client.nthreads().values())))
        self._executor = self._client.get_executor(retries=self.RETRIES, pure=True)

    def submit(self, name: str, seed: int, chunk: int) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = self._executor.submit(do_chunk, name, seed, chunk)
        return future

    def survives(self, error: BaseException) -> bool:
        if type(error).__name__ == "KilledWorker":
            raise InputError(f"--dask: a chunk's workers were lost again and again: {error}")
        return isinstance(error, concurrent.futures.CancelledError)

    def check(self) -> None:
        self._lost.check()

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a client that is closed already
            self._executor.shutdown(wait=False)
        close_client(self._client)


@contextlib.contextmanager
def crew(workers: int, dask: str | None) -> Iterator[Crew]:
    """The workers: a Dask cluster where its scheduler's address is given, else processes, else (one worker) this process."""
    found = _Cluster(dask) if dask else _Processes(workers) if workers > 1 else Crew(1)
    try:
        yield found
    finally:
        found.close()
