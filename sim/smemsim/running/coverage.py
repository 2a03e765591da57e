"""Is all of a tile read that TMA brings for a matrix instruction, and as the type that its map has?"""

from __future__ import annotations

import numpy as np

from smemsim.gpu.events import Mma
from smemsim.gpu.launch import InstructionFinding
from smemsim.running.operand_reads import SURE, Issued, OperandRead, Reads

__all__ = ["unread"]

FLOATS = {"BFLOAT16": "bf16", "FLOAT16": "f16"}  # maps of these bring numbers that no other 16-bit type reads


def unread(reads: Reads) -> list[InstructionFinding]:
    """Rows of tiles that no instruction reads (I603 of tcgen05's N and M, R504 of wgmma), and operands of another type than their map (I603, R508)."""
    found: dict[str, InstructionFinding] = {}
    covered: dict[int, np.ndarray] = {}
    seen: dict[int, tuple[Issued, Mma, str]] = {}
    for p in reads.products:
        for side, dtype in (("a", p.events[0].a_type), ("b", p.events[0].b_type)):
            rows = (p.events[0].m if side == "a" else p.events[0].n) // p.events[0].cta_group
            for event, read in zip(p.events, getattr(p, side), strict=True):
                if read is None or read.share < SURE or read.loads[0].transfer.tensor_map.rank != 2:
                    continue
                _type(found, event, side, dtype, read)
                for load in read.loads:
                    first, count = _rows_of(load, read)
                    mine = covered.setdefault(load.number, np.zeros(count, bool))
                    mine[max(0, read.at[0] - first) : max(0, read.at[0] + rows - first)] = True
                    seen.setdefault(load.number, (load, event, side))
    if reads.complete:
        for number, mine in covered.items():
            if not mine.all():
                load, event, side = seen[number]
                found.setdefault("rows", _of_rows(load, event, side, mine))
                break
    return list(found.values())


def _rows_of(load: Issued, read: OperandRead) -> tuple[int, int]:
    """The first row of a tile, and how many it has, as the operand counts rows."""
    axis = 1 if read.k_stride < read.row_stride else 0
    return load.event.coordinates[axis], load.transfer.tensor_map.box_dim[axis]


def _of_rows(load: Issued, event: Mma, side: str, mine: np.ndarray) -> InstructionFinding:
    name, size = ("M", event.m) if side == "a" else ("N", event.n)
    where = "the instruction descriptor" if event.idesc is not None else "the instruction"
    first = int(np.flatnonzero(~mine)[0])
    return InstructionFinding(
        "I603" if event.idesc is not None else "R504",
        event.instruction,
        f"{where} has {name} = {size}: of the {len(mine)} rows of {side.upper()} that line {load.event.instruction.line} brings for it, nobody reads those "
        f"from {first} on ({int((~mine).sum())} rows)",
        f"{name} = {len(mine) * event.cta_group}, or a smaller box"
        if first == size // event.cta_group
        else "read the other rows too, or load a smaller box",
    )


def _type(found: dict[str, InstructionFinding], event: Mma, side: str, dtype: str, read: OperandRead) -> None:
    wanted = FLOATS.get(read.loads[0].transfer.tensor_map.data_type.name)
    if wanted is None or wanted == dtype:
        return
    line = read.loads[0].event.instruction.line
    found.setdefault(
        f"type {side}",
        InstructionFinding(
            "I603" if event.idesc is not None else "R508",
            event.instruction,
            f"operand {side.upper()} is read as {dtype}; the tensor map of the load at line {line} says {wanted}",
            f"{side}_type {wanted}" + (" in the instruction descriptor" if event.idesc is not None else ""),
        ),
    )
