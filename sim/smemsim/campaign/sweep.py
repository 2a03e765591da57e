"""A sweep: its agenda, its workers, its ledger."""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import os
import pathlib
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError, InternalError
from smemsim.base.floating_point import in_default_state
from smemsim.base.processes import Lost, close_client, dask_client, pool, version
from smemsim.base.processors import processors
from smemsim.campaign.report import CampaignReport, Ledger, file_troubles, folder_for, report_of
from smemsim.campaign.space import ChunkResult, Space, Trouble
from smemsim.campaign.spaces import NAMES, space

__all__ = ["Agenda", "Crew", "Progress", "chunks_of", "crew", "do_chunk", "processors", "sweep"]


# ---- What is still to be done: chunk after chunk of every space, the spaces side by side


def chunks_of(space: Space, cases: int | None, *, endless: bool, shard: tuple[int, int]) -> range | None:
    """The chunks of a space that a shard does; None for no end. Without a number of cases: all there are, or one where
    cases are drawn for ever.

    >>> from smemsim.campaign.spaces import space
    >>> len(chunks_of(space("keys"), None, endless=False, shard=(1, 1))), chunks_of(space("maps"), 2000, endless=False, shard=(2, 3))
    (64, range(1, 4, 3))
    """
    number, of = shard
    most = space.chunks
    if cases is not None:
        most = min(math.ceil(cases / space.chunk_cases), most or math.inf)  # type: ignore[assignment]
    elif most is None and not endless:
        most = of  # one for each shard
    return None if most is None else range(number - 1, most, of)


class Agenda:
    """Chunks in the order in which they start: the space with the least time so far comes first. Chunks of lost workers
    are repeated.
    """

    def __init__(self, spaces: Sequence[Space], ranges: dict[str, range | None], done: dict[str, set[int]], step: int, first: int) -> None:
        self.left = {s.name: _missing(ranges[s.name], done[s.name], step, first) for s in spaces}
        self.lost: dict[str, list[int]] = {s.name: [] for s in spaces}
        self.spent = {s.name: 0.0 for s in spaces}
        self.mean = {s.name: 0.0 for s in spaces}
        self.finished = {s.name: 0 for s in spaces}
        self.remaining = {s.name: None if (r := ranges[s.name]) is None else len(set(r) - done[s.name]) for s in spaces}

    def next(self) -> tuple[str, int] | None:
        """(space, chunk) to begin, None when nothing is left."""
        for name in sorted(self.spent, key=lambda name: self.spent[name]):
            chunk = self.lost[name].pop() if self.lost[name] else next(self.left[name], None)
            if chunk is not None:
                self.spent[name] += self.mean[name] or 1e-3  # until it is known what it took
                return name, chunk
        return None

    def came(self, name: str, seconds: float) -> None:
        """A chunk is done, and took that long."""
        count = self.finished[name] = self.finished[name] + 1
        self.spent[name] += seconds - (self.mean[name] or 1e-3)
        self.mean[name] += (seconds - self.mean[name]) / count
        if self.remaining[name] is not None:
            self.remaining[name] -= 1  # type: ignore[operator]

    def again(self, name: str, chunk: int) -> None:
        """A chunk was lost with its worker."""
        self.lost[name].append(chunk)

    @property
    def seconds_left(self) -> float | None:
        """Worker seconds until all is done, as far as is known; None for no end."""
        known = [m for m in self.mean.values() if m]
        usual = sum(known) / len(known) if known else 0.0
        total = 0.0
        for name, count in self.remaining.items():
            if count is None:
                return None
            total += count * (self.mean[name] or usual)
        return total


def _missing(chunks: range | None, done: set[int], step: int, first: int) -> Iterator[int]:
    number = first
    while chunks is None or number in chunks:
        if number not in done:
            yield number
        number += step


# ---- Who does the chunks: this process, a pool of processes, or a Dask cluster; all as `concurrent.futures` has it


@in_default_state
def do_chunk(name: str, seed: int, chunk: int) -> tuple[ChunkResult, float]:
    """(result of a chunk, seconds). An unexpected exception is a disagreement of its own."""
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
        """Raise InputError if there are no workers left."""

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
        except BrokenProcessPool as e:  # known before the futures report it
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
    """The workers: a Dask cluster where its scheduler's address is given, else processes, else (one worker) this
    process.
    """
    crew = _Cluster(dask) if dask else _Processes(workers) if workers > 1 else Crew(1)
    try:
        yield crew
    finally:
        crew.close()


# ---- `sweep`: whole spaces of inputs, chunk by chunk, on many workers, with a ledger that a crash does not harm


MOST_SEED = 1 << 63
MOST_SHARDS = 1 << 20


class Progress(NamedTuple):
    """How far a campaign is: cases and chunks of this run, seconds of this run, seconds still to go (None: not known),
    troubles so far.
    """

    cases: int
    chunks: int
    elapsed: float
    to_go: float | None
    troubles: int


