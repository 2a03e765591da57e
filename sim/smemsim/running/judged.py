"""How much of a launch was judged, and what was not: matrix instructions and tensor maps, with the reasons."""

from __future__ import annotations

import dataclasses

from smemsim.gpu.launch import Launch
from smemsim.running.operand_reads import Reads
from smemsim.running.scenario_of import Written

__all__ = ["Judged", "judged_of"]

REGISTERS = ("mma", "wmma")  # whose operands are registers, of which nothing says what they were meant to be


@dataclasses.dataclass(frozen=True)
class Judged:
    """`instructions` of `of` matrix instructions that read shared memory were held against what TMA had brought, those of all CTAs; they are `distinct`
    products, each of which was judged once: the same descriptors, maps and coordinates but for where a CTA's tile lies. `maps` are tensor maps.

    `missed` has what was not judged: its reason, and how often that was so.

    >>> str(Judged(96, 96, 24, 4, 2, {}))
    'judged: 96 of 96 matrix instructions of 24 CTAs (4 distinct products), 2 tensor maps'
    >>> str(Judged(0, 8, 1, 0, 1, {"operands of 4 or 6 bits": 8}))
    'judged: 0 of 8 matrix instructions of 1 CTA, 1 tensor map; not judged: operands of 4 or 6 bits (8)'
    """

    instructions: int
    of: int
    ctas: int
    distinct: int
    maps: int
    missed: dict[str, int]

    def __str__(self) -> str:
        told = []
        if self.of:
            different = f" ({self.distinct} distinct product{'s' * (self.distinct != 1)})" if self.instructions and self.distinct else ""
            told.append(f"{self.instructions} of {self.of} matrix instructions of {self.ctas} CTA{'s' * (self.ctas != 1)}{different}")
        if self.maps:
            told.append(f"{self.maps} tensor map{'s' * (self.maps != 1)}")
        missed = ", ".join(f"{reason} ({count})" if count else reason for reason, count in self.missed.items())
        parts = (f"judged: {', '.join(told)}" if told else "", f"not judged: {missed}" if missed else "")
        return "; ".join(filter(None, parts))


def judged_of(launch: Launch, reads: Reads | None, written: Written | None, why_not: str) -> Judged:
    """What was judged of a launch; `why_not` is what check said of operands that it does not model."""
    if reads is None:
        return Judged(0, 0, 0, 0, 0, {"anything: it ran without the watch": 0})
    reads.finish()
    missed = dict(reads.missed)
    done = reads.instructions - sum(reads.missed_instructions.values())
    if why_not and done:
        missed["what check does not model"] = done
        done = 0
    if written is not None and written.left_out:
        missed["distinct products beyond the first ones"] = written.left_out
    if not launch.program.uses.isdisjoint(REGISTERS):
        missed["mma and wmma, whose operands are registers"] = 0
    maps = {(bytes(event.tensor_map)) for event in reads.maps.values()}
    return Judged(done, reads.instructions, len(reads.ctas), written.distinct if written is not None else 0, len(maps), missed)
