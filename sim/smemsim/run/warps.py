"""Threads, warps and CTAs of a wave by their numbers: what execution and its observers have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.lazily import cached_property
from smemsim.base.masks import all_set, any_set
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tmem.memory import TensorMemory
from smemsim.core.spec.ptx import WARP_SIZE
from smemsim.core.spec.wgmma import WGMMA_THREADS

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["ALL", "EXITED", "WARP", "WARPGROUP", "Cta", "Ctas", "are_whole_warps", "warp_name", "warps_of"]


WARP, WARPGROUP = WARP_SIZE, WGMMA_THREADS
ALL = slice(None)  # selects all threads of a wave
EXITED = 1 << 28  # the lowest position (`engine/positions.py`) of a thread that has exited


@dataclasses.dataclass(eq=False)
class Cta:
    """One CTA: its place in the grid and its memories. Its number in the wave is `index`, in its cluster `rank`. Its
    first thread is `first`.

    Its window is made at the first use, by `make_shared`. Loads and stores of threads have the bytes of all windows at
    once.
    """

    number: int  # in the grid
    index: int
    ctaid: tuple[int, int, int]
    cluster: int  # number of the cluster within the wave
    rank: int
    first: int
    make_shared: Callable[[int], SharedMemory]
    tensor: TensorMemory | None
    slots: dict[Any, Any] = dataclasses.field(default_factory=dict)  # the state of instruction families (`slots.Slot`)

    @cached_property
    def shared(self) -> SharedMemory:
        """Its shared window."""
        return self.make_shared(self.index)


class Ctas(Sequence[Cta]):
    """The CTAs of a wave by their index, each made when something first asks for it: most kernels ask for none."""

    def __init__(self, count: int, make: Callable[[int], Cta]) -> None:
        self._make = make
        self._known: list[Cta | None] = [None] * count

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> Cta: ...

    @overload
    def __getitem__(self, index: slice) -> list[Cta]: ...

    def __getitem__(self, index: int | slice) -> Cta | list[Cta]:
        if isinstance(index, slice):
            known = self._known[index]
            return [self[n] for n in range(*index.indices(len(self)))] if None in known else cast("list[Cta]", known)
        cta = self._known[index]
        if cta is None:
            cta = self._known[index] = self._make(index % len(self))
        return cta

    def those(self, indices: Sequence[int]) -> list[Cta]:
        """The CTAs of these indices."""
        known = self._known
        return [known[n] or self[n] for n in indices]

    def make_windows(self) -> list[SharedMemory]:
        """The windows of all CTAs, made now and not at the first use."""
        return [cta.shared for cta in self]

    def let_go(self) -> None:
        """Nothing asks for one any more."""
        self._make, self._known = _gone, []

    @property
    def made(self) -> list[Cta]:
        """Those that something has asked for."""
        return list(filter(None, self._known))


def _gone(index: int) -> Cta:
    raise IndexError(index)


def are_whole_warps(threads: np.ndarray) -> bool:
    """Are threads (ascending) all those of their warps?"""
    firsts = threads[::WARP]
    return len(threads) % WARP == 0 and not any_set(firsts % WARP) and all_set(threads[WARP - 1 :: WARP] - firsts == WARP - 1)


def warp_name(x: Wave, warp: int) -> str:
    """A warp, by its number in the wave, as a kernel author knows it."""
    cta, own = divmod(int(warp), x.stride // WARP)
    return f"warp {own} of CTA {x.ctas[cta].number}"


def warps_of(threads: np.ndarray) -> np.ndarray:
    """The warps of threads (ascending), each once.

    >>> warps_of(np.array([3, 5, 70])).tolist()
    [0, 2]
    """
    found: np.ndarray = threads[::WARP] >> 5 if are_whole_warps(threads) else distinct(threads >> 5)
    return found
