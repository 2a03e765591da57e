"""Launches: how they are described (`LaunchConfig`, `RunOptions`), what they may ask for (`check_shape`), and one
that runs (`Launch`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import flag, shown, suggestion, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.masks import any_set
from smemsim.core.finding import Half, Touched, Value, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.machine.stored_taint import StoredTaint
from smemsim.core.ptx.module import Instruction, Parameter
from smemsim.core.spec.alternatives import alternative_of
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.cards import card_of
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.launches import LARGE_CLUSTERS, LAUNCH_LIMITS, PORTABLE_CLUSTER
from smemsim.run.counters.limits import limits_of
from smemsim.run.engine.launch_result import LaunchResult
from smemsim.run.engine.recorder import Recorder
from smemsim.run.engine.schedule import Schedule, checked_schedule
from smemsim.run.events import Observer, interest_of
from smemsim.run.isa.registers import Wave
from smemsim.run.isa.registry import BEFORE_EXIT, ON_EXIT
from smemsim.run.lower.program import Program
from smemsim.run.pipeline.knowledge import recording_of

__all__ = [
    "CANCEL",
    "EVERY",
    "LIMIT",
    "Launch",
    "LaunchConfig",
    "LinkedKernel",
    "LoadedKernel",
    "Queue",
    "RunOptions",
    "check_given",
    "check_shape",
    "three",
]


WORKSPACE_BYTES = 256  # enough for the counters of cooperative groups
# How `clusterlaunchcontrol.try_cancel` is answered; a right kernel computes the same with all of them.
CANCEL = {
    "resident": "the clusters that fit on the card at once begin; the others can be taken over",
    "never": "every request is declined, as when all clusters have begun",
    "one": "each cluster that begins takes over one other, its further requests are declined",
    "always": "a cluster begins alone and takes over all that have not begun",
}
EVERY = "all"  # of `LaunchConfig.cancel`: each of the answers but "resident", one run after the other
LIMIT = 20_000_000  # blocks of instructions that a wave may execute, unless a launch says otherwise
COHORTS = "SMEMSIM_COHORTS"  # of the environment: "off" executes and checks CTAs that do the same one by one


# ---- How a launch is described


def three(name: str, value: Any) -> tuple[int, int, int]:
    """A grid, block or cluster shape: one to three numbers, the missing ones 1.

    >>> three("grid", 4), three("block", (32, 2))
    ((4, 1, 1), (32, 2, 1))
    """
    if type(value) is tuple and len(value) == 3 and all(type(n) is int and n > 0 for n in value):
        return value
    given = (value,) if isinstance(value, (int, np.integer)) else value
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else ()
    if not 1 <= len(values) <= 3:
        raise InputError(f"{name} = {shown(value)}: needs one to three numbers")
    x, y, z = (whole(name, n, minimum=1) for n in (*values, 1, 1)[:3])
    return x, y, z


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LaunchConfig:
    """Everything of a launch that the kernel can see, in the terms of the driver's `CUlaunchConfig`.

    - Sizes: `grid`, `block` and `cluster`, one to three numbers, kept as three. A `block` of None is the kernel's
      `.reqntid`, else one thread. A `cluster` of None is its `.reqnctapercluster`, else no cluster. Then each CTA is a
      cluster of one, but st.async and red.async are illegal instructions.
    - Dynamic shared memory: `shared_bytes`.
    - Parameters: `args`, one entry for each, in their order. On every card an entry is the parameter's bytes. On a
      simulated one it may also be an array, a tensor map, a number or None.
    - Kernel: `entry`, its name. It may be left out if the PTX has only one.
    - Cancellation: `cancel`, how a simulated card answers `clusterlaunchcontrol.try_cancel`: a key of `CANCEL`, or
      "all".

    Raises InputError.

    >>> LaunchConfig(grid=(4, 2), block=128).grid
    (4, 2, 1)
    """

    grid: Any = (1, 1, 1)
    block: Any = None
    cluster: Any = None
    shared_bytes: int = 0
    args: Sequence[Any] = ()
    entry: str | None = None
    cooperative: bool = False
    cancel: str = "resident"

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            value = getattr(self, name)
            if value is not None or name == "grid":
                object.__setattr__(self, name, three(name, value))
        object.__setattr__(self, "shared_bytes", whole("shared_bytes", self.shared_bytes, minimum=0))
        object.__setattr__(self, "cooperative", flag("cooperative", self.cooperative))
        answers = (*CANCEL, EVERY)
        if self.cancel not in answers:
            raise InputError(f"cancel = {shown(self.cancel)}: needs one of {', '.join(answers)}{suggestion(self.cancel, answers)}")

    def of(self, kernel: LoadedKernel) -> LaunchConfig:
        """The launch of this kernel: what was left open is as the kernel's directives say."""
        if self.cluster is None and "blocksareclusters" in kernel.directives:
            raise Unmodelled(
                ".blocksareclusters: a driver counts clusters in the grid of this entry; not modelled, unless the launch gives the cluster, and the grid in CTAs"
            )
        return dataclasses.replace(
            self, entry=kernel.name, block=self.block or kernel.block or (1, 1, 1), cluster=self.cluster or kernel.cluster
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RunOptions:
    """How a simulated card runs a launch. The kernel cannot see any of it, and none changes the results of a correct
    kernel.

    - Sanitizer: with `sanitize=False` none runs. With `watch_global=False` the race detector ignores global memory.
    - Part of the grid: `ctas`, the numbers of the CTAs to run, with the CTAs of their clusters. None means all.
      "sample", alone or among the numbers, means a few that represent the grid (`sampling.py`).
    - Limits: `limit`, blocks of instructions until the kernel counts as endless. After `limit_seconds` it is ended
      without a finding.
    - Processes: `workers`, which execute CTAs that do not depend on each other (None: as many as save time). With
      `client`, a `distributed.Client`, its Dask cluster executes them.
    - Progress: with `progress=False` no bar is drawn.
    - Names: `name` of the PTX in findings, and `sources`, folders with sources that findings may show.
    - Schedule: `schedule`. None is the usual order, a seed any order that the memory model allows, "earliest" and
      "latest" the extremes. "all:N" runs each of these and N seeds.
    - Assumption: `assume`, an alternative of a rule about Blackwell that holds instead of the rule, such as
      "tcgen05.pair=b_interleaved". Such a launch runs in this process.
    - Previous launch: `after`, what it has done to memory (`grid.in_front`), if this launch may start before it has
      ended. Such a launch runs in this process.
    - Multiprocessors: `multiprocessors` of the card, if not those of the real one. CTAs read the number in %nsmid, and
      run on so many at once.
    - Accesses past an array: threads that access at most `overrun` bytes after an array get X001 and continue with
      zeros. Other accesses outside arrays end the kernel. An access that begins inside the array and ends after it,
      such as that of a vector, still ends it.
    - Observers: `observers` (`smemsim.run.events.Observer`) get the events of the launch, with the sanitizer and
      without. Such a launch runs in this process.
    - Counters: with `counters=True` the cost of each line is counted. Upper bounds, as `run.counters.limits` has them,
      also give P905.
    - Pipeline: `pipeline` records the stages of the kernel's loads. It is True, or a table with `cta` (the CTA whose
      cluster is recorded) and `costs` (assumed lengths by name).
    - Results: `outputs`, the arrays whose values count, of `Gpu.array`, or addresses. Uninitialised values in other
      arrays are R507 when something uses them. None means all arrays.

    Raises InputError.
    """

    sanitize: bool = True
    watch_global: bool = True
    ctas: Iterable[int | str] | str | None = None
    limit: int = LIMIT
    limit_seconds: float | None = None
    workers: int | None = None
    client: Any = None
    progress: bool = True
    sources: Any = ()
    name: str = "ptx"
    schedule: int | str | None = None
    assume: str | None = None
    after: Any = None
    multiprocessors: int | None = None
    overrun: int = 0
    observers: Sequence[Observer] = ()
    counters: Any = False
    pipeline: Any = False
    outputs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", None if self.outputs is None else _addresses(self.outputs))
        object.__setattr__(self, "schedule", checked_schedule(self.schedule))
        for name in ("sanitize", "watch_global", "progress"):
            object.__setattr__(self, name, flag(name, getattr(self, name)))
        object.__setattr__(self, "counters", self.counters if isinstance(self.counters, (bool, tuple)) else limits_of(self.counters))
        object.__setattr__(self, "pipeline", recording_of(self.pipeline))
        object.__setattr__(self, "limit", whole("limit", self.limit, minimum=1))
        object.__setattr__(self, "overrun", whole("overrun", self.overrun, minimum=0))
        seconds = self.limit_seconds
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf):
            raise InputError(f"limit_seconds = {shown(seconds)}: needs a number of seconds above 0, or None")
        if self.workers is not None:
            object.__setattr__(self, "workers", whole("workers", self.workers, minimum=1))
        if self.assume:
            alternative_of(self.assume)
            if self.client is not None or (self.workers or 1) > 1:
                raise InputError(f"assume = {shown(self.assume)}: such a launch runs in one process; leave workers and client out")
            object.__setattr__(self, "workers", 1)
        object.__setattr__(self, "observers", _observers(self.observers))
        if self.observers or self.counters or self.pipeline:
            if self.client is not None or (self.workers or 1) > 1:
                raise InputError("observers and counters see a launch in one process alone; leave workers and client out")
            object.__setattr__(self, "workers", 1)
        if self.multiprocessors is not None:
            object.__setattr__(self, "multiprocessors", whole("multiprocessors", self.multiprocessors, minimum=1))
        if self.after is not None:
            object.__setattr__(self, "workers", 1)
        if self.client is not None and not hasattr(self.client, "get_executor"):
            raise InputError(f"client = {shown(self.client)}: needs a distributed.Client")
        object.__setattr__(self, "sources", _folders(self.sources))


