"""A grid's CTAs over several processes, and their results put together.

CTAs that do not wait for each other may run anywhere; what they wrote is put together in the order of their numbers, as if they had run here. What each process
knows of accesses of global memory stays there: of CTAs apart only different values in one place are told, and that it is so (`APART`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from smemsim.budget import ask
from smemsim.finding import Finding
from smemsim.machine.region import GlobalMemory
from smemsim.processors import can_have_children, processors
from smemsim.program.execute import at_once, depends, execute, takes_over
from smemsim.program.launch import Judge, Launch, LaunchConfig, LinkedKernel, RunOptions
from smemsim.program.linking.program import linked, module_of
from smemsim.values import dataclass

__all__ = ["Changed", "Merge", "Result", "Work", "execute_spread", "run_shard", "work_of"]


# ---- A part of a launch that another process executes: what it needs, as plain data, and what it gives back


@dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """What is given of a launch, the PTX text of its kernel, and global memory as it is before. `arrays` are addresses, bytes and names."""

    text: str
    arch: str
    config: LaunchConfig  # without arguments: they lie in memory
    options: RunOptions
    addresses: dict[str, int]  # of variables in global memory
    parameter_address: int
    parameter_bytes: int
    arrays: tuple[tuple[int, np.ndarray, str], ...]
    watch: bool
    judge: Judge | None = None


@dataclass(frozen=True)
class Changed:
    """The bytes of an array that are others now: runs of `lengths` bytes from offsets `starts` on, their `values` one after the other."""

    address: int
    starts: np.ndarray
    lengths: np.ndarray
    values: np.ndarray

    @classmethod
    def between(cls, address: int, before: np.ndarray, after: np.ndarray) -> Changed | None:
        """The bytes that differ between two states of an array; None where none do."""
        at = np.flatnonzero(before != after)
        if not at.size:
            return None
        heads = np.flatnonzero(np.diff(at, prepend=-2) != 1)
        return cls(address, at[heads], np.diff(heads, append=len(at)), after[at])

    def offsets(self) -> np.ndarray:
        """The offset in the array of each changed byte."""
        ends = np.cumsum(self.lengths)
        return np.repeat(self.starts - (ends - self.lengths), self.lengths) + np.arange(int(ends[-1]))


@dataclass(frozen=True)
class Result:
    """What a shard left behind; `finished` False: a trap or a hang, after which nothing runs, or the end of its time. `ctas` is how many it had."""

    changed: tuple[Changed, ...]
    findings: tuple[Finding, ...]
    output: tuple[str, ...]
    evidence: frozenset[str]
    finished: bool
    ctas: int
    out_of_time: bool
    status: int = 0
    elsewhere: frozenset[int] = frozenset()
    judge: Judge | None = None
    asserted: tuple[str, ...] = ()
    conditions: tuple[tuple[int, int], ...] = ()


def work_of(launch: Launch, *, watch: bool) -> Work:
    """What another process needs to execute CTAs of a launch."""
    ask("a copy of global memory for other processes", sum(len(region.data) for region in launch.memory.table()[2]))
    arrays = tuple((region.begin, region.data.copy(), region.name) for region in launch.memory.table()[2] if len(region.data))
    left = launch.options.limit_seconds
    if left is not None:
        left = max(SOON, launch.deadline - time.monotonic())  # the clocks of two machines have nothing in common
    options = dataclasses.replace(launch.options, ctas=None, client=None, sources=(), limit_seconds=left)
    return Work(
        text=launch.kernel.text, arch=launch.arch, config=dataclasses.replace(launch.config, args=()), options=options,
        addresses=dict(launch.addresses), parameter_address=launch.parameter_address, parameter_bytes=len(launch.parameters), arrays=arrays,
        watch=watch, judge=launch.judge and launch.judge.fresh(),
    )  # fmt: skip


def run_shard(work: Work, clusters: Sequence[int]) -> Result:
    """Execute some clusters of a launch; a pure function."""
    memory = GlobalMemory()
    for address, data, name in work.arrays:
        memory.place(data, address, name=name)
    module, entry = module_of(work.text), str(work.config.entry)
    kernel = LinkedKernel.of(linked(module, entry, work.arch), work.text, module.functions[entry].directives, work.addresses)
    launch = Launch(
        kernel=kernel, config=work.config, options=work.options, memory=memory,
        parameter_address=work.parameter_address, parameters=memory.span(work.parameter_address, work.parameter_bytes),
        judge=None if work.judge is None else work.judge.fresh(),
    )  # fmt: skip
    launch.begin()
    finished = execute(launch, clusters, watch=work.watch)
    changed = [Changed.between(address, data, memory.region(address)[1]) for address, data, _ in work.arrays]
    return Result(
        tuple(part for part in changed if part is not None), tuple(launch.findings.values()), tuple(launch.output), frozenset(launch.evidence),
        finished, len(clusters) * launch.cluster_size, launch.out_of_time, launch.status, frozenset(launch.elsewhere),
        launch.judge and launch.judge.finish(), tuple(launch.asserted), tuple(launch.conditions.items()),
    )  # fmt: skip


class Merge:
    """Puts results into the launch, to be added in the order of the CTAs. Where two shards give a byte different values the later one's stays."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._changed: dict[int, np.ndarray] = {}  # of an array: which bytes earlier shards have changed

    def add(self, result: Result) -> None:
        """Put one shard's result into the launch."""
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
        launch.asserted += result.asserted
        launch.conditions.update(result.conditions)
        launch.output_size += sum(map(len, result.output))
        launch.evidence |= result.evidence
        launch.elsewhere |= result.elsewhere
        launch.out_of_time |= result.out_of_time
        launch.status = launch.status or result.status
        if launch.judge is not None and result.judge is not None:
            launch.judge.merge(result.judge)


