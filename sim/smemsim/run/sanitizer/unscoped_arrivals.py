"""Arrivals at mbarriers of other CTAs that have no scope (rule order.default_scope). By the PTX ISA their scope is
.cta. The sanitizer counts them for the cluster. It reports a remark if a CTA reads what threads of another one have
stored, and nothing but such an arrival orders the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.epoch_numbers import SCOPES
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import OPERATIONS, Operations
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.slots import Slot
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program
    from smemsim.run.sanitizer.shared_table import SharedTable
    from smemsim.run.views import Mbarrier, Wave

__all__ = ["UnscopedArrivals"]


_TOLD: Slot[set[str]] = Slot(lambda launch: set())  # the remark, once for a launch


class UnscopedArrivals:
    """The knowledge of a cluster's CTAs about others from other sources than arrivals without a scope:
    `VectorClocks.explicit`. A word that a thread of another CTA stored later is known by such an arrival alone.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, shared: SharedTable) -> None:
        self.x, self.clocks, self.operations, self.reporting, self.shared = x, clocks, operations, reporting, shared
        self.per_cta, self.looks_at_loads = x.stride // WARP, _reads_afar(x.program)
        clocks.explicit = np.zeros((len(x.ctas), len(clocks.clock)), clocks.seen.dtype)
        self._arrivals: dict[int, Instruction] = {}  # by the CTA of the threads: the last one at another CTA's mbarrier

    @staticmethod
    def may_matter(x: Wave) -> bool:
        """Has the launch such arrivals, and may its CTAs read what threads of others store in shared memory?"""
        program = x.program
        if x.launch.cluster_size == 1 or not program.has(_is_unscoped):
            return False
        return _reads_afar(program) or _multiplies_in_pairs(program)

    def arrives(self, i: Instruction, arrivals: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Threads arrive without a scope."""
        for threads, barrier in arrivals:
            cta = int(self.x.cta_of[threads[0]])
            if cta != barrier.cta.index:
                self._arrivals[cta] = i

    def read(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps, or operations of one, read words."""
        if not self._arrivals or _TOLD(self.x.launch):
            return
        who, when = self.shared.who[at], self.shared.when[at]
        stored = (who >= 0) & ~self.shared.strong[at]
        if not stored.any():
            return
        at, warps, who, when = (table[stored] for table in (at, np.broadcast_to(warps, at.shape), who, when))
        is_copy = who >= OPERATIONS
        for number in distinct(who[is_copy]).tolist():
            op, own = self.operations[number - OPERATIONS], who == number
            if op.kind == "cp.async":
                who[own], when[own] = op.warps[0], op.when
        ctas = warps // self.per_cta
        far = (who < OPERATIONS) & (who // self.per_cta != ctas)
        if not far.any():
            return
        at, warps, who, when, ctas = (table[far] for table in (at, warps, who, when, ctas))
        assert self.clocks.explicit is not None
        found = np.flatnonzero((self.clocks.explicit[ctas, who] < when) & (self.clocks.has_seen(warps, who) >= when))
        if found.size:
            self._tell(i, at[found], int(warps[found[0]]), int(who[found[0]]))

    def _tell(self, i: Instruction, places: np.ndarray, warp: int, other: int) -> None:
        arrival = self._arrivals.get(other // self.per_cta)
        if arrival is None:  # it was told of by a third CTA
            arrival = next(iter(self._arrivals.values()))
        _TOLD(self.x.launch).add(arrival.name)
        line = int(self.shared.line[places[0]])
        theirs = Access("write", f"warp {self.reporting.warp(other)}", self.reporting.at(line))
        why = (
            f"only {arrival.name} of {arrival.at} orders the two: by the PTX ISA an arrival without a scope releases to its own CTA (.cta), and ptxas compiles it so; "
            "libraries write this, and one program failed (CUTLASS issue 3324)"
        )
        self.reporting.find(
            i, places, races.unordered(self.reporting.access("read", warp, i.site), theirs, why=why), f".release.cluster in {arrival.at}",
            milder=Severity.NOTE, other=line,
        )  # fmt: skip


def _is_unscoped(i: Instruction) -> bool:
    """Is it an arrival that may be at an mbarrier of another CTA, and has no scope?"""
    words = {*i.modifiers}
    return i.op == "mbarrier" and i.modifiers[0] in ("arrive", "arrive_drop") and "shared::cluster" in words and words.isdisjoint(SCOPES)


def _reads_afar(program: Program) -> bool:
    """May threads load or store in the shared memory of another CTA?"""
    body = program.inlined.body
    is_generic = any(i.op == "mapa" and "shared::cluster" not in i.modifiers for i in body)
    return any(i.op in ("ld", "st") and ("shared::cluster" in i.modifiers or (is_generic and _is_generic(i))) for i in body)


def _is_generic(i: Instruction) -> bool:
    return {m.partition("::")[0] for m in i.modifiers}.isdisjoint(("const", "global", "local", "param", "shared"))


def _multiplies_in_pairs(program: Program) -> bool:
    """Do tensor cores read the shared memory of two CTAs, and do threads store there?"""
    body = program.inlined.body
    is_pair = any(i.op == "tcgen05" and i.modifiers[0] in ("cp", "mma") and "cta_group::2" in i.modifiers for i in body)
    return is_pair and any(
        i.op in ("st", "stmatrix") or (i.op == "cp" and i.modifiers[:1] == ("async",) and "bulk" not in i.modifiers) for i in body
    )
