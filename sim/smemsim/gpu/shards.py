"""A part of a launch that another process executes: what it needs, as plain data, and what it gives back.

CTAs that do not wait for each other may run anywhere; what they wrote is put together in the order of their numbers, as if they had run here.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.budget import ask
from smemsim.gpu import operations  # noqa: F401  (registers the builders)
from smemsim.gpu.execute import execute
from smemsim.gpu.launch import Given, InstructionFinding, Judge, Launch
from smemsim.gpu.linking.program import link
from smemsim.machine.region import GlobalMemory
from smemsim.ptx.parser import read_module

__all__ = ["Changed", "Merge", "Result", "Work", "run_shard", "work_of"]


@dataclasses.dataclass(eq=False, kw_only=True)
class Work(Given):
    """What is given of a launch, and global memory as it is before. `arrays` are addresses, bytes and names."""

    entry: str
    parameter_bytes: int
    arrays: tuple[tuple[int, np.ndarray, str], ...]
    watch: bool
    judge: Judge | None = None


def _given(launch: Given) -> dict[str, Any]:
    return {field.name: getattr(launch, field.name) for field in dataclasses.fields(Given)}


@dataclasses.dataclass(frozen=True)
class Changed:
    """The bytes of an array that are others now: runs of `lengths` bytes from offsets `starts` on, their `values` one after the other."""

    address: int
    starts: np.ndarray
    lengths: np.ndarray
    values: np.ndarray

    @classmethod
    def between(cls, address: int, before: np.ndarray, after: np.ndarray) -> Changed | None:
        """None where nothing has changed."""
        at = np.flatnonzero(before != after)
        if not at.size:
            return None
        heads = np.flatnonzero(np.diff(at, prepend=-2) != 1)
        return cls(address, at[heads], np.diff(heads, append=len(at)), after[at])

    def offsets(self) -> np.ndarray:
        """The offset of each value."""
        ends = np.cumsum(self.lengths)
        return np.repeat(self.starts - (ends - self.lengths), self.lengths) + np.arange(int(ends[-1]))


@dataclasses.dataclass(frozen=True)
class Result:
    """What a shard left behind; `finished` False: a trap or a hang, after which nothing runs, or the end of its time. `ctas` is how many it had."""

    changed: tuple[Changed, ...]
    findings: tuple[InstructionFinding, ...]
    output: tuple[str, ...]
    evidence: frozenset[str]
    finished: bool
    ctas: int
    out_of_time: bool
    elsewhere: frozenset[int] = frozenset()
    judge: Judge | None = None


def work_of(launch: Launch, *, watch: bool) -> Work:
    """What another process needs to execute CTAs of a launch."""
    ask("a copy of global memory for other processes", sum(len(region.data) for region in launch.memory.table()[2]))
    arrays = tuple((region.begin, region.data.copy(), region.name) for region in launch.memory.table()[2] if len(region.data))
    given = _given(launch)
    if launch.limit_seconds is not None:
        given["limit_seconds"] = max(0.0, launch.deadline - time.monotonic())  # the clocks of two machines have nothing in common
    return Work(
        **given,
        entry=launch.program.name,
        parameter_bytes=len(launch.parameters),
        arrays=arrays,
        watch=watch,
        judge=launch.judge and launch.judge.fresh(),
    )


_module = functools.lru_cache(maxsize=4)(read_module)


def run_shard(work: Work, clusters: Sequence[int]) -> Result:
    """Execute some clusters of a launch; a pure function."""
    memory = GlobalMemory()  # the program is linked anew for it: its loads and stores remember the array that they found last
    for address, data, name in work.arrays:
        memory.place(data, address, name=name)
    program, parameters = link(_module(work.ptx), work.entry, work.arch), memory.span(work.parameter_address, work.parameter_bytes)
    judge = None if work.judge is None else work.judge.fresh()
    launch = Launch(**_given(work), program=program, memory=memory, parameters=parameters, judge=judge)
    launch.begin()
    finished = execute(launch, clusters, watch=work.watch)
    changed = [Changed.between(address, data, memory.region(address)[1]) for address, data, _ in work.arrays]
    return Result(
        tuple(part for part in changed if part is not None), tuple(launch.findings.values()), tuple(launch.output), frozenset(launch.evidence),
        finished, len(clusters) * launch.cluster_size, launch.out_of_time, frozenset(launch.elsewhere), judge and judge.finish(),
    )  # fmt: skip


class Merge:
    """Puts results into the launch, to be added in the order of the CTAs. Where two shards give a byte different values the later one's stays."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._changed: dict[int, np.ndarray] = {}  # of an array: which bytes earlier shards have changed

    def add(self, result: Result) -> None:
        """One shard's result."""
        launch = self.launch
        for part in result.changed:
            begin, data = launch.memory.region(part.address)
            changed = self._changed.setdefault(begin, np.zeros(len(data), bool))
            at = part.offsets()
            both = at[changed[at] & (data[at] != part.values)]
            if both.size:
                first, last = begin + int(both[0]), begin + int(both[-1])
                launch.evidence.add(
                    f"CTAs of this launch write different values to the same bytes of global memory ({both.size} of {first:#x} to {last:#x}): "
                    "which one stays is not determined, on hardware either"
                )
            changed[at] = True
            data[at] = part.values
        for found in result.findings:
            launch.keep(found)
        launch.output += result.output
        launch.output_size += sum(map(len, result.output))
        launch.evidence |= result.evidence
        launch.elsewhere |= result.elsewhere
        launch.out_of_time |= result.out_of_time
        if launch.judge is not None and result.judge is not None:
            launch.judge.merge(result.judge)