def _addresses(arrays: Any) -> tuple[int, ...]:
    """The addresses of arrays of `Gpu.array`, or addresses."""
    if hasattr(arrays, "address") or not isinstance(arrays, Iterable):
        raise InputError(f"outputs = {shown(arrays)}: needs a list of arrays of Gpu.array, or of addresses")
    return tuple(whole("outputs", getattr(array, "address", array), minimum=0) for array in arrays)


def _observers(given: Any) -> tuple[Observer, ...]:
    observers = tuple(given) if isinstance(given, Iterable) else (given,)
    for observer in observers:
        if not isinstance(observer, Observer):
            raise InputError(f"observers: {shown(observer)} is no smemsim.run.events.Observer")
    return observers


def _folders(sources: Any) -> tuple[pathlib.Path, ...]:
    given = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    if not isinstance(given, Iterable):
        raise InputError(f"sources = {shown(sources)}: needs a list of folders")
    folders = list(given)
    for folder in folders:
        if not isinstance(folder, (str, os.PathLike)) or not os.path.isdir(folder):
            raise InputError(f"sources: {shown(folder)} is not a folder")
    return tuple(pathlib.Path(folder) for folder in folders)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LoadedKernel:
    """A kernel that a card has loaded, like `CUfunction`. It has the properties that are known before a launch.

    The bytes of each parameter are `parameter_sizes`, None if a driver does not return them. The shared memory that the
    kernel declares is `static_shared_bytes`. The local memory of a thread is `local_bytes`. The directives of its PTX
    are `directives`: {"reqntid": (128, 1, 1)}.
    """

    name: str
    parameter_sizes: tuple[int, ...] | None
    static_shared_bytes: int
    local_bytes: int = 0
    directives: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def block(self) -> tuple[int, int, int] | None:
        """The threads of a CTA that it must be launched with (`.reqntid`)."""
        sizes = self.directives.get("reqntid")
        return three("reqntid", sizes) if sizes else None

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """The CTAs of a cluster that it must be launched with (`.reqnctapercluster`)."""
        sizes = self.directives.get("reqnctapercluster")
        return three("reqnctapercluster", sizes) if sizes else None

    @property
    def most_threads(self) -> int | None:
        """The threads of a CTA that it may be launched with (`.maxntid`)."""
        sizes = self.directives.get("maxntid")
        return math.prod(sizes) if sizes else None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LinkedKernel(LoadedKernel):
    """A kernel that a simulated card has loaded: its program, the text that it was read from, and the addresses of
    its module's variables.
    """

    program: Program
    text: str
    addresses: Mapping[str, int]
    parameter_names: tuple[str, ...] = ()  # of the source, if the PTX has other names
    counts_elements: bool = False  # the source has tensor descriptors in elements, the slowest dimension first

    def called(self, names: Sequence[str], *, counts_elements: bool = False) -> LinkedKernel:
        """The same kernel, whose parameters findings call by other names than those of the PTX."""
        return dataclasses.replace(self, parameter_names=tuple(names), counts_elements=counts_elements)

    def parameter_name(self, n: int) -> str:
        """The name of a parameter in the source, else in the PTX."""
        return self.parameter_names[n] if n < len(self.parameter_names) else self.program.places.parameters[n].name

    def variable(self, name: str) -> int:
        """The address of a variable of its module in global or constant memory. InputError where there is none of
        this name.
        """
        if name not in self.addresses:
            raise InputError(f"variable {shown(name)}: the PTX has no such variable{suggestion(name, self.addresses)}")
        return self.addresses[name]

    @classmethod
    def of(cls, program: Program, text: str, directives: Mapping[str, tuple[int, ...]], addresses: Mapping[str, int]) -> LinkedKernel:
        """The kernel of a program whose variables lie at `addresses`."""
        places = program.places
        return cls(
            name=program.name, parameter_sizes=tuple(p.size for p in places.parameters), local_bytes=places.local_bytes, directives=directives,
            static_shared_bytes=places.dynamic_begin - any_architecture(program.arch).shared_begin, program=program, text=text, addresses=addresses,
        )  # fmt: skip


