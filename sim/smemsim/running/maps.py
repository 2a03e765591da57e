"""What a launch's tensor maps say, held against the arrays they point into, and tiles that lie outside of them."""

from __future__ import annotations

from collections.abc import Collection

from smemsim.descriptors.smem import SmemDescriptor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError
from smemsim.gpu.launch import InstructionFinding, Launch
from smemsim.machine.region import GlobalMemory
from smemsim.running.operand_reads import Reads
from smemsim.running.types import other_type
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["of_maps"]


def of_maps(reads: Reads, launch: Launch, told: Collection[int] = ()) -> list[InstructionFinding]:
    """All of them; each is a cause, and what else is found of the same tiles follows from it. Of the loads of the lines `told`, their coordinates are known
    to be wrong."""
    outside = (f for f in _outside(reads) if f.instruction.line not in told)
    return [*_misfits(reads, launch.memory), *_pitches(reads, launch.arch), *_widths(reads), *outside]


def _misfits(reads: Reads, memory: GlobalMemory) -> list[InstructionFinding]:
    """T207 for maps whose rows overlap, where the array behind has all the bytes of rows one behind the other: for a stride that is the number of a
    row's elements that many at least, for others just as many (the windows of a longer row are fewer bytes apart than there are in the array)."""
    found = []
    for event in reads.maps.values():
        tm = event.tensor_map
        size = tm.type_row.bits // 8
        if tm.call != "tiled" or tm.rank < 2 or tm.interleave or not size:
            continue
        stride, row, rows = tm.global_strides[0], tm.global_dim[0] * size, tm.global_dim[1]
        room = _room(memory, tm)
        is_elements = size > 1 and stride == tm.global_dim[0] and room >= rows * row
        if stride >= row or not (is_elements or (tm.rank == 2 and rows > 1 and room == rows * row)):
            continue
        what = f"is the number of elements of dimension 0, of {size} B each" if is_elements else f"is less than the {row} B of dimension 0"
        found.append(
            InstructionFinding(
                "T207",
                event.instruction,
                f"global_strides[0] = {stride} B {what}: row 1 begins in the middle of row 0, and the array behind the map holds {rows} rows of {row} B",
                f"strides are bytes: global_strides[0] = {row}",
            )
        )
    return found


def _room(memory: GlobalMemory, tm: TensorMap) -> int:
    """Bytes of the array behind a map, from its address on."""
    try:
        begin, held = memory.region(tm.global_address)
    except InputError:
        return 0
    return begin + len(held) - tm.global_address


def _outside(reads: Reads) -> list[InstructionFinding]:
    """T209 for loads past the last k of one operand's tensor, where the other operand's tile is still inside of its own."""
    found: dict[int, InstructionFinding] = {}
    for side, load, axis in reads.outside.values():
        i, tm = load.event.instruction, load.transfer.tensor_map
        at, extent = load.event.coordinates[axis], tm.global_dim[axis]
        other = "B" if side == "a" else "A"
        found.setdefault(
            i.line,
            InstructionFinding(
                "T209",
                i,
                f"the tile of {side.upper()} at coordinates {list(load.event.coordinates)} is nothing but out-of-bounds fill: coordinate {at} of dimension "
                f"{axis} is outside of the map's extent {extent}, and the tile of {other} that it is multiplied with lies inside of its tensor",
                f"coordinates and global_dim count elements, dimension 0 first: check coordinate {axis} of the load, and global_dim = {list(tm.global_dim)}",
            ),
        )
    return list(found.values())


def _pitches(reads: Reads, arch: str) -> list[InstructionFinding]:
    """R501 for boxes without swizzle whose rows are wider than those of the swizzled descriptor that reads them."""
    found: dict[int, InstructionFinding] = {}
    for p in reads.products:
        for side, read in (("a", p.a[0]), ("b", p.b[0])):
            if read is None:
                continue
            load, tm = read.loads[0], read.loads[0].transfer.tensor_map
            swizzle = SmemDescriptor.decode(read.word, arch=arch).swizzle
            row, span = tm.box_dim[0] * tm.type_row.bits // 8, MODES[swizzle].width if swizzle in MODES else 0
            if tm.swizzle.name != "SWIZZLE_NONE" or swizzle == Swizzle.NONE or not 0 < span < row or tm.rank != 2:
                continue
            right = span * 8 // tm.type_row.bits
            turned = tm.box_dim[1] == right
            found.setdefault(
                load.event.instruction.line,
                InstructionFinding(
                    "R501",
                    load.event.instruction,
                    f"the map's box_dim = {list(tm.box_dim)} without swizzle lays down rows of {row} B; operand {side.upper()} of line "
                    f"{p.events[0].instruction.line} is read in rows of {span} B with swizzle {swizzle}",
                    f"box_dim = [{right}, {tm.box_dim[0] if turned else tm.box_dim[1]}] (dimension 0, the contiguous one, first) and swizzle = {swizzle}",
                ),
            )
    return list(found.values())


def _widths(reads: Reads) -> list[InstructionFinding]:
    """I603 or T211 for operands that are read as elements of another width than those that their map has."""
    found: dict[str, InstructionFinding] = {}
    for side, load, event in reads.widths.values():
        if (other := other_type(event, side, load)) is not None:
            found.setdefault(side, other)
    return list(found.values())
