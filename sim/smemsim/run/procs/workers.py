"""Processes that execute the CTAs of a grid: on this machine, or a Dask cluster. The import of this module is slow, so
only modules that need it import it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from smemsim.base.errors import InputError
from smemsim.base.processes import Lost, pool, without_main

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["PIECES", "Cluster", "Crew", "Processes", "results"]


LOOK = 1.0  # seconds after which it is looked whether the workers are still there, and the launch's time is not over
PIECES = 4  # shards for each process, so that none waits long for the last one


def results(launch: Launch, crew: Crew, shards: Sequence[Sequence[int]]) -> Iterator[tuple[int, Any]]:
    """Run shards, of some clusters each: the number and the result of each, in their order; fewer where the launch is
    out of time.
    """
    found, following, given_out = dict[int, Any](), 0, 0
    futures: dict[concurrent.futures.Future[Any], int] = {}

    def submit(numbers: Iterable[int]) -> None:
        futures.update({crew.submit(shards[n]): n for n in numbers})

    while following < len(shards):
        crew.check()
        more = min(len(shards), following + 2 * PIECES * crew.count)
        submit(range(given_out, more))
        given_out = more
        ended = concurrent.futures.wait(futures, LOOK, concurrent.futures.FIRST_COMPLETED).done
        if launch.is_over:
            launch.result.out_of_time = True
            return
        for future in ended:
            number = futures.pop(future, None)
            if number is None:
                continue
            try:
                found[number] = future.result()
            except Exception as error:
                if not isinstance(error, (BrokenProcessPool, concurrent.futures.CancelledError)) and type(error).__name__ != "KilledWorker":
                    raise
                crew.lost(error)
                again = [number, *futures.values()]
                futures.clear()
                submit(again)
                break
        while following in found:
            yield following, found.pop(following)
            following += 1


class Crew:
    """The processes that execute the shards of a launch. `count` is how many work at a time."""

    count: int
    deaths = 0

    def __init__(self, most_deaths: int) -> None:
        self.most_deaths = most_deaths  # times that workers may be lost

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Any]:
        raise NotImplementedError

    def renew(self) -> None:
        """Find new workers, after some were lost."""

    def lost(self, error: BaseException) -> None:
        """Workers are gone; InputError when that has happened too often."""
        self.deaths += 1
        if self.deaths > self.most_deaths:
            raise InputError(f"workers were lost {self.deaths} times: memory may be short; workers=1 executes everything here") from error
        self.renew()

    def check(self) -> None:
        """InputError where no workers are left."""

    def close(self, *, wait: bool) -> None:
        """Send the workers home; without `wait` they may end their shards on their own."""


Shard = Callable[[Any, Sequence[int]], Any]  # executes some clusters of the work of a launch
_own: list[tuple[Shard, Any]] = []  # of a worker process


def _receive(shard: Shard, work: Any) -> None:
    _own[:] = [(shard, work)]


def _run_own(clusters: Sequence[int]) -> Any:
    shard, work = _own[0]
    return shard(work, clusters)


class Processes(Crew):
    """Processes of this machine."""

    def __init__(self, shard: Shard, work: Any, count: int, *, most_deaths: int) -> None:
        super().__init__(most_deaths)
        self.given, self.count = (shard, work), count
        self._pool = pool(count, _receive, self.given)

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Any]:
        try:
            with without_main():  # the pool starts its processes where it gets work
                return self._pool.submit(_run_own, clusters)
        except BrokenProcessPool as error:  # found before the futures report it
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_exception(error)
            return future

    def renew(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = pool(self.count, _receive, self.given)

    def close(self, *, wait: bool) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=True)


class Cluster(Crew):
    """A Dask cluster, which gives a shard to another worker where one is lost."""

    def __init__(self, shard: Shard, work: Any, client: Any, *, most_deaths: int) -> None:
        super().__init__(most_deaths)
        self.shard, self.work, self.client = shard, work, client
        self._lost = Lost(client)
        self.count = max(1, sum(client.nthreads().values()))
        self._executor = client.get_executor(retries=most_deaths, pure=False)
        self.renew()

    def renew(self) -> None:
        self._there = self.client.scatter(self.work, broadcast=True, hash=False)

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = self._executor.submit(self.shard, self._there, clusters)
        return future

    def check(self) -> None:
        self._lost.check()

    def close(self, *, wait: bool) -> None:
        with contextlib.suppress(Exception):  # of a client that is closed already
            self._executor.shutdown(wait=False)