def check_given(config: Any, options: Any) -> None:
    """InputError for a launch or options of another type."""
    if not isinstance(config, LaunchConfig):
        raise InputError(f"config = {shown(config)}: needs a smemsim.run.LaunchConfig, such as LaunchConfig(grid=4, block=128, args=[...])")
    if options is not None and not isinstance(options, RunOptions):
        raise InputError(f"options = {shown(options)}: needs smemsim.run.RunOptions, such as RunOptions(schedule=1)")


def check_shape(config: LaunchConfig, kernel: LoadedKernel, arch: str) -> None:
    """InputError where a launch asks for what hardware or the kernel's directives do not allow; `config` is one `of`
    the kernel.
    """
    for name, most in (("grid", LAUNCH_LIMITS.grid), ("block", LAUNCH_LIMITS.block)):
        for n, limit, axis in zip(getattr(config, name), most, "xyz", strict=True):
            if n > limit:
                raise InputError(f"{name}.{axis} = {n}: needs at most {limit} {'CTAs' if name == 'grid' else 'threads'} along {axis}")
    cluster = config.cluster or (1, 1, 1)
    threads, ctas = math.prod(config.block), math.prod(cluster)
    if threads > LAUNCH_LIMITS.threads:
        raise InputError(f"block = {config.block}: {threads} threads; a CTA has at most {LAUNCH_LIMITS.threads}")
    _check_directives(config, kernel)
    if ctas > LAUNCH_LIMITS.cluster:
        raise InputError(f"cluster = {config.cluster}: {ctas} CTAs; a cluster has at most {LAUNCH_LIMITS.cluster}")
    if ctas > PORTABLE_CLUSTER and arch not in LARGE_CLUSTERS and any_architecture(arch).has_clusters:
        raise Unmodelled(
            f"cluster = {config.cluster}: {ctas} CTAs; whether {arch} has clusters of more than {PORTABLE_CLUSTER} is not known"
        )
    for n, of, axis in zip(config.grid, cluster, "xyz", strict=True):
        if n % of:
            raise InputError(f"grid.{axis} = {n}: needs a multiple of cluster.{axis} = {of}")
    if kernel.local_bytes > LAUNCH_LIMITS.local_bytes:
        raise InputError(
            f"{kernel.local_bytes} bytes of local variables: a thread has {LAUNCH_LIMITS.local_bytes} at most ({LAUNCH_LIMITS.source})"
        )
    machine = any_architecture(arch)
    if config.cluster is not None and not machine.has_clusters:
        raise InputError(f"cluster = {config.cluster}: {arch} has no clusters; they came with sm_90")
    _check_shared(config, kernel, arch, machine.shared_end - machine.shared_begin)


