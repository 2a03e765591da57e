"""The observers' view of a wave and its parts (`events.py`): protocols that execution's own classes have."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.slots import Slot

__all__ = ["Barrier", "Cta", "Launch", "Mbarrier", "Ordering", "Wave", "current", "mbarriers"]


Launch: TypeAlias = Any  # the launch of a wave: its kernel, options, memory and result


class Cta(Protocol):
    """One CTA of a wave."""

    number: int  # in the grid
    index: int  # in the wave
    cluster: int  # the number of its cluster in the wave
    rank: int  # in the cluster
    first: int  # its first thread, in the wave
    slots: dict[Any, Any]  # state that is kept at it (`slots.Slot`)


class Mbarrier(Protocol):
    """An mbarrier: at `offset` (a `.shared` address without a CTA's rank) of a CTA.

    Its `state` has its `phase`, `pending` arrivals and `tx` bytes. Its mbarrier.init is `made`. The operations that
    complete on it, as the sanitizer knows them, are `operations`. `is_again`: there was one at its place before.
    """

    cta: Any
    offset: int
    place: int  # in the wave's `shared`
    state: Any
    made: Instruction
    operations: list[Any]
    is_again: bool
    waits: list[Any]

    @property
    def touched(self) -> tuple[Any, ...]:
        """Its eight bytes, for a finding."""


class Barrier(Protocol):
    """A barrier of threads: one of a CTA's, or a cluster's."""

    scope: int  # CTA or CLUSTER
    own: slice  # the threads of its CTA or cluster

    @property
    def count(self) -> int | None:
        """How many threads meet there; None: all."""

    @property
    def key(self) -> Any:
        """The key by which observers know it."""

    @property
    def title(self) -> str:
        """Its name in findings."""


class Ordering(Protocol):
    """How an access orders others: by what it is it `acquires` or `releases`, or a fence makes it so (`reads`,
    `writes`), within a scope (`level`).
    """

    @property
    def acquires(self) -> bool:
        """.acquire, .acq_rel."""

    @property
    def releases(self) -> bool:
        """.release, .acq_rel."""

    @property
    def reads(self) -> bool:
        """May it be part of an acquire pattern?"""

    @property
    def writes(self) -> bool:
        """May it be part of a release pattern?"""

    @property
    def is_atomic(self) -> bool:
        """Is it an atomic operation?"""

    @property
    def level(self) -> int:
        """CTA, CLUSTER or GPU."""


class Wave(Protocol):
    """The threads that run together. Thread t is thread t % `stride` of CTA t // `stride`, which is padded to whole
    warps.
    """

    launch: Any
    program: Any
    shared: np.ndarray  # the bytes of all windows
    sel: Any  # ALL, or the threads that run
    at: int  # the block that runs
    step: int  # the instruction within it
    r: Any  # registers
    memories: Any
    positions: Any
    in_flight: Any
    cohort: Any  # its CTAs (`Cohort`), where several of them may be checked as one

    @property
    def tensor(self) -> Any:
        """Tensor memory, by CTA."""

    @property
    def alike(self) -> Any:
        """Something made once for all waves of so many threads, by its name: `alike(name, make)`."""

    @property
    def materialize(self) -> Any:
        """Give registers their values that are stored elsewhere: `materialize()`."""

    @property
    def observed_by_another(self) -> Any:
        """One sanitizer takes the place of another: `observed_by_another(before, after)`."""

    @property
    def total(self) -> int:
        """Threads."""

    @property
    def stride(self) -> int:
        """Threads of a CTA."""

    @property
    def pitch(self) -> int:
        """Bytes of shared memory from one CTA's to the next one's in `shared`."""

    @property
    def tid(self) -> np.ndarray:
        """The number of each thread in its CTA."""

    @property
    def cta_of(self) -> np.ndarray:
        """The index of each thread's CTA in the wave."""

    @property
    def numbers(self) -> np.ndarray:
        """The number of each CTA in the grid."""

    @property
    def steps(self) -> int:
        """Blocks of instructions that have run."""

    @property
    def ctas(self) -> Any:
        """The CTAs (`Cta`), by their index in the wave."""

    @property
    def threads(self) -> np.ndarray:
        """The threads that run, ascending."""

    @property
    def n(self) -> int:
        """How many threads run."""

    @property
    def window_begin(self) -> int:
        """The `.shared` address at which a window begins."""

    @property
    def scratch(self) -> int:
        """The offset in a CTA's part of `shared` of the system's bytes that some kernels use, 0 for none."""

    @property
    def pc(self) -> np.ndarray:
        """The next block of each thread; EXITED or more if it has exited."""


def current(x: Any) -> Instruction:
    """The instruction that the wave executes now."""
    instructions = x.program.blocks[x.at].instructions
    found: Instruction = instructions[min(x.step, len(instructions) - 1)]
    return found


# the mbarriers of a CTA that are initialised, by their offset
mbarriers: Slot[dict[int, Any]] = Slot(lambda cta: {})
