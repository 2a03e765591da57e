"""Branches forward whose lanes meet again a few instructions later: in compiled code all lanes execute, and lanes that
have branched change nothing.
"""

from __future__ import annotations

import dataclasses

from smemsim.core.ptx.module import Instruction
from smemsim.run.jit.vectors import Value, Vectors, splat

__all__ = ["NO_JOINS", "Joins"]


@dataclasses.dataclass(frozen=True)
class Joins:
    """The joins of a run of instructions, by place: the places of the branches that go to an instruction. The text
    (`Vectors`) has the lanes that branch.
    """

    sources: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def branches(self) -> frozenset[int]:
        """The places of all branches."""
        return frozenset(place for _, places in self.sources for place in places)

    def arrive(self, v: Vectors, place: int) -> None:
        """The text of lanes that come to a place, if there are any."""
        for at, places in self.sources:
            if at == place:
                for branch in (one for one in places if one in v.parted):
                    v.path = v.join(v.path, v.parted.pop(branch))
                if not v.parted:
                    v.path = None

    def follow(self, v: Vectors, place: int, i: Instruction | None) -> bool:
        """The text of lanes that come to a place, and that part there. Is the instruction a branch, and so done?"""
        if not self.sources:
            return False
        self.arrive(v, place)
        if i is None or place not in self.branches:
            return False
        part(v, place, i)
        return True


def part(v: Vectors, place: int, i: Instruction) -> None:
    """Lanes go elsewhere by a branch."""
    here = goes = v.path or Value(splat("i1", 1), "i1")
    if i.guard is not None:
        own = v.read(i.guard, "pred")
        if v.counts is not None:
            v.counts.leaves_out(v, i, own)
        goes = v.binary("and", own, here)
    v.parted[place] = goes
    v.path = v.binary("and", here, v.binary("xor", goes, v.number("i1", 1)))


NO_JOINS = Joins()