# ---- A grid on several cores, or on a Dask cluster: the CTAs after the first ones, when they depend on nobody and are worth it


WORTH = 6.0  # seconds of work left, above which processes are worth starting
DEATHS = 5  # times that workers may be lost
LONGEST = 10.0  # seconds of a shard, where a wave does not take longer
OBJECTS = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")  # what they read is no array of global memory
APART = (
    "races in global memory between CTAs that ran in different processes are not looked for, only whether they leave different values: "
    "workers = 1 (--workers 1) looks at all CTAs together"
)
SOON = 1e-6  # seconds: the least that a part of a launch is given

Done = Callable[[int], None]


def execute_spread(
    launch: Launch,
    clusters: Sequence[int] | None = None,
    *,
    watch: bool = True,
    done: Done = lambda ctas: None,
) -> bool:
    """Run clusters of a launch (all of them without `clusters`) as `execute` does, with the same results, on the `workers` processes or the Dask cluster of its options.

    Without either it is processes, one for each processor, where the first waves say that more than a few seconds are left, and where races in global memory
    are not looked for: processes would not see those between them. CTAs that wait for each other, add to the same words, take over each other's work, ask for %smid, allocate memory, or fill arrays that were declared uninitialised, run here. Raises InputError where workers are lost again and again.
    """
    workers, client = launch.options.workers, launch.options.client
    count = processors() if workers is None else workers
    looks = watch and launch.options.watch_global
    is_one = (
        (looks and workers is None and client is None)
        or launch.schedule is not None
        or launch.memory.has_declared
        or launch.program.names_multiprocessors
        or launch.program.allocates
        or not launch.program.uses.isdisjoint(OBJECTS)
    )
    if is_one or depends(launch) or takes_over(launch) or (client is None and (count == 1 or not can_have_children())):
        return execute(launch, clusters, watch=watch, done=done)
    left: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    together = at_once(launch, watch=watch)
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
    from smemsim import crews  # what starts processes takes long to import

    if looks:
        launch.evidence.add(APART)
    work, most = work_of(launch, watch=watch), -(-len(left) // together)
    crew: crews.Crew
    if client is None:
        crew = crews.Processes(run_shard, work, min(count, most), most_deaths=DEATHS)
    else:
        crew = crews.Cluster(run_shard, work, client, most_deaths=DEATHS)
    waves = min(-(-len(left) // (together * crews.PIECES * crew.count)), int(LONGEST / least))
    finished = False
    try:
        finished = crews.run(launch, crew, left, together * max(1, waves), Merge(launch), done)
        return finished
    finally:
        crew.close(wait=finished)
