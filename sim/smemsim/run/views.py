"""What observers see of a wave and its parts (`events.py`): protocols that execution's own classes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Barrier", "Cta", "Mbarrier", "Ordering", "Wave"]


class Cta(Protocol):
    """One CTA of a wave."""

    number: int  # in the grid
    index: int  # in the wave
    cluster: int  # the number of its cluster in the wave
    rank: int  # in the cluster
    first: int  # its first thread, in the wave


class Mbarrier(Protocol):
    """An mbarrier: at `offset` (a `.shared` address without a CTA's rank) of a CTA. `state` has its `phase`, `pending` arrivals and `tx` bytes."""

    cta: Any
    offset: int
    state: Any


class Barrier(Protocol):
    """A barrier of threads: one of a CTA's, or a cluster's."""

    scope: int  # CTA or CLUSTER
    own: slice  # the threads of its CTA or cluster

    @property
    def count(self) -> int | None:
        """How many threads meet there; None: all."""

    @property
    def key(self) -> Any:
        """What observers know it by."""

    @property
    def title(self) -> str:
        """What findings call it."""


class Ordering(Protocol):
    """How an access orders others: by what it is it `acquires` or `releases`, or a fence makes it so (`reads`, `writes`), within a scope (`level`)."""

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
    """The threads that run together. Thread t is thread t % `stride` of CTA t // `stride`, which is padded to whole warps."""

    launch: Any
    program: Any
    shared: np.ndarray  # the bytes of all windows

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
        """Of each thread: its number in the CTA."""

    @property
    def cta_of(self) -> np.ndarray:
        """Of each thread: its CTA's index in the wave."""

    @property
    def numbers(self) -> np.ndarray:
        """Of each CTA: its number in the grid."""

    @property
    def steps(self) -> int:
        """Blocks of instructions that have run."""

    @property
    def ctas(self) -> Sequence[Any]:
        """The CTAs (`Cta`)."""

    @property
    def threads(self) -> np.ndarray:
        """The threads that run, ascending."""
