"""What loads and stores of compiled code cost: counted for all threads at once, and once for accesses that cost the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.layout.bank_loops import count_accesses
from smemsim.core.layout.banks import paired_distances
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import LANES, LANES_TOGETHER, PAIRED, SECTOR
from smemsim.core.spec.shared_memory import BANKS
from smemsim.run.counters.rows import Row, by_warp

if TYPE_CHECKING:
    from smemsim.run.tallies import CompiledAccesses, Placed

__all__ = ["MOST_WARPS", "CompiledCosts"]

MOST_WARPS = 128  # accesses of warps that are kept for each instruction
_WHOLE = np.zeros(0, bool)  # no mask: all threads
_DISTANCES = np.array(PAIRED, np.int64)
_SECTOR = SECTOR.bit_length() - 1


class Samples:
    """What the first warps access that execute one access: all accesses of its row are so far apart."""

    def __init__(self, lead: int) -> None:
        self.lead = lead
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._room = MOST_WARPS

    def add(self, ran: CompiledAccesses) -> bool:
        """Keep some more. Are there still too few?"""
        for first in range(ran.first, ran.last, MOST_WARPS * LANES):
            threads, at = ran.of(self.lead, first, min(first + MOST_WARPS * LANES, ran.last))
            if len(threads):
                rows, active = by_warp(threads, at)
                self.kept.append((rows[: self._room], active[: self._room]))
                self._room -= len(self.kept[-1][0])
            if not self._room:
                break
        return self._room > 0


class CompiledCosts:
    """The sums for the accesses of one piece of compiled code, and samples of those of shared memory."""

    def __init__(self, accesses: Sequence[Placed]) -> None:
        self.accesses = accesses
        self._samples: dict[int, Samples] = {}  # by the row, of its first access
        for n, access in enumerate(accesses):
            if access.space == "shared":
                self._samples.setdefault(access.row, Samples(n))
        self._wanted = list(self._samples.values())
        self._members: dict[tuple[int, ...], list[int]] = {}
        for n, access in enumerate(accesses):
            self._members.setdefault(self._key(access), []).append(n)
        self._leads = np.array([members[0] for members in self._members.values()], np.int64)
        self._groups = np.array([self._numbers(accesses[n]) for n in self._leads.tolist()], np.int64)
        self._out = np.zeros((len(self._leads), 5), np.int64)
        self._begins = self._begun = np.zeros(0, np.int64)  # of the accesses that were counted last, and of those that lead
        self._count: Callable[..., None] | None = None  # the machine code of `count_accesses` for arrays of these types

    @staticmethod
    def _key(access: Placed) -> tuple[int, ...]:
        """Accesses with one key cost the same: they are of one row, and banks or sectors turn with the distance."""
        is_global, is_load = access.space == "global", access.instruction.op == "ld"
        return access.row, access.size, is_global, is_global or is_load, access.apart % (SECTOR if is_global else BANKS.width)

    @staticmethod
    def _numbers(access: Placed) -> tuple[int, ...]:
        """The numbers of a group as `count_accesses` takes them."""
        is_global, size = access.space == "global", access.size
        paired = 0 if is_global else len(paired_distances(access.instruction.op, size))
        return access.row, access.apart, size, LANES_TOGETHER[size], paired, _SECTOR if is_global else 0

    def add(self, ran: CompiledAccesses) -> None:
        """Count the accesses once more."""
        mask = _WHOLE if ran.mask is None else ran.mask
        if self._wanted:
            self._wanted = [samples for samples in self._wanted if samples.add(ran)]
        if ran.begins is not self._begins:
            self._begins, self._begun = ran.begins, ran.begins[self._leads]
        given = ran.places, ran.shapes, mask, ran.first, ran.last, ran.nowhere, self._groups, self._begun, _DISTANCES, self._out
        if self._count is None:
            self._count = count_accesses.code(given)
        self._count(*given)

    def samples(self) -> Iterator[tuple[Placed, np.ndarray, np.ndarray]]:
        """Of each access of shared memory the places of some warps in the wave's shared memory, and their lanes."""
        for access in self.accesses:
            found = self._samples.get(access.row) if access.space == "shared" else None
            if found is not None and found.kept:
                apart = access.apart - self.accesses[found.lead].apart
                yield access, np.concatenate([at for at, _ in found.kept]) + apart, np.concatenate([active for _, active in found.kept])

    def put(self, row_of: Callable[[Instruction], Row]) -> None:
        """Give the sums to the rows of the instructions."""
        for members, (requests, cost, ideal, worst) in zip(self._members.values(), self._out[:, [0, 1, 2, 4]].tolist(), strict=True):
            for n in members if requests else ():
                row = row_of(self.accesses[n].instruction)
                if self.accesses[n].space == "global":
                    row.global_requests += requests
                    row.sectors += cost
                    row.ideal_sectors += ideal
                else:
                    row.shared_requests += requests
                    row.wavefronts += cost
                    row.ideal_wavefronts += ideal
                    row.worst_degree = max(row.worst_degree, worst)
