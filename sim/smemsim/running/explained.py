"""What explains a wrong output of a launch: a rule, with the tiles, the lines and the operands that the run knows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.arithmetic.values import to_float64
from smemsim.diagnose.result.arrays import LEAST, Arrays, Explanation, Tile
from smemsim.diagnose.result.explain import explain_arrays
from smemsim.diagnose.result.sums import explain_sums
from smemsim.diagnose.tolerances import EXACT, Rounding, Tolerance
from smemsim.errors import SmemsimError
from smemsim.gpu.events import Mma, Store
from smemsim.machine.region import GlobalMemory
from smemsim.spec.formats import FORMATS, element_format
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.spec.tensor_map import SWIZZLES

if TYPE_CHECKING:
    from smemsim.running.operand_reads import OperandRead
    from smemsim.running.run import Run

__all__ = ["Wrong", "explained", "rounding_of"]

# By how much of a typical number sums may be apart that somebody else makes of the same data:
APPROXIMATED = 2.0**-10  # ex2.approx.f16, tanh.approx
MULTIPLIED = 2.0**-9  # f32 read as tf32, a factor that was rounded to 16 bits in between, products cut when they are aligned
NARROWLY_SUMMED = 2.0**-7  # accumulators with 10 (f16) or 13 (fp8 of wgmma) bits of a fraction, over some dozens of steps
MATRIX = {"wgmma", "mma", "wmma", "tcgen05"}
NARROW = {"e4m3", "e5m2"}
MOST_ELEMENTS = 1 << 25  # of an operand that is multiplied again
MOST_OTHERS = 4  # arrays that may have been meant
MOST_LINES = 4
MOST_STORES = 4  # shapes of tiles that are tried
PATTERN = MODES[Swizzle.B128].period


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong:
    """An output that is not as expected: numbers before, as left and as wanted, of one shape.

    `dtype` is the element type, `itemsize` its bytes, `address` where it lies (None: nobody knows), `tolerance` how far numbers may be off.
    """

    found: np.ndarray
    wanted: np.ndarray
    before: np.ndarray | None = None
    dtype: str = ""
    itemsize: int = 4
    address: int | None = None
    tolerance: Tolerance = EXACT


def explained(run: Run, wrong: Wrong) -> str:
    """The rule in a sentence; "" where none is certain, or not all CTAs came to their end."""
    if run.ctas < run.launch.ctas:
        return ""
    if wrong.found.dtype.kind not in "biuf" or wrong.wanted.dtype.kind not in "biuf" or not wrong.found.size:
        return ""
    stores = _stores(run, wrong)
    columns = _columns(stores, wrong)
    found, wanted = (x.reshape(-1, columns) for x in (wrong.found, wrong.wanted))
    before = None if wrong.before is None else wrong.before.reshape(-1, columns)
    allowed: Any = {"relative": rounding_of(run, wrong.dtype).relative, "tolerance": wrong.tolerance}
    tiles = _tiles(run, stores, wrong)
    tiles += [t for t in _instructions(run) if (t.rows, t.columns) not in {(s.rows, s.columns) for s in tiles}]
    with np.errstate(all="ignore"):  # infinities and what overflows are equal to nothing
        told = explain_arrays(found, wanted, before=before, dtype=wrong.dtype, tiles=tiles, itemsize=wrong.itemsize, **allowed)
        if told is None:
            x = Arrays(found, wanted, before, itemsize=wrong.itemsize, **allowed)
            told = _of_operands(run, x) if x.count >= LEAST else None
    return "" if told is None else str(told)


def rounding_of(run: Run, dtype: str) -> Rounding:
    """What rounding gives in an output of a type, by the instructions of the kernel."""
    program, sums = run.launch.program, 0.0
    if program.approximate:
        sums = APPROXIMATED
    for i in program.inlined.body:
        if i.op in MATRIX:
            types = [m for m in i.modifiers if m in FORMATS]
            is_narrow = types[:1] == ["f16"] or (i.op == "wgmma" and not NARROW.isdisjoint(types))
            sums = max(sums, NARROWLY_SUMMED if is_narrow else MULTIPLIED)
    if any(isinstance(e, Mma) and e.d_type == "f16" for e in run.launch.events):
        sums = max(sums, NARROWLY_SUMMED)
    return Rounding.of(FORMATS.get(dtype), sums)


# ---- tiles


def _stores(run: Run, wrong: Wrong) -> list[Store]:
    """One tensor store into the array for each map and line."""
    stores = [e for e in run.launch.events if isinstance(e, Store) and e.tensor_map.call == "tiled"]
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


def _tiles(run: Run, stores: list[Store], wrong: Wrong) -> list[Tile]:
    lines: dict[tuple[int, int, str, int], list[int]] = {}
    writers = _writers(run)
    for store in stores:
        tm = store.tensor_map
        if tm.type_row.bits == 8 * wrong.itemsize:
            key = (tm.box_dim[1] if tm.rank > 1 else 1), tm.box_dim[0], str(SWIZZLES[tm.swizzle]), store.smem_address % PATTERN
            lines.setdefault(key, []).append(store.instruction.line)
    found = []
    for (rows, columns, swizzle, offset), at in list(lines.items())[:MOST_STORES]:
        several = sorted(set(at))
        told = f"{rows}x{columns} box of the store{'s' * (len(several) > 1)} at line{'s' * (len(several) > 1)} {_listed(several)}"
        found.append(Tile(rows, columns, told, swizzle, several[0], offset, writers))
    return found


def _writers(run: Run) -> str:
    """The instructions that write registers into shared memory, as a sentence calls them; "" where there are none."""
    body = run.launch.program.inlined.body
    for op, is_one in (("stmatrix", True), ("st", False)):
        lines = sorted({i.line for i in body if i.op == op and (is_one or any(m.startswith("shared") for m in i.modifiers))})
        if lines:
            return f"{op if is_one else 'st.shared'} at line{'s' * (len(lines) > 1)} {_listed(lines)}"
    return ""


def _listed(lines: list[int]) -> str:
    shown = [str(n) for n in lines[:MOST_LINES]]
    return ", ".join(shown) + " ..." if len(lines) > MOST_LINES else " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _instructions(run: Run) -> list[Tile]:
    """The tiles of D of the matrix instructions."""
    shapes = dict.fromkeys((e.m, e.n) for e in run.launch.events if isinstance(e, Mma))
    return [Tile(m, n, f"{m}x{n} tile of an instruction") for m, n in list(shapes)[:MOST_STORES]]


# ---- operands


def _of_operands(run: Run, x: Arrays) -> Explanation | None:
    """What the products that were looked at make of it."""
    for p in run.reads.products if run.reads is not None else ():
        a, b = (next((read for read in side if read is not None), None) for side in (p.a, p.b))
        if a is None or b is None:
            continue
        event = p.events[0]
        left, right = _operand(run.launch.memory, a, event.a_type), _operand(run.launch.memory, b, event.b_type)
        if left is None or right is None:
            return None
        pairs = [(left, right), (right, left)]
        if a.base == b.base:  # then one of the two may have been meant to be another array
            others = [_operand(run.launch.memory, b, event.b_type, at) for at in _alike(run.launch.memory, b)]
            pairs = [pair for other in others if other is not None for pair in ((left, other), (other, left))]
        steps = [_step(a), _step(b), event.k]
        return next((told for pair in pairs if (told := explain_sums(x, *pair, steps)) is not None), None)
    return None


def _alike(memory: GlobalMemory, read: OperandRead) -> list[int]:
    """Where other arrays of an operand's size begin."""
    regions = memory.table()[2]
    size = next((len(r.data) for r in regions if r.begin <= read.base < r.begin + len(r.data)), 0)
    return [r.begin for r in regions if len(r.data) == size and r.begin != read.base][:MOST_OTHERS]


