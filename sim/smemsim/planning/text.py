"""A plan for people, in plain lines of at most 100 columns, and for programs."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from smemsim.core.layout.cute import CuteLayout
from smemsim.core.machine.product import shared_grade
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.planning.arrangement import Field
from smemsim.planning.code import encode_arguments
from smemsim.planning.planned import Planned
from smemsim.planning.transfers import Loads

__all__ = ["choices_text", "plan_dict", "plan_text"]


WIDTH = 100
MOST_ROWS = 16  # of a table; JSON has all


_GRADES = {
    "measured": "measured on an H200",
    "witnessed": "witnessed. Programs that are right on such a card give right results with these rules. If the hardware followed another reading of the documents, at least one of these programs would fail",
    "documented": "documented",
    "compiled": "compiled. Shipping compilers and kernels rely on these rules",
    "inferred": "inferred from documented ones",
}


def plan_text(plan: Planned) -> str:
    """All of a plan."""
    sections = (_head, _atom, _transfers, _memory, _strides, _descriptors, _instruction, _layouts, _notes)
    lines: list[str] = []
    for section in sections:
        lines += [*(part for line in section(plan) for part in _fitted(line)), ""]
    return "\n".join(lines[:-1])


def _fitted(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return [line] if len(line) <= WIDTH else _wrapped(line.strip(), indent)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _grade(plan: Planned) -> str:
    tile, wish = plan.arrangement, plan.wish
    return str(shared_grade(tile.descriptor(), wish.machine.name, wish.fmt.name, wish.major, tile.instruction.k, tile.instruction.packing))


def _tma_grade(plan: Planned) -> str:
    blackwell = plan.matrix.data_type.bits < 8 or not plan.matrix.data_type.sm90 or plan.wish.swizzle is Swizzle.B128_ATOM_32B
    return str(RULES["tma.blackwell" if blackwell else "tma.placement"].on(plan.wish.machine.name))


def _head(plan: Planned) -> Iterator[str]:
    tile, grade = plan.arrangement, _grade(plan)
    of = tile.instruction
    yield plan.title
    yield f"  read by {of.name}"
    share = " of the pair; this CTA has half the rows" if plan.wish.cta_group == 2 else ""
    yield f"  M = {of.m}, N = {of.n}{share}, K = {of.k}: {tile.blocks} block{'s' * (tile.blocks > 1)} of {of.rows} rows x {tile.steps} K steps"
    told = _GRADES[grade]
    where = "" if grade == "measured" else f". Nothing of {plan.wish.machine.name} is measured"
    yield f"  evidence for the operand's addresses: {told}{where}"
    if _tma_grade(plan) != grade:
        yield f"  evidence for where TMA writes: {_GRADES[_tma_grade(plan)]}"


def _atom(plan: Planned) -> Iterator[str]:
    tile, wish = plan.arrangement, plan.wish
    rows = wish.axis.upper()
    along, across = (rows, "K") if wish.major == "K" else ("K", rows)
    width = wish.mode.width
    extent = f"{tile.atom_lines} x {tile.inner}" if wish.major == "K" else f"{tile.inner} x {tile.atom_lines}"
    yield "Swizzle atom"
    yield f"  {tile.atom_lines} rows along {along}, {width} B of {across} in each ({rows} x K = {extent} elements): {tile.atom_bytes} B without gaps"
    strided, contiguous = tile.grid
    first = along if wish.stack == "strided" else across
    yield f"  grid: {strided} along {along}, {contiguous} along {across}; stacked along {first} first"
    ways = ((along, strided, tile.strided_bytes), (across, contiguous, tile.contiguous_bytes))
    steps = "; ".join(f"along {axis}: +{size} B" for axis, count, size in ways if count > 1)
    yield f"  next atom {steps}" if steps else "  the tile is one atom"


def _transfers(plan: Planned) -> Iterator[str]:
    count = len(plan.loop.issues)
    yield f"TMA: {count} box{'es' if count > 1 else ''} of rank 2 a stage, {plan.loop.bytes:,} B on the mbarrier"
    yield from _call(plan.loop)
    yield "    issue  shared offset  coordinates (dimension 0 first)"
    for number, (offset, at) in enumerate(plan.loop.issues[:MOST_ROWS]):
        yield f"    {number:5}  {offset:13}  {{{', '.join(map(str, at))}}}"
    if count > MOST_ROWS:
        yield f"    ... {count - MOST_ROWS} more (--json has all)"
    if plan.box is None:
        yield from _wrapped(f"one box: none. {plan.why_no_box}")
    elif plan.box is not plan.loop:
        yield f"  or ONE box of rank {plan.box.rank}, the same bytes at the same places, {plan.box.bytes:,} B"
        yield from _call(plan.box)
        yield f"    coordinates     {{{', '.join(map(str, plan.box.issues[0][1]))}}}"
    if plan.wish.matrix is None:
        yield f"  globalDim and globalStrides describe an example matrix of {plan.matrix.rows} x {plan.matrix.k}; --matrix takes yours"


def _call(loads: Loads) -> Iterator[str]:
    yield "  cuTensorMapEncodeTiled(&tensorMap,"
    for name, value in encode_arguments(loads):
        yield f"    {name:<15} {value}"


def _memory(plan: Planned) -> Iterator[str]:
    wish = plan.wish
    stages = f" x {wish.stages} stages = {plan.shared_bytes:,} B" if wish.stages > 1 else ""
    data = wish.rows * wish.k * wish.fmt.bits // 8
    gaps = f" ({plan.tile_bytes - data:,} B of them gaps of the padded type)" if plan.tile_bytes != data else ""
    yield "Shared memory"
    yield f"  {plan.tile_bytes:,} B a stage{gaps}{stages}, planned at {wish.base_address:#x} (--base takes another address)"
    yield f"  align it to {LIMITS.smem_alignment} B at least: TMA and the MMA compute the swizzle from the address"
    if wish.mode.mask:
        period = wish.mode.period
        phase = f"; {wish.base_address:#x} is {wish.base_address % period} past one" if wish.base_address % period else ""
        yield from _wrapped(
            f"align it to {period} B, the period of the swizzle, if your code computes the swizzle from an offset in the tile{phase}"
        )
    c = plan.conflicts
    yield "  how often an access passes through the 32 banks, by its addresses (1: no bank conflict)"
    for passes, access in (
        (c.mma, "the MMA reads 8 rows x 16 B"),
        (c.column, "ldmatrix reads 8 rows"),
        (c.line, "threads read 8 chunks of one row"),
    ):
        yield f"    {passes}  {access}"


def _strides(plan: Planned) -> Iterator[str]:
    yield "Descriptor strides"
    for field in (plan.lbo, plan.sbo):
        yield f"  {_field(field)}"
    for field in (plan.lbo, plan.sbo):
        if field.places:
            shown = " -> ".join(f"(row {r}, k {k}) at {a:#x}" for r, k, a in field.places)
            yield f"    {field.name}: {shown}"


def _field(field: Field) -> str:
    return f"{field.name} = {field.bytes} B, encoded {field.encoded} ({field.encoded:#x}): {field.walks}"


def _descriptors(plan: Planned) -> Iterator[str]:
    tile, advances = plan.arrangement, plan.advances
    blocks, steps = advances.shape
    uniform = "uniform" if plan.is_uniform else "not uniform"
    yield f"Descriptors (stage 0); K steps are {uniform}"
    yield "  + bytes: how far after step 0 this step starts; + 16 B: the same in units of 16 B"
    yield "  atom: does the step start in the swizzle atom of the step before (same), or in the next one"
    yield "  block  step  + bytes  + 16 B  word                atom"
    rows = [(block, step) for block in range(blocks) for step in range(steps)]
    for block, step in rows[: 2 * MOST_ROWS]:
        by = int(advances[block, step])
        yield f"  {block:5}  {step:4}  {by:7}  {by // CHUNK:6}  {tile.descriptor(block, step).encode():#018x}  {_atom_of(plan, block, step)}"
    if len(rows) > 2 * MOST_ROWS:
        yield f"  ... {len(rows) - 2 * MOST_ROWS} more (--json has all)"
    if plan.wish.stages > 1:
        yield f"  a further stage: + {plan.tile_bytes} B, + {plan.tile_bytes // CHUNK} in the word"


def _atom_of(plan: Planned, block: int, step: int) -> str:
    """Does the instruction begin in the atom of the one before?"""
    if not step:
        return "first"
    size = plan.arrangement.atom_bytes
    here, before = (int(plan.advances[block, s]) // size for s in (step, step - 1))
    return "same" if here == before else "next"


def _instruction(plan: Planned) -> Iterator[str]:
    idesc = plan.instruction_descriptor
    yield "Instruction"
    yield f"  {plan.arrangement.instruction.name}"
    if idesc is None:
        major = {"K": 0, "MN": 1}[plan.wish.major]
        yield f"  wgmma has no instruction descriptor; imm-trans-{plan.wish.side} = {major} (16-bit types only)"
    else:
        yield f"  instruction descriptor {idesc.encode():#010x} (for this {plan.wish.side.upper()} and {plan.wish.other_major}-major {'B' if plan.wish.side == 'a' else 'A'})"
        yield from _wrapped(repr(idesc))


def _layouts(plan: Planned) -> Iterator[str]:
    c, (symbolic, numeric) = plan.cute, plan.canonical
    bits = plan.arrangement.element_bits
    yield "Layouts (M or N, K)"
    yield from _pair("canonical", f"{symbolic}  (T = {plan.arrangement.per_chunk})")
    yield from _pair("one operand", numeric)
    yield from _pair("tile", f"{c.tile}")
    yield f"    tile_to_shape({plan.arrangement.atom}, ({plan.wish.rows},{plan.wish.k}), order=({c.order[0]},{c.order[1]}))"
    yield from _pair("partitioned", _linear(c.partitioned))
    yield f"    zipped_divide(tile, ({c.subtile[0]},{c.subtile[1]})) = ((operand), (blocks, K steps))"
    yield from _pair("in uint128", _linear(c.units))
    yield f"    recast from {bits} to 128 bits"
    yield from _pair("by 8 rows", _linear(c.canonical))
    yield f"    logical_divide(operand, ({c.unit[0]},{c.unit[1]})): strides of 16 B, LBO {_units(c.lbo)}, SBO {_units(c.sbo)}"
    yield from _pair("descriptors", _linear(c.descriptors) + "  added to the word of block 0, step 0")


def _linear(layout: CuteLayout) -> str:
    """A layout without its XOR, which is taken of addresses: divided and recast layouts count offsets."""
    return f"{layout}".rpartition(" o ")[2]


def _units(value: int | None) -> str:
    return "none (one unit only)" if value is None else str(value // CHUNK)


def _pair(name: str, text: str) -> list[str]:
    return [f"  {name:<12} {text}"] if len(text) < WIDTH - 15 else [f"  {name}", *_wrapped(text, "    ")]


def _notes(plan: Planned) -> Iterator[str]:
    forms = (
        "with the loop of boxes, and with the one box" if plan.box is not None and plan.box is not plan.loop else "with the loop of boxes"
    )
    stages = " of the first and the last stage" if plan.wish.stages > 1 else ""
    for note in plan.notes:
        yield f"Note: {note}"
    yield f"Simulated {forms}: each element that an instruction{stages} reads is the right element of the tile (smemsim check)."


def plan_dict(plan: Planned) -> dict[str, Any]:
    """All of a plan as JSON has it; sizes, offsets and addresses are bytes."""
    tile, wish = plan.arrangement, plan.wish
    idesc = plan.instruction_descriptor

    def loads(transfers: Loads | None) -> dict[str, Any] | None:
        if transfers is None:
            return None
        issues = [{"offset": offset, "coordinates": list(at)} for offset, at in transfers.issues]
        return {
            "rank": transfers.rank,
            "arguments": transfers.arguments(),
            "issues": issues,
            "bytes": transfers.bytes,
            "map": bytes(transfers.tensor_map).hex(),
        }

    return {
        "arguments": plan.arguments,
        "grade": _grade(plan),
        "tma_grade": _tma_grade(plan),
        "notes": list(plan.notes),
        "atom": {"lines": tile.atom_lines, "bytes_across": wish.mode.width, "elements_across": tile.inner, "bytes": tile.atom_bytes},
        "grid": {"strided": tile.grid[0], "contiguous": tile.grid[1], "strided_bytes": tile.strided_bytes, "contiguous_bytes": tile.contiguous_bytes},
        "loop": loads(plan.loop),
        "box": loads(plan.box),
        "why_no_box": plan.why_no_box,
        "tile_bytes": plan.tile_bytes,
        "shared_bytes": plan.shared_bytes,
        "alignment": LIMITS.smem_alignment,
        "period": wish.mode.period,
        "lbo": plan.lbo.as_dict(),
        "sbo": plan.sbo.as_dict(),
        "advances": plan.advances.tolist(),
        "words": [[f"{word:#018x}" for word in row] for row in plan.words.tolist()],
        "instruction": {"name": tile.instruction.name, "kind": tile.instruction.kind, "m": tile.instruction.m, "n": tile.instruction.n,
                        "k": tile.instruction.k, "rows": tile.instruction.rows, "idesc": None if idesc is None else f"{idesc.encode():#010x}"},
        "canonical": {"symbolic": plan.canonical[0], "numeric": plan.canonical[1]},
        "cute": {"tile": str(plan.cute.tile)} | {name: _linear(getattr(plan.cute, name)) for name in ("partitioned", "units", "canonical", "descriptors")},
        "conflicts": dataclasses.asdict(plan.conflicts),
    }  # fmt: skip


def _used(row: dict[str, Any], name: str) -> str:
    value = str(row[f"{name}_byte_offset"])
    return value if row[f"{name}_used"] else f"({value})"


def choices_text(title: str, choices: Sequence[dict[str, Any]], axes: tuple[str, str] = ("strided", "contiguous")) -> str:
    """The table of `plans`, of each its `Choice.as_dict`; the refused ones with their reasons below. `axes` are the
    names of the strided and of the contiguous axis.
    """
    rows = [("swizzle", "stack", "boxes", "one box", "bytes", "gaps", "period", "LBO", "SBO", "K advances", "mma", "col", "line")]
    reasons = []
    for row in choices:
        if not row["legal"]:
            reasons.append(f"{row['swizzle']}: {row['reason']}")
            continue
        steps = row["k_advances"]
        advance = f"+{steps[1] - steps[0]}" if len(steps) > 1 else "-"
        conflicts = row["conflicts"]
        rows.append((row["swizzle"], axes[row["stack"] == "contiguous"], str(row["issues"]), f"rank {row['box_rank']}" if row["single_box"] else "no", str(row["tile_bytes"]),
                     str(row["padding_bytes"]), str(row["period"]), _used(row, "leading"),
                     _used(row, "stride"), advance if row["k_uniform"] else f"{advance}, jumps",
                     str(conflicts["mma"]), str(conflicts["column"]), str(conflicts["line"])))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [title]
    lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [line for reason in reasons for line in _wrapped(f"not {reason}")]
    lines += [
        line
        for note in (
            "stack: the axis along which the next swizzle atom in memory is the next atom of the tile (--stack)",
            "boxes: how many 2D boxes load one stage; one box: the rank of a tensor map with which a single box loads it",
            "bytes: the size of one stage; gaps: bytes of it that hold no data",
            "period: the alignment in bytes if your code computes the swizzle from an offset in the tile; TMA and the MMA need only 128 B",
            "LBO, SBO: in brackets if the instruction does not use it",
            "K advances: bytes from one K step to the next; jumps: the step to the next swizzle atom along K is larger",
            "mma, col, line: how often an access passes through the 32 banks, by its addresses (1: no bank conflict): the MMA reads "
            "8 rows x 16 B, ldmatrix reads 8 rows, threads read 8 chunks of one row",
        )
        for line in _wrapped(note)
    ]
    return "\n".join(lines)
