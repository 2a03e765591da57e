"""The knowledge of threads about loads: fillings of stages, bit sets of them, and the wait by which a thread learned of
each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Instruction

__all__ = ["MOST", "READERS", "Costs", "Filling", "Known", "Origin", "Recording", "Waited", "bits_of", "costs_of", "recording_of"]

MOST = 512  # fillings of a launch that are recorded; later ones repeat them
READERS = 8  # warpgroups, warps of an epilogue, or threads that issue tcgen05.mma, that read one filling
WARP = 32


class Costs(NamedTuple):
    """Assumed lengths, in units of one tensor core instruction: nothing here was measured."""

    load: float = 6  # from the issue of a load to its last byte
    interval: float = 1  # between the ends of two loads
    mma: float = 1
    store: float = 4  # from the issue of a TMA store to its end
    epilogue: float = 2  # a load of a warp from tensor memory


class Recording(NamedTuple):
    """The settings of a recording: the cluster of CTA `cta` (None: of the first CTA that runs), drawn with these costs.
    With `only_page` it is for the page of a report alone.
    """

    cta: int | None = None
    costs: Costs = Costs()
    only_page: bool = False


def recording_of(raw: object) -> Recording | None:
    """The value of the option `pipeline`: True, False, or a table with `cta` and `costs`. InputError for others.

    >>> recording_of({"cta": 3, "costs": {"load": 600}})
    Recording(cta=3, costs=Costs(load=600.0, interval=1, mma=1, store=4, epilogue=2), only_page=False)
    """
    if raw is None or isinstance(raw, (bool, Recording)):
        return Recording() if raw is True else raw or None
    if not isinstance(raw, Mapping) or not raw.keys() <= {"cta", "costs"}:
        raise InputError(f"pipeline = {shown(raw)}: needs True, False, or a table with cta and costs")
    cta = raw.get("cta")
    return Recording(cta if cta is None else whole("pipeline.cta", cta, minimum=0), costs_of(raw.get("costs", {})))


def costs_of(raw: object) -> Costs:
    """Assumed lengths by name: numbers from 0 on. InputError for other names and values."""
    if isinstance(raw, Costs):
        return raw
    if not isinstance(raw, Mapping) or not raw.keys() <= set(Costs._fields):
        raise InputError(f"costs = {shown(raw)}: needs a table with some of {', '.join(Costs._fields)}")
    for name, value in raw.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise InputError(f"costs.{name} = {shown(value)}: needs a number of 0 or more")
    return Costs(**{name: float(value) for name, value in raw.items()})


class Origin(NamedTuple):
    """How a thread learned that reads, or a load, are complete: its own `wait`, the `arrival` that passed it on and
    what that thread had waited by.
    """

    wait: Instruction
    arrival: Instruction | None = None
    first: Instruction | None = None
    barrier: tuple[int, int] | None = None
    phase: int = -1


class Waited(NamedTuple):
    """A wait for a phase of an mbarrier that has passed, and what that phase knew: bit sets as in `Known`. Reads that
    the waiting thread itself had passed to the phase are not in `reads`.
    """

    wait: Instruction
    barrier: tuple[int, int]
    phase: int
    loads: int
    reads: int


@dataclasses.dataclass(eq=False)
class Filling:
    """One filling of a stage: the loads that one phase of an mbarrier counts, a group of cp.async, or the products of
    one accumulator in tensor memory.

    Fillings of one ring have an equal `ring`: the tensors and sizes of their loads, and the CTA whose mbarriers count
    them. A multicast load is part of a filling in each CTA that it goes to. The place in shared memory of the first
    load, with its CTA, is `stage`.

    The knowledge of the issuing thread before is `issued`, `loads` and `reads`. They are bit sets of fillings that were
    issued, that were complete, and whose readers were complete (READERS bits for each). The waits by which it knew of
    the reads are `origins`, of the loads `load_origins`, by number. The waits of the issuing thread since its filling
    before are `waits`.
    """

    number: int
    instruction: Instruction
    thread: int  # of the wave
    barrier: tuple[int, int]
    phase: int
    stage: tuple[int, int]
    issued: int
    loads: int
    reads: int
    origins: dict[int, Origin]
    load_origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    kind: str = "load"  # "load", "cp.async", "accumulator", or "answer" of clusterlaunchcontrol.try_cancel
    sizes: tuple[tuple[Any, int], ...] = ()
    places: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)  # CTA, first word, end word
    readers: int = 0
    at: float = 0.0
    full: float = 0.0
    read: float = -1.0
    free: float = -1.0
    is_full: bool = False  # has its phase ended?
    variable: str = ""  # that has its mbarrier
    warp: int = 0  # of its thread, in its CTA
    waits: tuple[Waited, ...] = ()

    @property
    def ring(self) -> tuple[Any, ...]:
        """The properties that all fillings of one ring share."""
        return (self.kind, self.thread // WARP, self.barrier[0], *sorted(self.sizes, key=repr))

    @property
    def intervals(self) -> tuple[float, float, float, float]:
        """When its loads are issued, when it is full, when it is read first and when its readers are done, in assumed
        units.
        """
        read = max(self.read, self.full) if self.read >= 0 else self.full
        return self.at, self.full, read, max(self.free, read)


@dataclasses.dataclass(eq=False)
class Known:
    """The knowledge of a thread, or of a phase of a barrier. By bit of `reads` it has `origins`, by bit of `loads` it
    has `load_origins`. A phase also has `brought`, by thread: the reads that the thread already knew as it arrived.
    """

    issued: int = 0
    loads: int = 0
    reads: int = 0
    origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    load_origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    time: float = 0.0
    brought: dict[int, int] = dataclasses.field(default_factory=dict)

    def learn(self, other: Known, via: Instruction | None = None, barrier: tuple[int, int] | None = None, phase: int = -1) -> None:
        """Know what another knows too; `via` is the wait by which it is learned."""
        if fresh := other.reads & ~self.reads:
            _remember(self.origins, other.origins, fresh, via, barrier, phase)
        if fresh := other.loads & ~self.loads:
            _remember(self.load_origins, other.load_origins, fresh, via, barrier, phase)
        self.issued |= other.issued
        self.loads |= other.loads
        self.reads |= other.reads
        self.time = max(self.time, other.time)


def _remember(
    own: dict[int, Origin], others: dict[int, Origin], fresh: int, via: Instruction | None, barrier: tuple[int, int] | None, phase: int
) -> None:
    """Take over how another knows of some bits."""
    for bit in bits_of(fresh):
        was = others.get(bit)
        if via is not None:
            own[bit] = Origin(via, None if was is None else was.arrival, None if was is None else was.wait, barrier, phase)
        elif was is not None:
            own[bit] = was


def bits_of(mask: int) -> Iterable[int]:
    """The numbers of the bits that are set, from the lowest on.

    >>> list(bits_of(0b1010))
    [1, 3]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
