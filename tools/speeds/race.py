"""One race: our call and its baseline in turn, the best of each. Noise only ever adds time, so that the least is
nearest to what the work takes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Timer = Callable[[int], float]  # how often -> seconds that it took

SAMPLE = 2e-3  # seconds of a sample at least: the clock and the loop are then nothing
SECONDS, MOST_ROUNDS = 0.5, 60
MOST_SAMPLES = 8  # of the quicker one in a round


class Differs(Exception):
    """Ours and the baseline's answers are not the same: no time is printed."""


class LeftOut(Exception):
    """A race cannot be run here, for this reason."""


@dataclasses.dataclass
class Race:
    """What is timed. `note` is what was found when the two were held against each other; `after` is asked for more when
    the race is over, given how many times as fast as the baseline we are.
    """

    ours: Timer
    baseline: Timer
    note: str = ""
    after: Callable[[float], str] | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table: what is timed against what, how much work in which unit it is, `start` that makes the race
    ready (and holds the answers against each other where both sides have one), and `asked`, how many times as fast as
    the baseline, or `asked_rate`, units a second.
    """

    group: str
    what: str
    against: str
    work: float
    unit: str
    start: Callable[[], Race]
    asked: float | None = None
    asked_rate: float | None = None
    rounds: int = 3  # at least; a race goes on for half a second
    long: bool = False  # a sample takes seconds and `start` has warmed up what can be: a round is one call of each
    peer: bool = False


@dataclasses.dataclass(frozen=True)
class Result:
    """Seconds of both, best and median of `rounds`; `left_out` or `differs` say why there are none."""

    group: str
    what: str
    against: str
    unit: str
    ours: float | None = None
    baseline: float | None = None
    ours_median: float | None = None
    baseline_median: float | None = None
    rate: float | None = None
    speed: float | None = None  # baseline / ours: how many times as fast
    rounds: int = 0
    note: str = ""
    left_out: str = ""
    differs: str = ""


def processor(call: Callable[[], object]) -> Timer:
    """The timer of a call, of processor time."""

    def seconds(count: int) -> float:
        begin = time.process_time()
        for _ in range(count):
            call()
        return time.process_time() - begin

    return seconds


def busiest(call: Callable[[], object]) -> Timer:
    """The timer of a call that works in this process and one other at once: processor time
    of the one that takes more.
    """

    def used() -> tuple[float, float]:
        times = os.times()
        return time.process_time(), times.children_user + times.children_system

    def seconds(count: int) -> float:
        begin = used()
        for _ in range(count):
            call()
        return max(end - of for end, of in zip(used(), begin, strict=True))

    return seconds


def timed(call: Callable[[], object]) -> Timer:
    """The timer of a call."""

    def seconds(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - begin

    return seconds


def once(call: Callable[[], float]) -> Timer:
    """The timer of what takes long and says itself how long."""
    return lambda count: sum(call() for _ in range(count))


def used_by(*command: str, variables: Mapping[str, str] | None = None) -> float:
    """Seconds of the processor that a command and all that it starts use; `variables` are its environment."""
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def same(ours: Any, theirs: Any, what: str) -> str:
    """A note that the two answers are equal; raises Differs otherwise."""
    mine, other = np.asarray(ours), np.asarray(theirs)
    if mine.shape != other.shape:
        raise Differs(f"{what}: {mine.shape} here, {other.shape} there")
    wrong = np.flatnonzero(mine.ravel() != other.ravel())
    if len(wrong):
        at = int(wrong[0])
        raise Differs(
            f"{what}: {len(wrong):,} of {mine.size:,} differ, the first, number {at}: {mine.ravel()[at]}, there {other.ravel()[at]}"
        )
    return f"equal: all {mine.size:,} {what}"


def repeats(timer: Timer, least: float = SAMPLE) -> tuple[int, float]:
    """(how often a sample has to call, how long the sample then keeps us); the first call, which may compile, is not
    counted.
    """
    timer(1)
    count = 1
    while True:
        # a timer may count otherwise: processes that time themselves, a part of the work for all of it
        begin = time.perf_counter()
        timer(count)
        took = time.perf_counter() - begin
        if took >= least:
            return count, took
        count = max(2 * count, math.ceil(count * least / max(took, 1e-9)))


def run(row: Row, seconds: float = SECONDS) -> Result:
    """The race of a row."""
    result = functools.partial(Result, row.group, row.what, row.against, row.unit)
    try:
        race = row.start()
        mine, theirs = raced(race, row.rounds, 0 if row.long else seconds)
    except LeftOut as e:
        return result(left_out=str(e))
    except Differs as e:
        return result(differs=str(e))
    ours, baseline = min(mine), min(theirs)
    speed, rate = baseline / ours, row.work / ours
    notes = [race.note, race.after(speed) if race.after else ""]
    if row.asked and speed < row.asked:
        notes.append(f"asked for: {row.asked:g}x, MISSED")
    if row.asked_rate and rate < row.asked_rate:
        notes.append(f"asked for: {row.asked_rate:.2g} {row.unit} a second, MISSED")
    return result(ours=ours, baseline=baseline, ours_median=statistics.median(mine), baseline_median=statistics.median(theirs), rate=rate,
                  speed=speed, rounds=len(mine), note="; ".join(note for note in notes if note))  # fmt: skip


def raced(race: Race, rounds: int, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds a call of both, round by round, each round in the other order. Without a time to fill, no call is tried
    before.
    """
    found = [repeats(timer) if seconds else (1, 1.0) for timer in (race.ours, race.baseline)]
    longest = max(took for _, took in found)
    sides = [(timer, count, min(MOST_SAMPLES, max(1, int(longest / took))), list[float]())
             for timer, (count, took) in zip((race.ours, race.baseline), found, strict=True)]  # fmt: skip
    end = time.perf_counter() + seconds
    for number in range(MOST_ROUNDS):
        if number >= rounds and time.perf_counter() > end:
            break
        for timer, count, samples, into in sides if number % 2 else sides[::-1]:
            into += [timer(count) / count for _ in range(samples)]
    return sides[0][3], sides[1][3]
