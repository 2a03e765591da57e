"""Operands whose rows are the same rows of a tensor, in boxes that lie one box apart along k: frames of a signal, or
a coordinate that is advanced along k by mistake. All CTAs together decide which.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any

from smemsim.diagnosis.operands.cta_traces import CtaTrace
from smemsim.diagnosis.operands.places import FRAMES
from smemsim.diagnosis.operands.read import Product

__all__ = ["Frames"]


@dataclasses.dataclass(eq=False)
class _Of:
    """What all CTAs do with a tensor as one operand."""

    extent: int  # rows of the tensor
    rows: set[int] = dataclasses.field(default_factory=set)  # that such operands bring
    goes_on: bool = False  # Do the boxes keep their rows while k goes on?
    # Is there an operand of several other boxes, or one that begins in a later box?
    has_other: bool = False
    reads: int = 0  # such operands, each an instruction

    @property
    def are_frames(self) -> bool:
        return self.goes_on and not self.has_other and len(self.rows) == self.extent


class Frames:
    """The operands of a launch that may be frames, by side and tensor.

    They are frames if all of this holds. The boxes keep their rows for two K steps or more. Every row of the tensor is
    loaded for such an operand by some CTA: a coordinate that lacks its row leaves out rows. No operand begins in a
    later box, as the next K step of a tile with fewer rows does.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], _Of] = {}
        self._told: set[tuple[str, int]] = set()  # frames that have been taken out

    def note(self, trace: CtaTrace) -> None:
        """Note the operands of a CTA that has such ones."""
        # the first k of each row and accumulator
        steps: dict[tuple[str, int, int, Any], set[int]] = collections.defaultdict(set)
        firsts = {(id(noted.loads[0]), side) for step in trace.steps for side, noted in (("a", step.a), ("b", step.b)) if noted}
        for step in trace.steps:
            for side, noted in (("a", step.a), ("b", step.b)):
                if noted is None or len(noted.loads) < 2:
                    continue
                tm = noted.loads[0].transfer.tensor_map
                k, row = (0, 1) if noted.major == "K" else (1, 0)
                of = self._of.setdefault((side, tm.global_address), _Of(tm.global_dim[row]))
                if not noted.told.may_be_frames:
                    of.has_other = True
                    continue
                of.reads += 1
                _, *later = sorted(noted.loads, key=lambda load: load.event.coordinates)
                of.has_other |= any((id(load), side) in firsts for load in later)
                begin = noted.loads[0].event.coordinates
                of.rows.update(range(max(begin[row], 0), min(begin[row] + tm.box_dim[row], tm.global_dim[row])))
                steps[side, tm.global_address, begin[row], trace.accumulator(step.event)].add(begin[k])
        for (side, base, _, _), begins in steps.items():
            self._of[side, base].goes_on |= len(begins) > 1

    def merge(self, other: Frames) -> None:
        """Take what another process has noted."""
        for key, of in other._of.items():
            own = self._of.setdefault(key, _Of(of.extent))
            own.rows |= of.rows
            own.goes_on |= of.goes_on
            own.has_other |= of.has_other
            own.reads += of.reads

    def take_out(self, products: Iterable[Product]) -> tuple[str, dict[str, int]]:
        """Frames are no operands of these products any more. The reason, and how many operands of each side this is the
        first time true of.
        """
        found = {key for key, of in self._of.items() if of.are_frames}
        if found:
            for p in products:
                firsts = list(p.first)
                for n, side in enumerate("ab"):
                    for reads, own in ((getattr(p, side), slice(None)), (firsts, slice(n, n + 1))):
                        reads[own] = [None if read and read.may_be_frames and (side, read.base) in found else read for read in reads[own]]
                p.first = (firsts[0], firsts[1])
        new = collections.Counter[str]()
        for side, base in found - self._told:
            new[side] += self._of[side, base].reads
        self._told |= found
        return FRAMES, dict(new)
