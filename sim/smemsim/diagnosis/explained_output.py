"""The explanation of a wrong output of a launch: a rule, with the tiles, the lines and the operands that the run
knows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.arithmetic.values import from_float64, to_float64
from smemsim.core.finding import Finding, InLaunch
from smemsim.core.machine.global_memory import GlobalMemory, Region
from smemsim.core.ptx.module import Instruction, Label, Operand, Register, Vector, lines_of
from smemsim.core.spec.formats import FORMATS, element_format
from smemsim.core.spec.mma_arithmetic import ROUNDING
from smemsim.core.spec.tensor_map import SWIZZLES
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.numbers import EXACT, Rounding, Tolerance
from smemsim.diagnosis.operands.ranks import own_ranks
from smemsim.diagnosis.operands.read import PATTERN
from smemsim.diagnosis.operands.sums import exchanged
from smemsim.diagnosis.product import explain_product
from smemsim.diagnosis.result.arrays import LEAST, Arrays, Explanation, Tile
from smemsim.diagnosis.result.explain import explain_arrays
from smemsim.diagnosis.result.sums import Code, explain_sums, is_product
from smemsim.run.async_ops import is_bulk
from smemsim.run.engine.records import Mma, Store
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.diagnosis.operands.read import OperandRead
    from smemsim.diagnosis.operands.recorded import Reads
    from smemsim.run.engine.launch import Launch

__all__ = [
    "COORDINATES",
    "PATTERN",
    "Executed",
    "Wrong",
    "explained",
    "listed",
    "operand_matrix",
    "rounding_of",
    "writers_of",
]


# The largest difference, as a part of a typical number, between sums of the same data in another implementation:
COORDINATES = "dimension 0, the contiguous one, comes first in the coordinates: that of k where the operand is K-major"
MATRIX = {"wgmma", "mma", "wmma", "tcgen05"}
NARROW = {"e4m3", "e5m2"}
MOST_ELEMENTS = 1 << 25  # of an operand that is multiplied again
MOST_OTHERS = 4  # arrays that may have been meant
MOST_ARRAYS = 8  # that may be operands
MOST_LINES = 4
MOST_K = 2048  # of a product whose layouts are looked for
MOST_STORES = 4  # shapes of tiles that are tried


class Executed(NamedTuple):
    """The executed launch: the launch, the reads of its matrix instructions (None without the sanitizer), and the
    number of finished CTAs.
    """

    launch: Launch
    reads: Reads | None
    ctas: int


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong:
    """An output that is not as expected: numbers before, after and expected, of one shape.

    The element type is `dtype`, its bytes are `itemsize`. The place of the output is `address` (None: unknown). The
    accepted difference is `tolerance`.
    """

    found: np.ndarray
    wanted: np.ndarray
    before: np.ndarray | None = None
    dtype: str = ""
    itemsize: int = 4
    address: int | None = None
    tolerance: Tolerance = EXACT


def explained(run: Executed, wrong: Wrong) -> str:
    """The rule in a sentence; "" where none is certain, or not all CTAs came to their end."""
    if run.ctas < run.launch.ctas:
        return ""
    if wrong.found.dtype.kind not in "biuf" or wrong.wanted.dtype.kind not in "biuf" or not wrong.found.size:
        return ""
    stores = _stores(run, wrong)
    columns = _columns(stores, wrong)
    found, wanted = (x.reshape(-1, columns) for x in (wrong.found, wrong.wanted))
    before = None if wrong.before is None else wrong.before.reshape(-1, columns)
    allowed: Any = {"relative": rounding_of(run.launch, wrong.dtype).relative, "tolerance": wrong.tolerance}
    tiles = _tiles(run, stores, wrong)
    tiles += [t for t in _instructions(run) if (t.rows, t.columns) not in {(s.rows, s.columns) for s in tiles}]
    with np.errstate(all="ignore"):  # infinities and what overflows are equal to nothing
        explanation = explain_arrays(found, wanted, before=before, dtype=wrong.dtype, tiles=tiles, itemsize=wrong.itemsize, **allowed)
        x = Arrays(found, wanted, before, itemsize=wrong.itemsize, **allowed)
        if explanation is None:
            explanation = _of_operands(run, x) if x.count >= LEAST else None
        if explanation is None and x.count and (own := own_ranks(run.launch)):
            explanation = Explanation(
                f"no rule gives it, but the mapa at {_lines_of(own)} reaches no other CTA: {own[0].message}", own[0].repair
            )
    return "" if explanation is None else str(explanation)


def _lines_of(findings: Iterable[Finding]) -> str:
    """The lines of findings in a sentence, those of the source first."""
    return _in_order(f.at.instruction for f in findings if isinstance(f.at, InLaunch) and f.at.instruction is not None)


def rounding_of(launch: Launch, dtype: str) -> Rounding:
    """The rounding errors to expect in an output of a type, by the instructions of the kernel."""
    known, events = _ROUNDING(launch), len(launch.result.events)
    if events not in known:
        known[events] = _rounding_of_sums(launch)
    return Rounding.of(FORMATS.get(dtype), known[events])


_ROUNDING: Slot[dict[int, float]] = Slot(lambda launch: {})  # by the number of events


def _rounding_of_sums(launch: Launch) -> float:
    """The error that sums of matrix instructions, and approximations, may have."""
    program, sums = launch.program, 0.0
    if program.approximate:
        sums = ROUNDING["approximated"]
    for i in program.inlined.body:
        if i.op in MATRIX:
            types = [m for m in i.modifiers if m in FORMATS]
            is_narrow = types[:1] == ["f16"] or (i.op == "wgmma" and not NARROW.isdisjoint(types))
            sums = max(sums, ROUNDING["narrowly summed" if is_narrow else "multiplied"])
    if any(event.d_type == "f16" for event in launch.result.events.different_products()):
        sums = max(sums, ROUNDING["narrowly summed"])
    return float(sums)


# ---- tiles


def _stores(run: Executed, wrong: Wrong) -> list[Store]:
    """One tensor store into the array for each map and line."""
    stores = [e for e in run.launch.result.events if isinstance(e, Store) and e.tensor_map.call == "tiled"]
    if wrong.address is None:  # then it is what tensor stores write, if that is one array
        stores = stores if len({e.tensor_map.global_address for e in stores}) == 1 else []
    else:
        end = wrong.address + wrong.found.size * wrong.itemsize
        stores = [e for e in stores if wrong.address <= e.tensor_map.global_address < end]
    found: dict[tuple[int, int], Store] = {}
    for e in stores:
        found.setdefault((e.map_address, e.instruction.line), e)
    return list(found.values())


def _columns(stores: list[Store], wrong: Wrong) -> int:
    """Elements of a row: as the map of a store has it, else the last axis of the array."""
    for store in stores:
        tm = store.tensor_map
        if tm.rank > 1 and tm.type_row.bits == 8 * wrong.itemsize and tm.global_strides[0] % wrong.itemsize == 0:
            columns = tm.global_strides[0] // wrong.itemsize
            if wrong.found.size % columns == 0:
                return int(columns)
    return int(wrong.found.shape[-1]) if wrong.found.ndim else 1


def _tiles(run: Executed, stores: list[Store], wrong: Wrong) -> list[Tile]:
    lines: dict[tuple[int, int, str, int], list[int]] = {}
    writers, begins = writers_of(run.launch), _begins(run)
    for store in stores:
        tm = store.tensor_map
        if tm.type_row.bits == 8 * wrong.itemsize:
            key = (tm.box_dim[1] if tm.rank > 1 else 1), tm.box_dim[0], str(SWIZZLES[tm.swizzle]), store.smem_address % PATTERN
            lines.setdefault(key, []).append(store.instruction.line)
    tiles = []
    for (rows, columns, swizzle, offset), at in list(lines.items())[:MOST_STORES]:
        several = sorted(set(at))
        told = f"{rows}x{columns} box of the store{'s' * (len(several) > 1)} at line{'s' * (len(several) > 1)} {listed(several)}"
        tiles.append(Tile(rows, columns, told, swizzle, several[0], offset, writers, begins))
    return tiles


def _begins(run: Executed) -> str:
    """The first product of a tile, as a sentence calls it, if it adds to what was in the accumulators."""
    begun: dict[tuple[int, int, int], Mma] = {}
    for e in run.launch.result.events:
        if isinstance(e, Mma):
            begun.setdefault((e.cta, e.thread, e.d), e)
    first = next((e for e in begun.values() if e.scale_d), None)
    return f"{first.instruction.op} at {first.instruction.at}" if first is not None else ""


def writers_of(launch: Launch) -> str:
    """The instructions that write registers into shared memory, as a sentence calls them; "" where there are none."""
    body = launch.program.inlined.body
    for op, is_one in (("stmatrix", True), ("st", False)):
        lines = sorted({i.line for i in body if i.op == op and (is_one or any(m.startswith("shared") for m in i.modifiers))})
        if lines:
            return f"{op if is_one else 'st.shared'} at line{'s' * (len(lines) > 1)} {listed(lines)}"
    return ""


def _in_order(those: Iterable[Instruction]) -> str:
    """The lines of instructions in a sentence, those of the source first, in their order in the text."""
    return lines_of(sorted(those, key=lambda i: i.line))


def listed(lines: list[int]) -> str:
    """Lines, as a sentence has them.

    >>> listed([3, 5]), listed([1, 2, 3, 4, 5])
    ('3 and 5', '1, 2, 3, 4 ...')
    """
    shown = [str(n) for n in lines[:MOST_LINES]]
    return ", ".join(shown) + " ..." if len(lines) > MOST_LINES else " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _instructions(run: Executed) -> list[Tile]:
    """The tiles of D of the matrix instructions."""
    shapes = dict.fromkeys((e.m, e.n) for e in run.launch.result.events if isinstance(e, Mma))
    return [Tile(m, n, f"{m}x{n} tile of an instruction", begins=_begins(run)) for m, n in list(shapes)[:MOST_STORES]]


# ---- operands


@dataclasses.dataclass(frozen=True, eq=False)
class _Operands:
    """The two matrices of a product: `pairs` of (M, K) and (N, K) that may be meant, the steps of k."""

    pairs: list[tuple[np.ndarray, np.ndarray]]
    steps: list[int]
    itemsize: int = 0  # of elements that ldmatrix reads


def _of_operands(run: Executed, arrays: Arrays) -> Explanation | None:
    """The explanation by the products of the operands: those that were looked at, else arrays whose product is what was
    expected.
    """
    operands = _of_reads(run)
    if operands is None or not any(is_product(arrays, *pair) for pair in operands.pairs):
        operands = _of_memory(run, arrays) or operands
    if operands is None:
        return None
    code = _code(run)
    for pair in operands.pairs:
        if (told := explain_sums(arrays, *pair, operands.steps, code=code)) is not None:
            return told
    for pair in operands.pairs:
        if is_product(arrays, *pair) and (told := _of_layouts(run, arrays, *pair)) is not None:
            return told
    for pair in operands.pairs if operands.itemsize else ():
        if (told := explain_sums(arrays, *pair, operands.steps, itemsize=operands.itemsize, code=code)) is not None:
            return told
    return _exchanged(run) if any(is_product(arrays, *pair) for pair in operands.pairs) else None


def _of_reads(run: Executed) -> _Operands | None:
    """The matrices that tensor loads bring, as the products that were looked at read them."""
    for p in run.reads.products if run.reads is not None else ():
        a, b = (next((read for read in side if read is not None), None) for side in (p.a, p.b))
        if a is None or b is None:
            continue
        event = p.events[0]
        left, right = operand_matrix(run.launch.memory, a, event.a_type), operand_matrix(run.launch.memory, b, event.b_type)
        if left is None or right is None:
            return None
        pairs = [(left, right), (right, left)]
        if a.base == b.base:  # then one of the two may have been meant to be another array
            others = [operand_matrix(run.launch.memory, b, event.b_type, at) for at in _alike(run.launch.memory, b)]
            pairs = [pair for other in others if other is not None for pair in ((left, other), (other, left))]
        return _Operands(pairs, [_step(a), _step(b), event.k])
    return None


def _of_layouts(run: Executed, arrays: Arrays, a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Which fault of a descriptor, or of what wrote an operand, gives a wrong tile of the product of A (M, K) and B (N,
    K): what `smemsim solve --d --a --b` says.
    """
    event = next((e for e in run.launch.result.events if isinstance(e, Mma) and e.a is not None and not e.is_sparse), None)
    if event is None or event.cta_group != 1 or a.shape[1] > MOST_K or event.m > len(a) or event.n > len(b):
        return None
    row, column = (int(x[0]) for x in arrays.places)
    rows, columns = slice(row := row // event.m * event.m, row + event.m), slice(column := column // event.n * event.n, column + event.n)
    words = [SmemDescriptor.decode(word, arch=run.launch.arch) for word in (event.a or 0, event.b)]
    try:
        found = explain_product(
            arrays.found[rows, columns].astype(np.float32), a[rows].astype(np.float64), b[columns].astype(np.float64), arch=run.launch.arch, kind=event.kind,
            a_type=event.a_type, b_type=event.b_type, d_type=event.d_type, m=event.m, n=event.n,
            a_swizzle=str(words[0].swizzle), b_swizzle=str(words[1].swizzle), a_major=event.a_major, b_major=event.b_major,
        )  # fmt: skip
    except SmemsimError:  # no tile of these instructions, or numbers that their types have not
        return None
    if found.looks_like != "a wrong layout" or not found.faults or not found.faults[0].certain:
        return None
    others = f" (or {found.faults[1]})" if len(found.faults) > 1 else ""
    return Explanation(
        f"rows {row} to {rows.stop - 1}, columns {column} to {columns.stop - 1}, of the product at {event.instruction.at}, are what they would be if {found.faults[0]}{others}",
        f"look at {found.faults[0].field} of {found.faults[0].operand}",
    )


def _of_memory(run: Executed, arrays: Arrays) -> _Operands | None:
    """Two arrays whose product was expected, if the reads of the matrix instructions are not known: by the types of the
    instructions, with K from their sizes.
    """
    shapes = {(types[1], types[2], k) for i in run.launch.program.inlined.body if (types := _types(i)) and (k := _instruction_k(i))}
    shapes |= {(e.a_type, e.b_type, e.k) for e in run.launch.result.events.different_products()}
    regions = [r for r in run.launch.memory.table()[2] if len(r.data)][:MOST_ARRAYS]
    for a_type, b_type, k in sorted(shapes):
        sizes = [element_format(t).bits for t in (a_type, b_type)]
        if min(sizes) < 8:
            continue
        for left, extent, a in _matrices(regions, a_type, arrays.shape[0]):
            if extent * max(arrays.shape) > MOST_ELEMENTS:
                continue
            for _, _, b in _matrices([r for r in regions if r is not left], b_type, arrays.shape[1], extent):
                if is_product(arrays, a, b):
                    return _Operands([(a, b)], [k], sizes[0] // 8 if sizes[0] == sizes[1] else 0)
    return None


def _matrices(regions: list[Region], dtype: str, rows: int, k: int = 0) -> Iterator[tuple[Region, int, np.ndarray]]:
    """(array, K, numbers (rows, K)) of each array that may be an operand of a type, in both orders; those of f32 may
    have been rounded to the type.
    """
    for kind in dict.fromkeys((dtype, "f32")):
        for region in regions:
            extent, rest = divmod(len(region.data) * 8, rows * element_format(kind).bits)
            if rest or not extent or (k and extent != k) or extent * rows > MOST_ELEMENTS:
                continue
            numbers = _numbers(region.data, kind)
            if kind != dtype and element_format(dtype).is_float:
                with np.errstate(all="ignore"):
                    numbers = to_float64(from_float64(numbers, dtype), dtype).astype(np.float32)
            yield region, extent, numbers.reshape(rows, extent)
            yield region, extent, numbers.reshape(extent, rows).T


def _types(i: Instruction) -> list[str]:
    """The element types of D, A, B (and C) of a matrix instruction that names them; [] of others."""
    types = [m for m in i.modifiers if m in FORMATS]
    return types if i.op in MATRIX and len(types) >= 3 else []


def _instruction_k(i: Instruction) -> int:
    shape = next((found for m in i.modifiers if (found := re.fullmatch(r"m\d+n\d+k(\d+)", m))), None)
    return int(shape[1]) if shape else 0


def _numbers(raw: np.ndarray, dtype: str) -> np.ndarray:
    fmt = element_format(dtype)
    bits = np.ascontiguousarray(raw).view(f"{'i' if dtype.startswith('s') else 'u'}{fmt.bits // 8}")
    return to_float64(bits, dtype).astype(np.float32) if fmt.is_float else bits.astype(np.float64)


# ---- instructions


def _code(run: Executed) -> Code:
    """The loop around the matrix instructions, and what brings their operands."""
    body = run.launch.program.inlined.body
    products = [n for n, i in enumerate(body) if i.op in MATRIX and _instruction_k(i)]
    loads = [n for n, i in enumerate(body) if i.op == "cp" and "async" in i.modifiers and "tensor" in i.modifiers and not _is_store(i)]
    loops = list(dict.fromkeys(filter(None, (_loop(run, products), _loop(run, loads)))))
    loop_lines = [f"lines {first} to {last}" for first, last in loops]
    copies = [i for i in body if i.op == "cp" and i.modifiers[:1] == ("async",) and not is_bulk(i) and "shared" in "".join(i.modifiers)]
    written = f"the cp.async that writes its tile, at {_in_order(copies)}" if copies else ""
    stored = writers_of(run.launch) if any(i.op in ("wgmma", "tcgen05") for i in body) and not copies else ""
    written = written or (f"the {stored}" if stored else "")
    reads = {}
    for name, operand in (("A", 1), ("B", 2)):
        at = _ldmatrix(body, operand)
        if at:
            reads[name] = f"the ldmatrix at {_in_order(i for i in body if i.line in at)}"
    return Code(
        " and ".join(loop_lines),
        _in_order(body[n] for n in loads),
        reads,
        dict.fromkeys(("A", "B"), written) if written else {},
    )


def _is_store(i: Instruction) -> bool:
    """Does a copy name global memory first, its destination?"""
    return next((m for m in i.modifiers if m.startswith(("global", "shared"))), "").startswith("global")


def _loop(run: Executed, inside: list[int]) -> tuple[int, int] | None:
    """(first line, last line) of the innermost loop around one of some instructions, None where there is none."""
    inlined = run.launch.program.inlined
    best: tuple[int, int] | None = None
    for n, i in enumerate(inlined.body):
        target = i.operands[0] if i.op == "bra" and i.operands else None
        begin = inlined.labels.get(target.name, n + 1) if isinstance(target, Label) else n + 1
        if begin <= n and any(begin <= at <= n for at in inside) and (best is None or n - begin < best[1] - best[0]):
            best = begin, n
    return None if best is None else (inlined.body[best[0]].line, inlined.body[best[1]].line)


def _ldmatrix(body: list[Instruction], operand: int) -> list[int]:
    """The lines of the ldmatrix whose registers are an operand of mma.sync, copies followed."""
    slots = {r for i in body if i.op == "mma" and len(i.operands) > operand for r in _slots(i.operands[operand])}
    for _ in range(2):
        slots |= {r for i in body if i.op == "mov" and slots.intersection(_slots(i.operands[0])) for r in _slots(i.operands[1])}
    return sorted({i.line for i in body if i.op == "ldmatrix" and slots.intersection(_slots(i.operands[0]))})


def _slots(operand: Operand) -> set[int]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return {item.slot for item in items if isinstance(item, Register)}


# ---- coordinates


def _exchanged(run: Executed) -> Explanation | None:
    findings = exchanged(run.reads) if run.reads is not None else []
    if not findings:
        return None
    is_one = len({f.line for f in findings}) == 1
    loads = f"the load{'s' * (not is_one)} at {_lines_of(findings)} {'has its' if is_one else 'have their'}"
    return Explanation(f"{loads} coordinates exchanged: {findings[0].why}", COORDINATES)


def _alike(memory: GlobalMemory, read: OperandRead) -> list[int]:
    """Addresses of other arrays as large as the one that an operand was loaded from."""
    regions = memory.table()[2]
    size = next((len(r.data) for r in regions if r.begin <= read.base < r.begin + len(r.data)), 0)
    return [r.begin for r in regions if len(r.data) == size and r.begin != read.base][:MOST_OTHERS]


def _step(read: OperandRead) -> int:
    """The k of a box."""
    return int(read.loads[0].transfer.tensor_map.box_dim[0 if read.k_stride < read.row_stride else 1])


def operand_matrix(
    memory: GlobalMemory, read: OperandRead, dtype: str, at: int | None = None, *, rows_read: slice = slice(None)
) -> np.ndarray | None:
    """(rows, K): the numbers of an operand's matrix, as its tensor map has it, or of some of its rows; `at` another
    address.
    """
    tm, fmt = read.loads[0].transfer.tensor_map, element_format(dtype)
    if tm.rank != 2 or fmt.bits < 8 or tm.type_row.bits != fmt.bits or tm.global_dim[0] * tm.global_dim[1] > MOST_ELEMENTS:
        return None
    (columns, rows), pitch, size = tm.global_dim, tm.global_strides[0], fmt.bits // 8
    try:
        raw = memory.span(tm.global_address if at is None else at, pitch * (rows - 1) + columns * size)
    except SmemsimError:
        return None
    lines = np.lib.stride_tricks.as_strided(raw, (rows, columns * size), (pitch, 1))
    if read.k_stride < read.row_stride:
        return _numbers(lines[rows_read], dtype)
    first, end, _ = rows_read.indices(columns)
    return _numbers(lines[:, first * size : max(first, end) * size], dtype).T
