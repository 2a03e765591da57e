"""Races of campaigns: whole spaces against the same cases one by one, and what a second worker adds. What takes long:
commands, the replay.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import smemsim
from smemsim.campaign.spaces import space
from smemsim.campaign.sweep import do_chunk
from tools.speeds.race import Differs, LeftOut, Race, Row, once, timed

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
SMEM, IDESC = 1 << 21, 1 << 24  # cases of a chunk
CHUNKS, TWICE = 6, 1.7
ALONE = 64  # cases that are done one by one; their time is that of a chunk's share


def elapsed(name: str, chunks: int, seed: int = 0, **how: Any) -> float:
    """Seconds of a sweep; nothing may be wrong in it."""
    report = smemsim.sweep([name], cases=chunks * space(name).chunk_cases, seed=seed, **how)
    if not report.ok:
        raise Differs(f"the sweep finds trouble: {report.troubles[0].what}")
    return report.elapsed


def _one_by_one(name: str) -> Callable[[], Race]:
    """A chunk, against its cases through the public interface; every class of the chunk has been held against it
    already.
    """

    def start() -> Race:
        of = space(name)

        def alone(count: int) -> float:
            return timed(lambda: [of.case(0, 0, 7919 * i % of.chunk_cases) for i in range(ALONE)])(count) * of.chunk_cases / ALONE

        return Race(
            once(lambda: elapsed(name, 1, workers=1)), alone, f"equal: in the sweep itself, by samples; the baseline from {ALONE} cases"
        )

    return start


class Watched:
    """What the processors did while something ran: processor seconds of given processes, and of all else, time that a
    hypervisor took included.
    """

    def __init__(self, pids: list[int]) -> None:
        self.pids, self.cores = pids, os.cpu_count() or 1
        self.begun, self.ours, self.all = time.perf_counter(), self._ours(), self._all()

    def _ours(self) -> tuple[float, float]:
        import psutil

        times = [psutil.Process(pid).cpu_times() for pid in self.pids]
        here = psutil.Process().cpu_times()
        return sum(t.user + t.system for t in times), here.user + here.system

    @staticmethod
    def _all() -> float:
        import psutil

        t = psutil.cpu_times()
        return float(sum(getattr(t, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal")))

    def since(self) -> tuple[float, float, float, float]:
        """Seconds; processor seconds of the workers, of this process, and of everything else."""
        (workers, here), busy = self._ours(), self._all() - self.all
        spent = (workers - self.ours[0], here - self.ours[1])
        return time.perf_counter() - self.begun, *spent, max(0.0, busy - sum(spent))


def _dask() -> Race:
    """Two Dask workers against one, both clusters up all the time; where less than asked for comes out, what the
    processors did instead.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise LeftOut("dask.distributed is not installed: pip install 'smemsim[campaign]'") from None
    stack, addresses, pids = contextlib.ExitStack(), {}, {}
    atexit.register(stack.close)
    seen: dict[int, list[tuple[float, float, float, float]]] = {1: [], 2: []}
    for count in (1, 2):
        cluster = stack.enter_context(
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0", silence_logs=50, host="127.0.0.1")
        )
        addresses[count] = cluster.scheduler_address
        with Client(cluster.scheduler_address, set_as_default=False) as client:
            pids[count] = list(client.run(os.getpid).values())
        elapsed("smem", 2 * count, seed=99, dask=addresses[count])  # loads what is compiled
    seeds = _numbers()

    def of(count: int) -> float:
        watched = Watched(pids[count])
        took = elapsed("smem", CHUNKS, seed=next(seeds), dask=addresses[count])
        seen[count].append(watched.since())
        return took

    def after(speed: float) -> str:
        stack.close()
        return why(speed, seen, os.cpu_count() or 1)

    return Race(once(lambda: of(2)), once(lambda: of(1)), f"{CHUNKS} chunks", after)


def _numbers() -> Iterator[int]:
    """Seeds: pure tasks of the same seed would not be done again."""
    number = 1000
    while True:
        number += 1
        yield number


def why(speed: float, seen: dict[int, list[tuple[float, float, float, float]]], cores: int) -> str:
    """What a second worker cost in processor time, and, where it added less than asked for, where the processors were.

    >>> why(1.0, {1: [(6.2, 6.0, 0.1, 0.0)], 2: [(6.0, 6.3, 0.3, 4.8)]}, 2)
    'a chunk takes 1.00 s of processor time with one worker, 1.05 s with two; meanwhile other work (and the hypervisor) had 0.80 of 2 cores, client and scheduler 0.05, and 0.10 idled'
    """
    best = {count: min(of) for count, of in seen.items() if of}
    cost = [best[count][1] / CHUNKS for count in (1, 2)]
    said = f"a chunk takes {cost[0]:.2f} s of processor time with one worker, {cost[1]:.2f} s with two"
    if speed >= TWICE:
        return said
    seconds, workers, here, others = best[2]
    idle = max(0.0, cores - (workers + here + others) / seconds)
    return f"{said}; meanwhile other work (and the hypervisor) had {others / seconds:.2f} of {cores} cores, client and scheduler {here / seconds:.2f}, and {idle:.2f} idled"


def _workers() -> Race:
    seeds = _numbers()
    elapsed("smem", 1, workers=1)  # compiles
    return Race(once(lambda: elapsed("smem", CHUNKS, seed=next(seeds), workers=2)), once(lambda: elapsed("smem", CHUNKS, seed=next(seeds), workers=1)),
                "the start of the processes is in it")  # fmt: skip


def _sweep_all() -> Race:
    """Chunks in a row against chunks alone: what the agenda and the ledger cost."""
    return Race(once(lambda: elapsed("idesc-f16", CHUNKS, workers=1)), timed(lambda: [do_chunk("idesc-f16", 0, i) for i in range(CHUNKS)]))


def _replay() -> Race:
    from smemsim.evidence.format import find_suites, load_suite
    from smemsim.evidence.replay import replay

    folders, reports = find_suites(GOLDEN), list[Any]()

    def again() -> None:
        reports.extend(replay(GOLDEN))

    def after(speed: float) -> str:
        del speed
        if not all(report.same for report in reports):
            raise Differs("the replay finds differences: smemsim replay golden/")
        return f"{sum(r.compared for r in reports):,} values compared, no difference"

    return Race(timed(again), timed(lambda: [load_suite(folder) for folder in folders]), after=after)


# fmt: off
ROWS_OF_SWEEPS = (
    Row("campaign", "campaign smem, one worker", "problems() and addresses, case by case", SMEM, "descriptors", _one_by_one("smem")),
    Row("campaign", "campaign idesc-f16, one worker", "problems(), word by word", IDESC, "words", _one_by_one("idesc-f16")),
    Row("campaign", f"campaign idesc-f16, {CHUNKS} chunks in one campaign", "the chunks alone", CHUNKS * IDESC, "words", _sweep_all),
    Row("campaign", "campaign smem, two processes", "one process", CHUNKS * SMEM, "descriptors", _workers, rounds=2, long=True),
    Row("campaign", "campaign smem, two Dask workers", "one Dask worker", CHUNKS * SMEM, "descriptors", _dask, asked=TWICE, long=True),
    Row("commands", "smemsim replay golden/, once", "reading the traces", 1, "replays", _replay, rounds=1, long=True),
)
# fmt: on