@in_default_state
def sweep(
    spaces: Sequence[str] = (),
    *,
    cases: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    shard: tuple[int, int] = (1, 1),
    ledger: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CampaignReport:
    """Sweep whole spaces of inputs. The report has the covered cases, class by class, and the disagreements.

    - Spaces are `spaces`, by name. Without any, all are swept.
    - Each space has `cases` cases, rounded up to whole chunks. No chunk begins after `seconds`. Without either, finite
      spaces are swept to their end, and other spaces for one chunk.
    - Random cases are drawn by `seed`. A `shard` (i, n) is every n-th chunk from the i-th on.
    - Finished chunks are kept in the file `ledger`. The same call with it continues.
    - Cases run in `workers` processes. None takes one for each processor. The address of a Dask scheduler is `dask`.
    - Each disagreement gets a JSON file in the folder `out`.

    Raises InputError for names, numbers and ledgers that do not fit.

    >>> from smemsim import sweep
    >>> report = sweep(["keys"], cases=1, workers=1)
    >>> report.ok, report.cases, report.spaces[0].classes["none moved by 0"]
    (True, 131072, 131072)
    """
    if progress is not None and not callable(progress):
        raise InputError(f"progress = {shown(progress)}: needs a function that takes the Progress, or None")
    names = list(dict.fromkeys(_names(spaces)))
    swept = [space(name) for name in names]
    of = _shard(shard)
    limit = None if cases is None else whole("cases", cases, minimum=1)
    until = None if seconds is None else _seconds(seconds)
    number = whole("seed", seed, minimum=0)
    if number >= MOST_SEED:
        raise InputError(f"seed = {number}: needs a number below 2^63")
    count = processors() if workers is None else whole("workers", workers, minimum=1)
    folder = None if out is None else folder_for(out)
    identity = {"version": version(), "seed": number, "shard": list(of), "spaces": {s.name: s.chunk_cases for s in swept}}
    book = Ledger(None if ledger is None else pathlib.Path(ledger), identity)
    try:
        if folder is not None:
            for s in swept:
                file_troubles(folder, s.name, tuple(t for one in book.chunks(s.name).values() for t in one.troubles))
        ranges = {s.name: chunks_of(s, limit, endless=until is not None, shard=of) for s in swept}
        agenda = Agenda(swept, ranges, {s.name: book.done(s.name) for s in swept}, of[1], of[0] - 1)
        interrupted = _work(agenda, book, number, count, dask, until, folder, progress)
        return report_of(book, swept, seed=number, shard=of, interrupted=interrupted)
    finally:
        book.close()


def _work(
    agenda: Agenda,
    book: Ledger,
    seed: int,
    workers: int,
    dask: str | None,
    until: float | None,
    folder: pathlib.Path | None,
    progress: Callable[[Progress], None] | None,
) -> bool:
    """Do what is on the agenda; True where Ctrl-C broke it off."""
    begun = told = time.monotonic()
    first = agenda.next()
    if first is None:
        return False
    waiting: list[tuple[str, int]] = [first]
    in_hand: dict[concurrent.futures.Future[Any], tuple[str, int]] = {}
    done, chunks, troubles = 0, 0, 0
    with crew(min(workers, _most_chunks(agenda)), dask) as hands:
        try:
            while True:
                hands.check()
                in_time = until is None or time.monotonic() - begun < until
                while in_time and len(in_hand) < (hands.count if hands.count == 1 else 2 * hands.count):
                    job = waiting.pop() if waiting else agenda.next()
                    if job is None:
                        break
                    in_hand[hands.submit(job[0], seed, job[1])] = job
                if not in_hand:
                    return False
                ready, _ = concurrent.futures.wait(in_hand, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in ready:
                    name, chunk = in_hand.pop(future)
                    error = future.exception() if not future.cancelled() else concurrent.futures.CancelledError()
                    if error is not None:
                        if not hands.survives(error):
                            raise InternalError(f"chunk {chunk} of {name} came to {type(error).__name__}: {error}") from error
                        agenda.again(name, chunk)
                        continue
                    result, took = future.result()
                    now = time.monotonic()
                    _keep(book, folder, name, chunk, result, took, now - told)
                    told = now
                    agenda.came(name, took)
                    done, chunks, troubles = done + result.cases, chunks + 1, troubles + len(result.troubles)
                if progress is not None:
                    progress(Progress(done, chunks, time.monotonic() - begun, _to_go(agenda, hands.count, until, begun), troubles))
        except KeyboardInterrupt:
            return True


def _keep(book: Ledger, folder: pathlib.Path | None, name: str, chunk: int, result: ChunkResult, took: float, elapsed: float) -> None:
    book.record(name, chunk, result, took, elapsed)
    if folder is not None:
        file_troubles(folder, name, result.troubles)


def _most_chunks(agenda: Agenda) -> int:
    """No more workers than there are chunks."""
    counts = [count for count in agenda.remaining.values() if count is not None]
    return max(1, sum(counts)) if len(counts) == len(agenda.remaining) else MOST_SHARDS


def _to_go(agenda: Agenda, workers: int, until: float | None, begun: float) -> float | None:
    left = agenda.seconds_left
    times = [] if left is None else [left / workers]
    if until is not None:
        times.append(max(0.0, until - (time.monotonic() - begun)))
    return min(times) if times else None


def _names(spaces: Any) -> list[str]:
    if isinstance(spaces, str):
        spaces = [spaces]
    try:
        return [space(name).name for name in spaces] or list(NAMES)
    except TypeError:
        raise InputError(f"spaces = {shown(spaces)}: needs names: {', '.join(NAMES)}") from None


def _shard(shard: Any) -> tuple[int, int]:
    try:
        number, of = shard
    except (TypeError, ValueError):
        raise InputError(f"shard = {shown(shard)}: needs (i, n), the i-th of n") from None
    number, of = whole("shard", number, minimum=1), whole("shard", of, minimum=1)
    if number > of or of > MOST_SHARDS:
        raise InputError(f"shard = {number}/{of}: needs i/n with i from 1 to n, n up to {MOST_SHARDS:,}")
    return number, of


def _seconds(seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e9:
        raise InputError(f"seconds = {shown(seconds)}: needs a time in seconds, more than 0")
    return float(seconds)
