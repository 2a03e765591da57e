"""What the operand check of a launch covered: matrix instructions and tensor maps; and what it did not."""

from __future__ import annotations

import dataclasses

from smemsim.diagnosis.covered import IN_REGISTERS, MORE_KINDS, not_checked, operands_checked
from smemsim.diagnosis.operands.places import RECOGNISED
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.operands.steps import has_gaps
from smemsim.diagnosis.operands.sums import undecided
from smemsim.diagnosis.run_to_scenario import Written
from smemsim.run.engine.launch import Launch
from smemsim.run.followed import MOST_PRODUCTS

__all__ = ["NOTHING_TAKEN", "OF_ALL", "Judged", "judged_of"]


OF_ALL = "whether all of K is multiplied and every box is inside its tensor: only a launch whose CTAs all end shows this"
NOTHING_TAKEN = "work that a CTA takes over: all CTAs fit on the card at once, so clusterlaunchcontrol.try_cancel got none (--cancel always grants all requests)"
CUT = f"the sources of A and B after the first {MOST_PRODUCTS:,} mma.sync of a launch (each warp counts)"
SAME = "the sources of A and B of mma.sync once more: an earlier launch has the same grid and arguments, and no finding there"
REGISTERS = ("mma", "wmma")  # operands in registers, without a known intended tile


@dataclasses.dataclass(frozen=True)
class Judged:
    """The scope of the operand check of a launch.

    Operands of matrix instructions in shared memory, of all CTAs, are `a` and `b`, each as (checked, all). An operand
    is checked if its tile is known: from a tensor map, or because its elements were recognised in global memory.

    There are `of` matrix instructions. Only operands from tensor loads are in `instructions` of them. They form
    products of tiles (a tile of A times one of B, in K steps) of `distinct` kinds. Each kind is checked once. Products
    of a kind have the same instructions, descriptors, maps and coordinates, except for the place of the tile.

    The number of tensor maps is `maps`. Block-scaled instructions are `scales`: (scale factors followed from global
    memory, all). Reasons why something was not checked are in `missed`, with their counts.

    >>> print(Judged(96, 96, 24, 4, 2, {}, (96, 96), (96, 96)))
    checked: operand layouts: A and B in all 96 matrix instructions (24 CTAs); 2 tensor maps
    >>> print(Judged(0, 8, 1, 0, 1, {"operands of 4 or 6 bits": 8}, (0, 0), (0, 8)))
    checked: 1 tensor map
    not checked: operands of 4 or 6 bits (8 instructions)
    """

    instructions: int
    of: int
    ctas: int
    distinct: int
    maps: int
    missed: dict[str, int]
    a: tuple[int, int] = (0, 0)
    b: tuple[int, int] = (0, 0)
    scales: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The lists of what was checked and what was not, a line each."""
        said = []
        if (self.a[0] or self.b[0]) and (sides := operands_checked(self.a, self.b)):
            said.append(f"operand layouts: {sides} ({self.ctas:,} CTA{'s' * (self.ctas != 1)})")
        if self.scales[1]:
            said.append(f"scale factors of {self.scales[0]:,} of {self.scales[1]:,} instructions")
        if self.maps:
            said.append(f"{self.maps} tensor map{'s' * (self.maps != 1)}")
        return [*([f"checked: {'; '.join(said)}"] if said else []), *not_checked(self.missed)]


def judged_of(launch: Launch, reads: Reads | None, written: Written | None, why_not: str) -> Judged:
    """The coverage of the operand check of a launch. `why_not` is the reason if the check does not model it."""
    if reads is None:
        return Judged(0, 0, 0, 0, 0, {"anything: it ran without the sanitizer": 0})
    reads.finish()
    missed = (
        {reason: count for reason, count in reads.missed.items() if reason != RECOGNISED}
        | reads.factors.missed
        | reads.factors.missed_metadata
        | reads.factors.missed_registers
        | reads.fragments.missed
        | reads.fragments.missed_registers
    )
    done = reads.instructions - sum(reads.missed_instructions.values())
    a, b = ((0 if why_not else reads.sides_checked[side], reads.sides[side]) for side in "ab")
    if why_not and done:
        missed["operands of a launch that smemsim check does not model"] = done
        done = 0
    if written is not None and written.left_out:
        missed[MORE_KINDS] = written.left_out
    is_decided = reads.threads.is_decided and reads.warps.is_decided
    if (done and undecided(reads)) or (not why_not and not is_decided):
        missed["whether A and B have the same k and rows throughout each sum"] = 0
    if reads.sides["a"] < reads.sides["b"]:
        missed["whether A and B have the same k where A is in registers or tensor memory"] = reads.sides["b"] - reads.sides["a"]
    if done and has_gaps(reads, launch.memory):
        missed["whether the k that a sum leaves out between others are meant"] = 0
    if not launch.program.uses.isdisjoint(REGISTERS):
        missed[IN_REGISTERS] = 0
    missed |= dict.fromkeys((reason for reason, is_so in ((CUT, reads.warps.was_cut), (SAME, reads.warps.was_again)) if is_so), 0)
    maps = {(bytes(event.tensor_map)) for event in reads.maps.values()}
    scales = tuple(
        sum(n)
        for n in zip(*((x.instructions - sum(x.missed.values()), x.instructions) for x in (reads.factors, reads.fragments)), strict=True)
    )
    distinct = written.distinct if written is not None else 0
    return Judged(done, reads.instructions, len(reads.ctas), distinct, len(maps), missed, a, b, scales)
