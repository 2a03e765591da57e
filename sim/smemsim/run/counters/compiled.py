"""The cost of loads and stores of compiled code. It is counted for all threads at once, and once for accesses that cost
the same.
"""

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
from smemsim.run.tallies import STEP_OF

if TYPE_CHECKING:
    from smemsim.run.tallies import CompiledAccesses, OneAccess, Placed

__all__ = ["MOST_WARPS", "CompiledCosts"]

MOST_PLANS = 1024
_PLANS: dict[int, Plan] = {}  # by the identity of their accesses
MOST_WARPS, MOST_LOOKED = 128, 512  # accesses of warps that are kept for each instruction, of the first so many warps
_NONE = np.zeros(0, np.int64)
_DISTANCES = np.array(PAIRED, np.int64)
_SECTOR = SECTOR.bit_length() - 1


class Samples:
    """The accesses of the first warps that execute one access. All accesses of its row are so far apart."""

    def __init__(self, lead: int) -> None:
        self.lead = lead
        self._kept: list[OneAccess] = []
        self._room = MOST_LOOKED * LANES

    def add(self, ran: CompiledAccesses) -> bool:
        """Keep the places of some more threads. Are there still too few?"""
        self._kept.append(ran.kept(self.lead, self._room))
        self._room -= ran.last - ran.first
        return self._room > 0

    def warps(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of the first warps, and their active lanes."""
        rows, actives = [np.zeros((0, LANES), np.int64)], [np.zeros(0, np.int64)]
        for one in self._kept:
            threads, at = one.threads()
            if len(threads):
                some, active = by_warp(threads, at)
                rows.append(some)
                actives.append(active)
        return np.concatenate(rows)[:MOST_WARPS], np.concatenate(actives)[:MOST_WARPS]


class Plan:
    """The data about accesses of one piece of compiled code that is the same in each launch."""

    def __init__(self, accesses: Sequence[Placed]) -> None:
        self.accesses = accesses
        self.sampled: dict[int, int] = {}  # by the row in shared memory: its first access
        members: dict[tuple[int, ...], list[int]] = {}
        for n, access in enumerate(accesses):
            members.setdefault(self._key(access), []).append(n)
            if access.space == "shared":
                self.sampled.setdefault(access.row, n)
        self.members = tuple(members.values())  # that cost the same
        self.leads = np.array([own[0] for own in self.members], np.int64)
        self.groups = np.array([self._numbers(accesses[n]) for n in self.leads.tolist()], np.int64)
        self.count: Callable[..., None] | None = None  # the machine code of `count_accesses` for arrays of these types

    @classmethod
    def of(cls, accesses: Sequence[Placed]) -> Plan:
        """The plan of a sequence, which is the same object for all launches of a program."""
        found = _PLANS.get(id(accesses))
        if found is None or found.accesses is not accesses:
            if len(_PLANS) >= MOST_PLANS:
                _PLANS.clear()
            found = _PLANS[id(accesses)] = cls(accesses)
        return found

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


class CompiledCosts:
    """The sums for the accesses of one piece of compiled code, and samples of those of shared memory. `work`
    (WORK, 32) is work space.
    """

    def __init__(self, accesses: Sequence[Placed], work: np.ndarray) -> None:
        self.plan, self._work = Plan.of(accesses), work
        self._samples = {row: Samples(n) for row, n in self.plan.sampled.items()}
        self._wanted = list(self._samples.values())
        self._out = np.zeros((len(self.plan.leads), 5), np.int64)
        self._begins = self._begun = _NONE  # of the accesses that were counted last, and of those that lead

    def add(self, ran: CompiledAccesses) -> None:
        """Count the accesses once more."""
        plan = self.plan
        if self._wanted:
            self._wanted = [samples for samples in self._wanted if samples.add(ran)]
        if ran.begins is not self._begins:
            self._begins, self._begun = ran.begins, ran.begins[plan.leads]
        given = (
            ran.leads, ran.step, ran.places, ran.shapes, STEP_OF, ran.first, ran.last, ran.nowhere,
            plan.groups, self._begun, _DISTANCES, self._out, self._work,
        )  # fmt: skip
        if plan.count is None:
            plan.count = count_accesses.code(given)
        plan.count(*given)

    def samples(self) -> Iterator[tuple[Placed, np.ndarray, np.ndarray]]:
        """For each access of shared memory, the places of some warps in the wave's shared memory, and their lanes."""
        for access in self.plan.accesses:
            found = self._samples.get(access.row) if access.space == "shared" else None
            if found is None:
                continue
            at, active = found.warps()
            if len(at):
                yield access, at + (access.apart - self.plan.accesses[found.lead].apart), active

    def put(self, row_of: Callable[[Instruction], Row]) -> None:
        """Give the sums to the rows of the instructions."""
        for members, (requests, cost, ideal, _, worst) in zip(self.plan.members, self._out.tolist(), strict=True):
            for n in members if requests else ():
                row = row_of(self.plan.accesses[n].instruction)
                if self.plan.accesses[n].space == "global":
                    row.global_requests += requests
                    row.sectors += cost
                    row.ideal_sectors += ideal
                else:
                    row.shared_requests += requests
                    row.wavefronts += cost
                    row.ideal_wavefronts += ideal
                    row.worst_degree = max(row.worst_degree, worst)
