"""A grid on several cores, or on a Dask cluster: the CTAs after the first ones, when they depend on nobody and are worth it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from smemsim.arguments import whole
from smemsim.errors import InputError
from smemsim.gpu.execute import at_once, depends, execute, takes_over
from smemsim.gpu.launch import Launch
from smemsim.gpu.shards import Merge, Result, Work, run_shard, work_of
from smemsim.processes import Lost, can_have_children, pool, processors, without_main

__all__ = ["execute_spread"]

WORTH = 6.0  # seconds of work left, above which processes are worth starting
PIECES = 4  # shards for each process, so that none waits long for the last one
LONGEST = 10.0  # seconds of a shard, where a wave does not take longer
DEATHS = 5  # times that workers may be lost
LOOK = 1.0  # seconds after which it is looked whether the workers are still there, and the launch's time is not over

Done = Callable[[int], None]


def execute_spread(
    launch: Launch,
    clusters: Sequence[int] | None = None,
    *,
    watch: bool = True,
    done: Done = lambda ctas: None,
    workers: int | None = None,
    client: Any = None,
) -> bool:
    """Run clusters of a launch (all of them without `clusters`) as `execute` does, with the same results, on `workers` processes or on the Dask cluster of a `distributed.Client`.

    Without either it is processes, one for each processor, where the first waves say that more than a few seconds are left. CTAs that wait for
    each other, add to the same words, or take over each other's work, run here. Raises InputError where workers are lost again and again.
    """
    count = processors() if workers is None else whole("workers", workers, minimum=1)
    if depends(launch) or takes_over(launch) or (client is None and (count == 1 or not can_have_children())):
        return execute(launch, clusters, watch=watch, done=done)
    left: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    together = at_once(launch)
    least, waves = float("inf"), 0
    while left:
        if waves and (workers is not None or client is not None):
            break
        if waves > 1 and least * -(-len(left) // together) > WORTH:
            break
        own, left = left[:together], left[together:]
        begin = time.perf_counter()
        if not execute(launch, own, watch=watch, done=done):
            return False
        least, waves = min(least, time.perf_counter() - begin), waves + 1
    if not left:
        return True
    work = work_of(launch, watch=watch)
    crew: _Crew = _Processes(work, min(count, -(-len(left) // together))) if client is None else _Cluster(work, client)
    waves = min(-(-len(left) // (together * PIECES * crew.count)), int(LONGEST / least))
    finished = False
    try:
        finished = _run(launch, crew, left, together * max(1, waves), done)
        return finished
    finally:
        crew.close(wait=finished)


def _run(launch: Launch, crew: _Crew, clusters: Sequence[int], size: int, done: Done) -> bool:
    """Have the clusters done in shards of a size, and put what they give together in their order."""
    merge, results, following = Merge(launch), dict[int, Result](), 0
    count, given_out = -(-len(clusters) // size), 0
    futures: dict[concurrent.futures.Future[Result], int] = {}

    def submit(numbers: Iterable[int]) -> None:
        futures.update({crew.submit(clusters[n * size : (n + 1) * size]): n for n in numbers})

    while following < count:
        crew.check()
        more = min(count, following + 2 * PIECES * crew.count)
        submit(range(given_out, more))
        given_out = more
        ended = concurrent.futures.wait(futures, LOOK, concurrent.futures.FIRST_COMPLETED).done
        if launch.is_over:
            launch.out_of_time = True
            return False
        for future in ended:
            number = futures.pop(future, None)
            if number is None:
                continue
            try:
                results[number] = future.result()
            except Exception as error:
                if not isinstance(error, (BrokenProcessPool, concurrent.futures.CancelledError)) and type(error).__name__ != "KilledWorker":
                    raise
                crew.lost(error)
                again = [number, *futures.values()]
                futures.clear()
                submit(again)
                break
        while following in results:
            result = results.pop(following)
            merge.add(result)
            done(result.ctas)
            following += 1
            if not result.finished:
                return False
    return True


class _Crew:
    """Who executes the shards of a launch. `count` is how many work at a time."""

    count: int
    deaths = 0

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Result]:
        raise NotImplementedError

    def renew(self) -> None:
        """Find new workers, after some were lost."""

    def lost(self, error: BaseException) -> None:
        """Workers are gone; InputError when that has happened too often."""
        self.deaths += 1
        if self.deaths > DEATHS:
            raise InputError(f"workers were lost {self.deaths} times: memory may be short; workers=1 executes everything here") from error
        self.renew()

    def check(self) -> None:
        """Are there workers still? InputError where nobody will ever answer."""

    def close(self, *, wait: bool) -> None:
        """Send the workers home; without `wait` they may end their shards on their own."""


_own: list[Work] = []  # of a worker process


def _receive(work: Work) -> None:
    _own[:] = [work]


def _run_own(clusters: Sequence[int]) -> Result:
    return run_shard(_own[0], clusters)


class _Processes(_Crew):
    def __init__(self, work: Work, count: int) -> None:
        self.work, self.count = work, count
        self._pool = pool(count, _receive, (work,))

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Result]:
        try:
            with without_main():  # the pool starts its processes where it gets work
                return self._pool.submit(_run_own, clusters)
        except BrokenProcessPool as error:  # found out before the futures say so
            future: concurrent.futures.Future[Result] = concurrent.futures.Future()
            future.set_exception(error)
            return future

    def renew(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = pool(self.count, _receive, (self.work,))

    def close(self, *, wait: bool) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=True)


class _Cluster(_Crew):
    """A Dask cluster, which gives a shard to another worker where one is lost."""

    def __init__(self, work: Work, client: Any) -> None:
        self.work, self.client = work, client
        self._lost = Lost(client)
        self.count = max(1, sum(client.nthreads().values()))
        self._executor = client.get_executor(retries=DEATHS, pure=False)
        self.renew()

    def renew(self) -> None:
        self._there = self.client.scatter(self.work, broadcast=True, hash=False)

    def submit(self, clusters: Sequence[int]) -> concurrent.futures.Future[Result]:
        future: concurrent.futures.Future[Result] = self._executor.submit(run_shard, self._there, clusters)
        return future

    def check(self) -> None:
        self._lost.check()

    def close(self, *, wait: bool) -> None:
        with contextlib.suppress(Exception):  # of a client that is closed already
            self._executor.shutdown(wait=False)