def _check_shared(config: LaunchConfig, kernel: LoadedKernel, arch: str, room: int) -> None:
    """InputError for more shared memory than the `room` bytes of a CTA."""
    own = kernel.static_shared_bytes
    if own > room:
        raise InputError(f"the program declares {own} B of shared memory: more than the {room} B a CTA has on {arch}")
    if own + config.shared_bytes > room:
        raise InputError(
            f"shared_bytes = {config.shared_bytes}: needs at most {room - own} B: a CTA has {room} B on {arch}, and the program declares {own} B"
        )


def _check_directives(config: LaunchConfig, kernel: LoadedKernel) -> None:
    if kernel.block not in (None, config.block):
        raise InputError(f"block = {config.block}: the entry requires {kernel.block} (.reqntid)")
    threads = math.prod(config.block)
    if kernel.most_threads is not None and threads > kernel.most_threads:
        raise InputError(f"block = {config.block}: {threads} threads; the entry allows {kernel.most_threads} (.maxntid)")
    if kernel.cluster not in (None, config.cluster):
        raise InputError(f"cluster = {config.cluster}: the entry requires {kernel.cluster} (.reqnctapercluster)")


# ---- A launch that runs


class Queue:
    """The clusters of a launch that have not begun, in the order in which they do; the first `kept` of them cannot be
    taken over.

    >>> queue = Queue(range(4), kept=2)
    >>> queue.begin(1), queue.cancel(), queue.begin(4), queue.begin(4), queue.cancel()
    ([0], 2, [1], [3], None)
    """

    def __init__(self, clusters: Sequence[int], kept: int) -> None:
        self.clusters = clusters
        self.kept = self.free = min(kept, len(clusters))
        # the next of the kept clusters to begin; after them, `free` is the next to begin or to be taken over
        self.first = 0
        self.asked = self.taken = 0

    def __len__(self) -> int:
        return self.kept - self.first + len(self.clusters) - self.free

    def begin(self, count: int) -> list[int]:
        """The next clusters to begin: kept ones first, then later ones. So the kept ones can request
        the others first.
        """
        if self.first < self.kept:
            first, self.first = self.first, min(self.first + count, self.kept)
            return list(self.clusters[first : self.first])
        first, self.free = self.free, min(self.free + count, len(self.clusters))
        return list(self.clusters[first : self.free])

    def cancel(self) -> int | None:
        """A cluster that a request takes over, and that will not begin; None if none is left."""
        if self.free == len(self.clusters):
            return None
        self.free, self.taken = self.free + 1, self.taken + 1
        return self.clusters[self.free - 1]


