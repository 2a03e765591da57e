"""One launch: a program, a grid, and where its parameters and variables are; checked before anything runs."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smemsim.arguments import shown, whole
from smemsim.errors import InputError, Unmodelled
from smemsim.finding import Finding, Touched, at_instruction
from smemsim.machine.region import GlobalMemory
from smemsim.program.events import Event
from smemsim.program.linking.program import Program
from smemsim.program.registry import ON_EXIT
from smemsim.ptx.module import Instruction, Parameter
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity
from smemsim.spec.launches import LAUNCH_LIMITS

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["CANCEL", "LIMIT", "Given", "Judge", "Launch", "Queue", "check_shape", "three"]


WORKSPACE_BYTES = 256  # enough for the counters of cooperative groups
# How `clusterlaunchcontrol.try_cancel` is answered; a right kernel computes the same with all of them.
CANCEL = {
    "resident": "the clusters that fit on the card at once begin, those behind them are there to be taken over",
    "never": "every request is declined, as when all clusters have begun",
    "one": "each cluster that begins takes over one other, its further requests are declined",
    "always": "a cluster begins alone and takes over all that have not begun",
}
LIMIT = 20_000_000  # blocks of instructions that a wave may execute, unless a launch says otherwise


class Judge(Protocol):
    """Called with each event, right after it happened. CTAs of other processes have a `fresh` one, which this one is to `merge` once it has `finish`ed."""

    def __call__(self, x: Wave, event: Event) -> None: ...

    def fresh(self) -> Judge:
        """One that has seen nothing."""

    def finish(self) -> Judge:
        """All events have happened."""

    def merge(self, other: Any) -> None:
        """Take what another one has seen."""


@dataclasses.dataclass(eq=False, kw_only=True)
class Given:
    """What is known of a launch before it runs: the PTX text that its program is made of, its shape, and where its parameters and variables are."""

    ptx: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    addresses: dict[str, int]  # of variables in global memory
    parameter_address: int
    limit: int = LIMIT
    limit_seconds: float | None = None  # how long it may run
    cancel: str = "resident"  # a key of CANCEL

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def cta(self, cluster: int, rank: int) -> tuple[int, tuple[int, int, int]]:
        """(number in the grid, ctaid) of a CTA by its cluster's number and its rank there."""
        counts = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        at = (cluster % counts[0], cluster // counts[0] % counts[1], cluster // (counts[0] * counts[1]))
        within = (rank % self.cluster[0], rank // self.cluster[0] % self.cluster[1], rank // (self.cluster[0] * self.cluster[1]))
        x, y, z = (a * c + w for a, c, w in zip(at, self.cluster, within, strict=True))
        return x + self.grid[0] * (y + self.grid[1] * z), (x, y, z)


class Queue:
    """The clusters of a launch that have not begun, in the order in which they do; the first `kept` of them cannot be taken over.

    >>> queue = Queue(range(4), kept=2)
    >>> queue.begin(1), queue.cancel(), queue.begin(4), queue.begin(4), queue.cancel()
    ([0], 2, [1], [3], None)
    """

    def __init__(self, clusters: Sequence[int], kept: int) -> None:
        self.clusters = clusters
        self.kept = self.free = min(kept, len(clusters))
        self.first = 0  # of those kept, the next one that begins; behind them `free` is the next one that begins or is taken over
        self.asked = self.taken = 0

    def __len__(self) -> int:
        return self.kept - self.first + len(self.clusters) - self.free

    def begin(self, count: int) -> list[int]:
        """The next clusters, which begin now: of those kept, or behind them, so that these can ask for the others first."""
        if self.first < self.kept:
            first, self.first = self.first, min(self.first + count, self.kept)
            return list(self.clusters[first : self.first])
        first, self.free = self.free, min(self.free + count, len(self.clusters))
        return list(self.clusters[first : self.free])

    def cancel(self) -> int | None:
        """A cluster that somebody takes over, and that will not begin; None where there is none left."""
        if self.free == len(self.clusters):
            return None
        self.free, self.taken = self.free + 1, self.taken + 1
        return self.clusters[self.free - 1]


@dataclasses.dataclass(eq=False, kw_only=True)
class Launch(Given):
    """`findings` has one entry for a code at a line, a further one for another operation; `events` are the transfers and matrix instructions, `output` what printf wrote."""

    program: Program
    memory: GlobalMemory
    parameters: np.ndarray
    waves: list[Wave] = dataclasses.field(default_factory=list)
    queue: Queue = dataclasses.field(default_factory=lambda: Queue((), 0))
    findings: dict[tuple[str | int, ...], Finding] = dataclasses.field(default_factory=dict)
    events: list[Event] = dataclasses.field(default_factory=list)
    output: list[str] = dataclasses.field(default_factory=list)
    output_size: int = 0  # characters
    evidence: set[str] = dataclasses.field(default_factory=set)  # what rests on less than measurements, in words
    elsewhere: set[int] = dataclasses.field(default_factory=set)  # lines of copies whose bytes others than matrix instructions read
    mapped: dict[int, tuple[frozenset[int], bool]] = dataclasses.field(
        default_factory=dict
    )  # of each mapa: the ranks that execute it; do any ask for another?
    judge: Judge | None = None
    out_of_time: bool = False  # has it been ended because it ran for `limit_seconds`?
    deadline: float = math.inf  # of `time.monotonic`; `begin` sets it

    def begin(self) -> None:
        """The time of `limit_seconds` begins."""
        if self.limit_seconds is not None:
            self.deadline = time.monotonic() + self.limit_seconds

    @property
    def is_over(self) -> bool:
        """Has the launch run for as long as it may?"""
        return time.monotonic() > self.deadline

    @functools.cached_property
    def workspace(self) -> int:
        """The address of the grid's workspace, in which cooperative groups count the CTAs at a barrier of the grid: %envreg1 and %envreg2."""
        return self.memory.place(np.zeros(WORKSPACE_BYTES, np.uint8))

    @property
    def asked_bytes(self) -> int:
        """Bytes of shared memory of a CTA that the kernel asks for, static and dynamic."""
        return self.program.places.dynamic_begin - architecture(self.arch).shared_begin + self.shared_bytes

    @property
    def window_bytes(self) -> int:
        """Bytes of a CTA's shared window."""
        machine = architecture(self.arch)
        return -(-self.asked_bytes // machine.shared_granularity) * machine.shared_granularity

    def parameter_of(self, begin: int, end: int) -> tuple[int, Parameter] | None:
        """The first parameter, with its number, that holds an address from `begin` to `end`: a pointer, or a tensor map."""
        places = self.program.places
        for n, p in enumerate(places.parameters):
            at = places.of(p.name).offset
            words = self.parameters[at : at + p.size // 8 * 8].view(np.uint64) if at % 8 == 0 else np.zeros(0, np.uint64)
            if ((words >= np.uint64(begin)) & (words < np.uint64(end))).any():
                return n, p
        return None

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
    ) -> None:
        """Note a finding at an instruction; the same code at the same line is noted once for each `operation`, the most severe one.

        `milder` is for what is formally wrong and that a user cannot act on (compilers write it so): the message says why.
        """
        self.keep(at_instruction(code, i, message, repair, because=because, milder=milder, touched=touched, operation=operation))

    def found(self, code: str, line: int, operation: str = "") -> Finding | None:
        """What was found at a line, of the same operation if several were."""
        first = self.findings.get((code, line))
        return first if first is None or first.operation == operation else self.findings.get((code, line, operation))

    def keep(self, finding: Finding) -> None:
        """Keep a finding, unless there is one of its code at its line that is not milder."""
        key: tuple[str | int, ...] = finding.code, finding.line
        first = self.findings.get(key)
        if first is not None and first.operation != finding.operation:
            key = *key, finding.operation
        before = self.findings.get(key)
        if before is None or (before.is_milder and not finding.is_milder):
            self.findings[key] = finding

    def exited(self, wave: Wave, threads: np.ndarray) -> None:
        """Threads are done: barriers no longer wait for them."""
        for hook in ON_EXIT:
            hook(wave, threads)


def three(name: str, value: Any) -> tuple[int, int, int]:
    """A grid, block or cluster shape: one to three numbers, the missing ones 1.

    >>> three("grid", 4), three("block", (32, 2))
    ((4, 1, 1), (32, 2, 1))
    """
    given = (value,) if isinstance(value, (int, np.integer)) else value
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else ()
    if not 1 <= len(values) <= 3:
        raise InputError(f"{name} = {shown(value)}: needs one to three numbers")
    x, y, z = (whole(name, n, minimum=1) for n in (*values, 1, 1)[:3])
    return x, y, z


def check_shape(launch: Launch, directives: Any) -> None:
    """InputError where a launch asks for what hardware or the entry's directives do not allow."""
    for name, most in (("grid", LAUNCH_LIMITS.grid), ("block", LAUNCH_LIMITS.block)):
        for n, limit, axis in zip(getattr(launch, name), most, "xyz", strict=True):
            if n > limit:
                raise InputError(f"{name}.{axis} = {n}: at most {limit} ({LAUNCH_LIMITS.source})")
    if launch.threads > LAUNCH_LIMITS.threads:
        raise InputError(f"block = {launch.block}: {launch.threads} threads; a CTA has at most {LAUNCH_LIMITS.threads}")
    _check_directives(launch, directives)
    if launch.cluster_size > LAUNCH_LIMITS.cluster:
        raise InputError(f"cluster = {launch.cluster}: {launch.cluster_size} CTAs; a cluster has at most {LAUNCH_LIMITS.cluster}")
    for n, of, axis in zip(launch.grid, launch.cluster, "xyz", strict=True):
        if n % of:
            raise InputError(f"grid.{axis} = {n}: needs a multiple of cluster.{axis} = {of}")
    local = launch.program.places.local_bytes
    if local > LAUNCH_LIMITS.local_bytes:
        raise InputError(f"{local} bytes of local variables: a thread has {LAUNCH_LIMITS.local_bytes} at most ({LAUNCH_LIMITS.source})")
    machine = architecture(launch.arch)
    room = machine.shared_end - machine.shared_begin
    if launch.window_bytes > room:
        static = launch.program.places.dynamic_begin - machine.shared_begin
        raise InputError(
            f"shared_bytes = {launch.shared_bytes}: with the {static} B that the program declares more than the {room} B a CTA has on "
            f"{launch.arch}"
        )


def _check_directives(launch: Launch, directives: Any) -> None:
    if "blocksareclusters" in directives:
        raise Unmodelled(
            ".blocksareclusters: the grid of this entry counts clusters, which is not modelled; compile without __block_size__"
        )
    wanted = directives.get("reqntid")
    if wanted and three("reqntid", wanted) != launch.block:
        raise InputError(f"block = {launch.block}: the entry requires {three('reqntid', wanted)} (.reqntid)")
    most = directives.get("maxntid")
    if most and launch.threads > int(np.prod(most)):
        raise InputError(f"block = {launch.block}: {launch.threads} threads; the entry allows {int(np.prod(most))} (.maxntid)")
    clusters = directives.get("reqnctapercluster")
    if clusters and three("reqnctapercluster", clusters) != launch.cluster:
        raise InputError(f"cluster = {launch.cluster}: the entry requires {three('reqnctapercluster', clusters)} (.reqnctapercluster)")
