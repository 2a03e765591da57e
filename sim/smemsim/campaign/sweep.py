"""`sweep`: whole spaces of inputs, chunk by chunk, on many workers, with a ledger that a crash does not harm."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smemsim.arguments import shown, whole
from smemsim.campaign.agenda import Agenda, chunks_of
from smemsim.campaign.ledger import Ledger
from smemsim.campaign.report import CampaignReport, file_troubles, folder_for, report_of
from smemsim.campaign.space import ChunkResult
from smemsim.campaign.spaces import NAMES, space
from smemsim.campaign.workers import crew, processors
from smemsim.errors import InputError, InternalError
from smemsim.processes import version

__all__ = ["Progress", "sweep"]

MOST_SEED = 1 << 63
MOST_SHARDS = 1 << 20


class Progress(NamedTuple):
    """How far a campaign is: cases and chunks of this run, seconds of this run, seconds still to go (None: not known), troubles so far."""

    cases: int
    chunks: int
    elapsed: float
    to_go: float | None
    troubles: int


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
    """Sweep whole spaces of inputs and say what was covered, class by class, and what disagrees.

    `spaces` are names (none: all). `cases` are those of each space, rounded up to whole chunks, `seconds` the time after which no chunk is begun;
    without either, spaces that can be swept exhaustively are, and one chunk is done of the others. The seed decides what is drawn. `shard` (i, n)
    does every n-th chunk from the i-th on. `ledger` is a file in which finished chunks are kept: the same call with it goes on where it was
    stopped. `workers` are processes (None: as many as processors), or `dask` is the address of a scheduler. `out` is a folder for a JSON file for
    each trouble.

    Raises InputError for names, numbers and ledgers that do not fit.

    >>> report = sweep(["keys"], cases=1, workers=1)
    >>> report.ok, report.cases, report.spaces[0].classes["none moved by 0"]
    (True, 131072, 131072)
    """
    names = list(dict.fromkeys(_names(spaces)))
    found = [space(name) for name in names]
    of = _shard(shard)
    limit = None if cases is None else whole("cases", cases, minimum=1)
    until = None if seconds is None else _seconds(seconds)
    number = whole("seed", seed, minimum=0)
    if number >= MOST_SEED:
        raise InputError(f"seed = {number}: needs a number below 2^63")
    count = processors() if workers is None else whole("workers", workers, minimum=1)
    folder = None if out is None else folder_for(out)
    identity = {"version": version(), "seed": number, "shard": list(of), "spaces": {s.name: s.chunk_cases for s in found}}
    book = Ledger(None if ledger is None else pathlib.Path(ledger), identity)
    try:
        if folder is not None:
            for s in found:
                file_troubles(folder, s.name, tuple(t for one in book.chunks(s.name).values() for t in one.troubles))
        ranges = {s.name: chunks_of(s, limit, endless=until is not None, shard=of) for s in found}
        agenda = Agenda(found, ranges, {s.name: book.done(s.name) for s in found}, of[1], of[0] - 1)
        interrupted = _work(agenda, book, number, count, dask, until, folder, progress)
        return report_of(book, found, seed=number, shard=of, interrupted=interrupted)
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
                    one = waiting.pop() if waiting else agenda.next()
                    if one is None:
                        break
                    in_hand[hands.submit(one[0], seed, one[1])] = one
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
