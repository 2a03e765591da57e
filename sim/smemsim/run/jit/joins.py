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

    def follow(self, v: Vectors, place: int, i: Instruction | None) -> bool:
        """The text of lanes that come to a place, and that part there. Is the instruction a branch, and so done?"""
        if not self.sources:
            return False
        for at, places in self.sources:
            if at == place:
                for branch in places:
                    v.path = v.join(v.path, v.parted.pop(branch))
                if not v.parted:
                    v.path = None
        if i is None or place not in self.branches:
            return False
        part(v, place, i)
        return True


def part(v: Vectors, place: int, i: Instruction) -> None:
    """Lanes go elsewhere by a branch."""
    here = v.path or Value(splat("i1", 1), "i1")
    goes = here if i.guard is None else v.binary("and", v.read(i.guard, "pred"), here)
    v.parted[place] = goes
    v.path = v.binary("and", here, v.binary("xor", goes, v.number("i1", 1)))


NO_JOINS = Joins()
