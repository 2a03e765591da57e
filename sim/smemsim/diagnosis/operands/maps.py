"""A launch's tensor maps, compared with the arrays they point into, and tiles that lie outside of them."""

from __future__ import annotations

import math
from collections.abc import Collection

from smemsim.base.errors import InputError
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.operands.types import other_type
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.map_names import described
from smemsim.run.engine.traps import region_name

__all__ = ["of_maps"]


def of_maps(reads: Reads, launch: Launch, known_wrong: Collection[int] = ()) -> list[Finding]:
    """The findings about tensor maps. Each is a cause: other findings of the same tiles follow from it.

    `known_wrong` are lines of loads with coordinates that are already known to be wrong.
    """
    outside = (f for f in _outside(reads, launch) if f.line not in known_wrong)
    return [*_misfits(reads, launch), *_pitches(reads, launch.arch), *_widths(reads), *_pixels(reads, launch.arch), *outside]


def _misfits(reads: Reads, launch: Launch) -> list[Finding]:
    """T207 for maps whose rows overlap although the array has enough bytes for dense rows.

    If the stride equals the number of a row's elements, the array must have at least that many bytes. With another
    stride it must have exactly as many. Windows of a longer row need fewer bytes than the array has.
    """
    findings = []
    for event in reads.maps.values():
        tm = event.tensor_map
        size = tm.type_row.bits // 8
        if tm.call != "tiled" or tm.rank < 2 or tm.interleave or not size:
            continue
        stride, row, rows = tm.global_strides[0], tm.global_dim[0] * size, tm.global_dim[1]
        room = _room(launch.memory, tm)
        all_rows = math.prod(n for n, step in zip(tm.global_dim[1:], tm.global_strides, strict=True) if step)
        is_elements = size > 1 and stride == tm.global_dim[0] and room >= all_rows * row
        if stride >= row or not (is_elements or (tm.rank == 2 and rows > 1 and room == rows * row)):
            continue
        made, begins = (
            described(launch, event.map_address, tm),
            f"row 1 begins in the middle of row 0; {_behind(launch, tm)} holds {rows} rows of",
        )
        if made is not None:
            k, wide = tm.rank - 2, tm.global_dim[0]
            message, why = f"strides[{k}] of {made} is {made.strides[k]} elements", f"{begins} {wide} elements"
            repair = f"strides[{k}] = {wide} (elements, not bytes)"
            if tm.rank == 2 and room % stride == 0 and not is_elements:
                repair += f", or shape = [{room // stride}, {stride // size}] where rows have {stride // size}"
            findings.append(at_instruction("T207", event.instruction, message, repair, arrays=(tm.global_address,), why=why))
            continue
        what = f"is the number of elements of dimension 0 ({size} B each)" if is_elements else f"is less than the {row} B of dimension 0"
        findings.append(
            at_instruction(
                "T207",
                event.instruction,
                f"global_strides[0] = {stride} B {what}",
                f"global_strides[0] = {row} (bytes)",
                arrays=(tm.global_address,),
                why=f"{begins} {row} B",
            )
        )
    return findings


def _behind(launch: Launch, tm: TensorMap) -> str:
    """The array of a map, by its name if it has one."""
    begin, held = launch.memory.region(tm.global_address)
    return f"{region_name(launch, begin, begin + len(held))}, the array of the map,"


def _room(memory: GlobalMemory, tm: TensorMap) -> int:
    """The bytes of a map's array from its address on."""
    try:
        begin, held = memory.region(tm.global_address)
    except InputError:
        return 0
    return begin + len(held) - tm.global_address


def _outside(reads: Reads, launch: Launch) -> list[Finding]:
    """T209 for loads past the last k of one operand's tensor while the tile of the other operand is still inside its
    own.
    """
    findings: dict[int, Finding] = {}
    for side, load, axis in reads.outside.values():
        i, tm = load.event.instruction, load.transfer.tensor_map
        at, extent = load.event.coordinates[axis], tm.global_dim[axis]
        other, coordinates = "B" if side == "a" else "A", list(load.event.coordinates)
        end = f"the tile of {other} that it is multiplied with is inside its tensor"
        made = described(launch, load.event.map_address, tm)
        if made is not None:
            k = tm.rank - 1 - axis
            message = f"the block of {side.upper()} at {coordinates[::-1]} is all out-of-bounds fill"
            why = (
                f"index {at} of dimension {k} is outside shape {list(made.shape)} of {made} (strides {list(made.strides)} elements); {end}"
            )
            repair = f"check index {k} of the load, and shape[{k}] = {made.shape[k]}"
        else:
            message = f"the tile of {side.upper()} at coordinates {coordinates} is all out-of-bounds fill"
            why = f"coordinate {at} of dimension {axis} is outside the extent {extent} of the map; {end}"
            repair = f"check the coordinate of dimension {axis} in the load, and global_dim = {list(tm.global_dim)}; both count elements, dimension 0 first"
        findings.setdefault(i.line, at_instruction("T209", i, message, repair, arrays=(tm.global_address,), why=why))
    return list(findings.values())


def _pitches(reads: Reads, arch: str) -> list[Finding]:
    """R501 for boxes without swizzle whose rows are wider than those of the swizzled descriptor that reads them."""
    findings: dict[int, Finding] = {}
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
            other = tm.box_dim[0] if tm.box_dim[1] == right else tm.box_dim[1]
            boxes, rest = divmod(tm.box_dim[0] * tm.box_dim[1], right * other)
            more = f"; {boxes} transfers in place of 1, {right} elements and {span * other} B of shared memory apart" * (
                boxes > 1 and not rest
            )
            findings.setdefault(
                load.event.instruction.line,
                at_instruction(
                    "R501",
                    load.event.instruction,
                    f"the map writes rows of {row} B without swizzle; operand {side.upper()} of {p.events[0].instruction.at} is read in rows of {span} B "
                    f"with swizzle {swizzle}",
                    f"box_dim = [{right}, {other}] (dimension 0, the contiguous one, first) and swizzle = {swizzle}{more}",
                    why=f"a descriptor with swizzle {swizzle} needs rows of {span} B that TMA writes with swizzle {swizzle}",
                ),
            )
    return list(findings.values())


def _widths(reads: Reads) -> list[Finding]:
    """I603 or T211 for operands that are read as elements of another width than those that their map has."""
    findings: dict[str, Finding] = {}
    for side, load, event in reads.widths.values():
        if (other := other_type(event, side, load)) is not None:
            findings.setdefault(side, other)
    return list(findings.values())


def _pixels(reads: Reads, arch: str) -> list[Finding]:
    """R501 for operands of im2col loads that are read with another swizzle than their map has, so that a row is no
    pixel.
    """
    findings: dict[int, Finding] = {}
    for side, load, event, word in reads.pixels.values():
        swizzle, tm = SmemDescriptor.decode(word, arch=arch).swizzle, load.transfer.tensor_map
        has = load.transfer.geometry.swizzle.swizzle
        if swizzle == has:
            continue
        i = load.event.instruction
        findings.setdefault(
            i.line,
            at_instruction(
                "R501",
                i,
                f"the im2col map writes pixels with {tm.swizzle.name}; operand {side.upper()} of {event.instruction.at} is read with swizzle {swizzle}",
                f"swizzle = {swizzle} in the map, or the map's swizzle in the descriptor",
                why="so a row of the operand has channels of several pixels, or channels in another order",
            ),
        )
    return list(findings.values())
