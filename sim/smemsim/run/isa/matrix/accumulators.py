"""Accumulators of wgmma as matrices, between two instructions that name their registers.

A loop over K adds to the same registers again and again, and no instruction reads them in between. Their values are
then kept as matrices. They return to the registers when a block of instructions begins that names one of them
(`Wave.materialize`).

Whether an instruction adds to a sum follows from its registers: they hold what the last wgmma left there, also if a
loop has moved it away and back. Zeros, or any other value that has been written there, begin another sum.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.masks import all_set
from smemsim.core.machine import loops
from smemsim.core.machine.wgmma import d_places
from smemsim.core.spec.wgmma import WGMMA_M
from smemsim.run.engine.wave import WARPGROUP

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["Accumulators", "accumulators", "bits_of_slots", "count_of", "number_of"]


def _is_sum(left: np.ndarray, now: np.ndarray) -> bool:
    """Do registers still hold what a wgmma left there? Zeros may be either, and count as written by others."""
    return bool(np.array_equal(left, now) and now.any())


@functools.lru_cache(maxsize=1024)
def bits_of_slots(slots: Collection[int]) -> int:
    """A bit set of registers, as `Block.slots` is one."""
    return sum(1 << slot for slot in set(slots))


def count_of(x: Wave) -> int:
    """How many whole warpgroups a wave has."""
    return len(x.ctas) * (x.stride // WARPGROUP)


def number_of(x: Wave, cta: np.ndarray, tid: np.ndarray) -> np.ndarray:
    """The numbers of warpgroups among those of the wave, by the index of their CTA and their first thread in it: a CTA
    may have warps after its last one.
    """
    numbers: np.ndarray = cta * (x.stride // WARPGROUP) + tid // WARPGROUP
    return numbers


def accumulators(x: Wave) -> Accumulators:
    """Those of a wave."""
    found: Accumulators | None = x.registers.keeper
    if found is None:
        found = x.registers.keeper = Accumulators(x)
    return found


@dataclasses.dataclass(eq=False)
class _Matrix:
    """The values (warpgroups, 64, N) of some registers (a bit set), raw bits, where `is_here`; `places` are the words
    of registers that they belong to.
    """

    slots: int
    places: np.ndarray
    values: np.ndarray
    is_here: np.ndarray

    def __post_init__(self) -> None:
        self.has_sum = np.zeros_like(self.is_here)


class Accumulators:
    """The accumulators of a wave's warpgroups whose registers do not have their values now."""

    def __init__(self, x: Wave) -> None:
        self.x = x
        self.kept: dict[tuple[int, ...], _Matrix] = {}
        cta, group = np.divmod(np.arange(count_of(x)), max(1, x.stride // WARPGROUP))
        self._firsts = cta * x.stride + group * WARPGROUP  # the first thread of each warpgroup
        # by registers and warpgroup; None: is under way
        self._left: dict[tuple[frozenset[int], int], np.ndarray | None] = {}

    def left(self, slots: frozenset[int], groups: Sequence[int], values: np.ndarray | None) -> None:
        """A wgmma has left this (registers, warpgroups, threads) in registers, or will."""
        self._left |= {(slots, group): None if values is None else values[:, n] for n, group in enumerate(groups)}

    def goes_on(self, slots: frozenset[int], groups: Sequence[int], values: np.ndarray) -> list[bool]:
        """Do registers of warpgroups, with these values, hold what a wgmma has left there?"""
        keys = [(slots, group) for group in groups]
        return [key in self._left and ((left := self._left[key]) is None or _is_sum(left, values[:, n])) for n, key in enumerate(keys)]

    def hold(self, slots: tuple[int, ...], n: int, groups: np.ndarray, adds: np.ndarray) -> tuple[np.ndarray, list[bool]]:
        """The accumulators (warpgroups of the wave, 64, N) of registers, to be changed for these warpgroups; what
        they hold counts where `adds`.

        And of each warpgroup: does it go on with a sum?
        """
        of = self.kept.get(slots)
        bits = bits_of_slots(slots) if of is None else of.slots
        if any(other is not of and other.slots & bits for other in self.kept.values()):
            self.x.materialize(bits)
        if of is None:
            places = self.x.alike(("D", slots), lambda: self._places(slots, n))
            count = len(self._firsts)
            of = self.kept[slots] = _Matrix(bits, places, np.empty((count, WGMMA_M, n), np.uint32), np.zeros(count, bool))
        if not all_set(of.is_here[groups]):
            new = groups[adds & ~of.is_here[groups]]
            words = np.empty((len(new), *of.places.shape), np.uint32)
            loops.take(self.x.registers.words, self._firsts[new], of.places, words)
            of.has_sum[new] = [
                bool(of.has_sum[group]) and _is_sum(of.values[group], own) for group, own in zip(new.tolist(), words, strict=True)
            ]
            of.values[new] = words
            of.is_here[groups] = True
        self.x.registers.held |= bits
        goes_on = (adds & of.has_sum[groups]).tolist()
        of.has_sum[groups] = True
        return of.values, goes_on

    def materialize(self, slots: int) -> int:
        """Give registers their values where one of these is among them; returns those whose values are still here."""
        for of in self.kept.values():
            if of.slots & slots and of.is_here.any():
                groups = np.flatnonzero(of.is_here)
                loops.put(self.x.registers.words, self._firsts[groups], of.places, of.values, groups)
                of.is_here[:] = False
        left = 0
        for of in self.kept.values():
            left |= of.slots if of.is_here.any() else 0
        return left

    def _places(self, slots: tuple[int, ...], n: int) -> np.ndarray:
        """(64, N) the word of each element among those of all registers, from its warpgroup's first thread on."""
        begins, elements = np.array([self.x.registers.first_word(slot) for slot in slots], np.int64), np.arange(n // 2)
        places = np.empty((WGMMA_M, n), np.int64)
        places[d_places(n)] = begins[elements] + np.arange(WARPGROUP)[:, None]
        return places