@dataclasses.dataclass(eq=False, kw_only=True)
class Launch:
    """A launch while it runs: the kernel, its configuration, its options, and its parameters in memory.

    Everything that it leaves besides memory is `result`. The CUDA error that it ended with is `status`, 0 without one.
    """

    kernel: LinkedKernel
    config: LaunchConfig  # `of` the kernel
    options: RunOptions
    memory: GlobalMemory
    parameter_address: int
    parameters: np.ndarray
    result: LaunchResult = dataclasses.field(default_factory=LaunchResult)
    waves: list[Wave] = dataclasses.field(default_factory=list)
    slots: dict[Any, Any] = dataclasses.field(
        default_factory=dict
    )  # the state of instruction families, and what waves leave to later ones (`slots.Slot`)
    queue: Queue = dataclasses.field(default_factory=lambda: Queue((), 0))
    # the taint of values that are stored to global memory; None: a store of an uninitialised value is its use
    taint: StoredTaint | None = None
    history: Any = None  # accesses of its waves to global memory, if the race detector runs
    places: Any = None  # where its CTAs run (`Multiprocessors`), if the program reads %smid
    deadline: float = math.inf  # of `time.monotonic`; `begin` sets it
    left_out: int = 0  # CTAs of the grid that are not run
    program: Program = dataclasses.field(init=False)
    threads: int = dataclasses.field(init=False)  # of a CTA
    cluster_size: int = dataclasses.field(init=False)  # CTAs of a cluster
    ctas: int = dataclasses.field(init=False)  # of the grid
    schedule: Schedule | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.schedule = None if self.options.schedule is None else Schedule(self.options.schedule)
        self.program = self.kernel.program
        self.threads, self.cluster_size, self.ctas = math.prod(self.block), math.prod(self.cluster), math.prod(self.grid)

    @property
    def arch(self) -> str:
        """The card's architecture."""
        return self.program.arch

    @property
    def addresses(self) -> Mapping[str, int]:
        """The addresses of variables in global memory."""
        return self.kernel.addresses

    @property
    def grid(self) -> tuple[int, int, int]:
        """CTAs along each axis."""
        shape: tuple[int, int, int] = self.config.grid
        return shape

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA along each axis."""
        shape: tuple[int, int, int] = self.config.block
        return shape

    @property
    def cluster(self) -> tuple[int, int, int]:
        """CTAs of a cluster along each axis."""
        return self.config.cluster or (1, 1, 1)

    @property
    def is_clustered(self) -> bool:
        """Has the launch clusters, if only of one CTA?"""
        return self.config.cluster is not None

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.config.shared_bytes

    @property
    def limit(self) -> int:
        """Blocks of instructions that a wave may execute."""
        return self.options.limit

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the card."""
        return self.options.multiprocessors or int(card_of(self.arch).named("multiprocessor_count"))

    @property
    def status(self) -> int:
        """The CUDA error that the launch ended with, 0 without one."""
        return self.result.status

    @property
    def observers(self) -> list[Observer]:
        """The observers of each wave, besides the sanitizer: the recorder of its operations, the operand check, and
        those of the options.
        """
        result, uses = self.result, self.program.uses
        recorder = [] if uses.isdisjoint(Recorder.OPERATIONS) else [Recorder(result.events)]
        return [*recorder, *([] if result.operand_check is None else [result.operand_check]), *self.options.observers]

    @functools.cached_property
    def checks_operands(self) -> bool:
        """Does an observer ask what matrix instructions multiply?"""
        return any(interest_of(observer).operands for observer in self.observers)

    @functools.cached_property
    def has_cohorts(self) -> bool:
        """May CTAs that do the same be executed and checked as one? `SMEMSIM_COHORTS=off` looks at each by itself:
        the same bytes and findings, more slowly.
        """
        return os.environ.get(COHORTS) != "off"

    @property
    def is_apart(self) -> bool:
        """Does every CTA keep to itself, its threads to what they do themselves?"""
        return self.cluster_size == 1 and self.program.is_apart

    def cta(self, cluster: int, rank: int) -> tuple[int, tuple[int, int, int]]:
        """(number in the grid, ctaid) of a CTA by its cluster's number and its rank there."""
        number, (x, y, z) = self.ctas_at(cluster, rank)
        return number, (x, y, z)

    def ctas_at(self, cluster: Any, rank: Any) -> tuple[Any, tuple[Any, Any, Any]]:
        """`cta` of one or of arrays of them."""
        cx, cy, cz = self.cluster
        gx, gy, _ = self.grid
        rest, x = divmod(cluster, gx // cx)
        z, y = divmod(rest, gy // cy)
        if self.cluster_size == 1:
            return cluster, (x, y, z)
        x, y, z = x * cx + rank % cx, y * cy + rank // cx % cy, z * cz + rank // (cx * cy)
        return x + gx * (y + gy * z), (x, y, z)

    def begin(self) -> None:
        """The time of `limit_seconds` begins."""
        if self.options.limit_seconds is not None:
            self.deadline = time.monotonic() + self.options.limit_seconds

    @property
    def is_over(self) -> bool:
        """Has the launch run for as long as it may?"""
        return time.monotonic() > self.deadline

    @functools.cached_property
    def workspace(self) -> int:
        """The address of the grid's workspace, in which cooperative groups count the CTAs at a barrier of the grid:
        %envreg1 and %envreg2. 0 if the launch is not cooperative.
        """
        if not self.config.cooperative:
            return 0
        return self.own(self.memory.place(np.zeros(WORKSPACE_BYTES, np.uint8)))

    def own(self, address: int) -> int:
        """Free an array when the launch is garbage; returns its address."""
        weakref.finalize(self, self.memory.release, address).atexit = False
        return address

    @property
    def asked_bytes(self) -> int:
        """Bytes of shared memory of a CTA that the kernel asks for, static and dynamic."""
        return self.kernel.static_shared_bytes + self.shared_bytes

    @functools.cached_property
    def window_bytes(self) -> int:
        """Bytes of a CTA's shared window."""
        machine = any_architecture(self.arch)
        return -(-self.asked_bytes // machine.shared_granularity) * machine.shared_granularity

    def parameter_of(self, begin: int, end: int) -> tuple[int, Parameter] | None:
        """The first parameter, with its number, that holds an address from `begin` to `end`: a pointer, or a tensor
        map.
        """
        places = self.program.places
        for n, p in enumerate(places.parameters):
            at = places.of(p.name).offset
            words = self.parameters[at : at + p.size // 8 * 8].view(np.uint64) if at % 8 == 0 else np.zeros(0, np.uint64)
            if any_set((words >= np.uint64(begin)) & (words < np.uint64(end))):
                return n, p
        return None

    def array_name(self, begin: int, end: int) -> str:
        """The program's name of an array in global memory: a variable, or the parameter that points there. "" if it has
        no name.
        """
        for name, address in self.addresses.items():
            if begin <= address < end:
                return f"variable {name}"
        if begin == self.parameter_address:
            return "the kernel's parameters"
        near, parameter = self.memory.nearest(begin), self.parameter_of(begin, end)  # an empty array holds no address
        name = "" if near is None else near.name
        if parameter is None:
            return f"array {name}" if name else ""
        n, p = parameter
        said = self.kernel.parameter_name(n)
        return f"the array {'' if name in ('', p.name, said, f'arg{n}') else f'{name} '}of arg{n} ({said})"

    def find(
        self,
        code: str,
        i: Instruction,
        message: str,
        repair: str = "",
        *,
        because: str = "",
        milder: Severity | None = None,
        touched: tuple[Touched, ...] = (),
        operation: str = "",
        arrays: tuple[int, ...] = (),
        other: Instruction | None = None,
        within_warp: bool = False,
        why: str = "",
        halves: tuple[Half, ...] = (),
        numbers: Mapping[str, Value] | None = None,
        kind: str = "",
    ) -> None:
        """Add a finding at an instruction. The same code at the same instruction is added once for each `operation`,
        with the highest severity.

        Use `milder` for findings that are formally errors, but that a user cannot act on, since compilers write them.
        The message says why.
        """
        self.result.findings.keep(
            at_instruction(
                code, i, message, repair, because=because, milder=milder, touched=touched, operation=operation, arrays=arrays, other=other,
                within_warp=within_warp, why=why, halves=halves, numbers=numbers, kind=kind,
            )
        )  # fmt: skip

    def exited(self, wave: Wave, threads: np.ndarray) -> None:
        """Threads are done: barriers no longer wait for them."""
        for keep in BEFORE_EXIT:
            threads = keep(wave, threads)
        for hook in ON_EXIT if len(threads) else ():
            hook(wave, threads)