def _step(read: OperandRead) -> int:
    """The k of a box."""
    return int(read.loads[0].transfer.tensor_map.box_dim[0 if read.k_stride < read.row_stride else 1])


def _operand(memory: GlobalMemory, read: OperandRead, dtype: str, at: int | None = None) -> np.ndarray | None:
    """(rows, K): the numbers of an operand's whole matrix, as its tensor map has it; `at` another address."""
    tm, fmt = read.loads[0].transfer.tensor_map, element_format(dtype)
    if tm.rank != 2 or fmt.bits < 8 or tm.type_row.bits != fmt.bits or tm.global_dim[0] * tm.global_dim[1] > MOST_ELEMENTS:
        return None
    (columns, rows), pitch, size = tm.global_dim, tm.global_strides[0], fmt.bits // 8
    try:
        raw = memory.span(tm.global_address if at is None else at, pitch * (rows - 1) + columns * size)
    except SmemsimError:
        return None
    lines = np.lib.stride_tricks.as_strided(raw, (rows, columns * size), (pitch, 1))
    bits = np.ascontiguousarray(lines).view(f"{'i' if dtype.startswith('s') else 'u'}{size}")
    values = bits.astype(np.float64) if not fmt.is_float else to_float64(bits, dtype)
    matrix = values.astype(np.float32) if fmt.is_float else values
    return matrix if read.k_stride < read.row_stride else matrix.T
