"""The layout of tensor memory: accumulators, A, metadata and scale factors, and the cells they use.

>>> d = AccumulatorLayout(m=128, n=256, cta_group=2)
>>> d
AccumulatorLayout(m=128, n=256, cta_group=2)  # layout B, 2x2, compiled
>>> d.location(70, 200), d.element(1, 70, 72)
((1, 70, 72), (70, 200))

Several of these have more than one place there. The number of places is `copies`. The i-th place is
`location(..., copy=i)`.

>>> sfa = ScaleLayout("A", m=128, n=256, kind="mxf4nvf4", scale_vec="4X")
>>> sfa.location(70, 2), sfa.location(70, 2, copy=3), sfa.smem_offset(70, 2)
((0, 6, 2, 2), (0, 102, 2, 2), 106)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.base.arguments import choice, flag, in_steps, shown, whole
from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.members import OwnMembers
from smemsim.core.layout.tensor_memory import (
    a_column,
    accumulator_cell,
    accumulator_element,
    metadata_bit,
    metadata_element,
    metadata_lane_and_bit,
    metadata_row_and_k,
    path_lane,
    path_row,
    scale_block_byte,
    scale_cell,
    scale_row,
    scale_slot,
)
from smemsim.core.machine.tmem.address import check_columns, indices, layout_repr, plain, together
from smemsim.core.spec.assumptions import assumed, remembered
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tcgen05 import SHAPES, WIDE_K, kind_of, scale_modes
from smemsim.core.spec.tensor_memory import (
    A_CONTAINER_BITS,
    A_GRADES,
    A_ROW_BITS,
    ACCUMULATORS,
    CELL_BITS,
    COLUMNS,
    LANES,
    METADATA,
    SCALE_MODES,
    WARP_LANES,
    AccumulatorPath,
    MetadataRow,
    ScaleMode,
)

__all__ = [
    "ATmemLayout",
    "AccumulatorLayout",
    "Box",
    "Copies",
    "MetadataLayout",
    "Parts",
    "ScaleLayout",
    "accumulator_path",
    "begin_column",
    "boxes_of",
    "boxes_of_d",
    "cells_of_a",
    "cells_of_d",
    "cells_of_metadata",
    "cells_of_scales",
    "check_kind",
    "copies_of",
    "lane_set",
    "legal_n",
]


# ---- `AccumulatorLayout`: the place of the elements of D, for every shape of tcgen05.mma


def accumulator_path(m: Any, cta_group: Any, ws: Any, sparse: Any) -> AccumulatorPath:
    """The organization of D for these; InputError where tcgen05.mma has no such shape."""
    m, cta_group = whole("m", m), whole("cta_group", cta_group)
    ws, sparse = flag("ws", ws), flag("sparse", sparse)
    if cta_group not in (1, 2):
        raise InputError(f"cta_group = {cta_group}: there are .cta_group::1 and .cta_group::2")
    if ws and cta_group == 2:
        raise InputError("ws: tcgen05.mma.ws exists for .cta_group::1 only (PTX ISA 9.1 §9.7.16.10.9.3)")
    fitting = [p for p in ACCUMULATORS if p.cta_group == cta_group and p.ws in (None, ws) and p.sparse in (None, sparse)]
    for path in fitting:
        if path.m == m:
            found: AccumulatorPath = assumed("accumulator.path", path)
            return found
    sizes = " or ".join(str(n) for n in sorted({p.m for p in fitting}))
    form = f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if sparse else ''}.cta_group::{cta_group}"
    pair = ", the rows of both CTAs" if cta_group == 2 else ""
    raise InputError(f"m = {m}: {form} has M = {sizes}{pair} (PTX ISA 9.1 §9.7.16.2.1)")


def legal_n(cta_group: int, ws: bool, sparse: bool) -> tuple[int, ...]:
    """Every N that some kind of tcgen05.mma has; the kinds differ (integers have fewer). PTX ISA 9.1 §9.7.16.2.1."""
    rows = (s for s in SHAPES if (s.cta_group, s.ws) == (cta_group, ws) and s.sparse in (None, sparse))
    return tuple(sorted({n for row in rows for n in row.n}))


@dataclasses.dataclass(frozen=True, repr=False)
class AccumulatorLayout(metaclass=OwnMembers):
    """The place of D of one tcgen05.mma in tensor memory. Each element has a cell of 32 bits. Types of 16 bits use the
    lower half.

    The sizes `m` and `n` are those of the instruction (of the pair, with `cta_group` 2). The address of D is `lane` and
    `column`. The lane is 0, or 16 for the layouts that use half of the lanes. The letter of the layout in the PTX ISA
    is `name`. Its evidence is `grade` and `source`; none is measured.

    Raises InputError for shapes that tcgen05.mma does not have, and Unmodelled past the last column.

    >>> import smemsim
    >>> d = smemsim.AccumulatorLayout(128, 64)
    >>> d.name, d.location(5, 7)
    ('D', (0, 5, 7))
    """

    m: int
    n: int
    cta_group: int = 1
    ws: bool = dataclasses.field(default=False, kw_only=True)
    sparse: bool = dataclasses.field(default=False, kw_only=True)
    lane: int = dataclasses.field(default=0, kw_only=True)
    column: int = dataclasses.field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        path = self._path
        n, allowed = whole("n", self.n), legal_n(self.cta_group, bool(self.ws), bool(self.sparse))
        if n not in allowed:
            raise InputError(
                f"n = {n}: {'.ws has' if self.ws else f'.cta_group::{self.cta_group} has'} N = {in_steps(allowed)} (PTX ISA 9.1 §9.7.16.2.1)"
            )
        lane = whole("lane", self.lane)
        if lane not in path.lanes:
            only = " or ".join(map(str, path.lanes))
            raise InputError(f"lane = {lane}: layout {path.name} begins at lane {only} (PTX ISA 9.1 §9.7.16.10.5)")
        column = indices("column", whole("column", self.column), COLUMNS, "tensor memory has columns")
        for name, value in (("m", path.m), ("n", n), ("cta_group", path.cta_group), ("lane", lane), ("column", column)):
            object.__setattr__(self, name, value)
        check_columns(f"layout {path.name}", column, self.columns)

    def __repr__(self) -> str:
        given = [f"m={self.m}", f"n={self.n}"]
        given += [f"{f.name}={value}" for f in dataclasses.fields(self)[2:] if (value := getattr(self, f.name)) != f.default]
        return f"AccumulatorLayout({', '.join(given)})  # layout {self.name}, {self.datapath}, {self.grade}"

    @functools.cached_property
    def _path(self) -> AccumulatorPath:
        return accumulator_path(self.m, self.cta_group, self.ws, self.sparse)

    @property
    def name(self) -> str:
        """The layout's letter, A to G."""
        return self._path.name

    @property
    def grade(self) -> Grade:
        """The evidence grade of the layout on its architecture."""
        return self._path.grade

    @property
    def source(self) -> str:
        """The document and section that give the layout."""
        return self._path.source

    @property
    def datapath(self) -> str:
        """The PTX ISA's name of the data path: 4x1, 2x2, 1x4."""
        return self._path.datapath

    @property
    def columns(self) -> int:
        """The number of columns that D occupies in each CTA."""
        return self.n // self._path.split

    @property
    def lanes(self) -> np.ndarray:
        """int64: the lanes that D occupies in each CTA, ascending."""
        path = self._path
        row, band = np.meshgrid(np.arange(path.rows), np.arange(path.split))
        found: np.ndarray = np.sort(path_lane(row, band, path.rows, path.block, self.lane).ravel())
        return found

    def location(self, m: Any, n: Any) -> tuple[Any, Any, Any]:
        """(CTA of the pair, lane, column) of element (m, n). The arguments are whole numbers, or arrays that broadcast.

        >>> AccumulatorLayout(64, 8).location(20, 3)    # layout F: 16 rows in every 32 lanes
        (0, 36, 3)
        """
        path = self._path
        m = indices("m", m, self.m, "the instruction has rows")
        n = indices("n", n, self.n, "the instruction has columns")
        m, n = together(m, n)
        cta, lane, column = accumulator_cell(m, n, self.columns, path.rows, path.block, self.lane)
        cell: tuple[Any, Any, Any] = assumed("accumulator.cell", (cta, lane, self.column + column), self, m, n)
        return cell

    def element(self, cta: Any, lane: Any, column: Any) -> tuple[Any, Any]:
        """The (m, n) of the element in a cell. For an empty cell, arrays get -1. Numbers raise InputError.

        >>> AccumulatorLayout(64, 8).element(0, 36, 3)
        (20, 3)
        >>> AccumulatorLayout(64, 8).element(0, 16, 3)
        Traceback (most recent call last):
        smemsim.base.errors.InputError: CTA 0, lane 16, column 3: no element of D; layout F (64 x 8) has columns 0 to 7, lanes 0 to 15 of every 32
        """
        path = self._path
        cta = indices("cta", cta, self.cta_group, "the instruction has CTAs")
        lane = indices("lane", lane, LANES, "tensor memory has lanes")
        column = indices("column", column, COLUMNS, "tensor memory has columns")
        cta, lane, at = together(cta, lane, column)
        m, n = accumulator_element(cta, lane, at - self.column, self.columns, path.rows, path.block, path.split, self.lane)
        if not isinstance(m, np.ndarray):
            if m < 0:
                taken = f"lanes {self.lane} to {self.lane + path.block - 1} of every 32" if path.block < 32 else "all lanes"
                raise InputError(
                    f"CTA {cta}, lane {lane}, column {at}: no element of D; layout {self.name} ({self.m} x {self.n}) has columns "
                    f"{self.column} to {self.column + self.columns - 1}, {taken}"
                )
            return int(m), int(n)
        return m, n


# ---- What tcgen05.mma reads from tensor memory: `ATmemLayout`, `ScaleLayout` and `MetadataLayout`


def check_kind(kind: Any, kinds: tuple[str, ...]) -> str:
    """InputError unless `kind` is one of these kinds of tcgen05.mma."""
    return choice("kind", kind, kinds, " or ".join(kinds))


def begin_column(value: Any) -> int:
    """The first column as an int."""
    column: int = indices("column", whole("column", value), COLUMNS, "tensor memory has columns")
    return column


def _nothing(what: str, place: tuple[Any, ...], given: tuple[Any, ...], names: str) -> tuple[Any, ...]:
    """Numbers as ints, or InputError where they are negative; arrays as they are."""
    if isinstance(place[0], np.ndarray):
        return place
    if place[0] < 0:
        raise InputError(f"({names}) = {given}: {what} lies there")
    return tuple(int(value) for value in place)


@dataclasses.dataclass(frozen=True, repr=False)
class ATmemLayout(metaclass=OwnMembers):
    """The place of A of one tcgen05.mma in tensor memory. A is in the lanes of D, 256 bits a row. These are 8 columns.

    Arguments `m`, `cta_group`, `ws`, `sparse` and `lane` are those of the instruction (see AccumulatorLayout). Stored
    elements are counted by k. Each band of N reads A from its own lanes. With the layouts B, E and G of D, A is stored
    twice, twice and four times. Compiled: CUTLASS TmemAllocMode::Duplicated (layout B), FlashMLA (E). Read `grade` and
    `source` for the evidence.

    >>> from smemsim import ATmemLayout
    >>> a = ATmemLayout(128, "f16", cta_group=2)
    >>> a.location(70, 3), a.location(70, 3, copy=1), a.element(1, 70, 1, 16)
    ((1, 6, 1, 16), (1, 70, 1, 16), (70, 3))
    """

    m: int
    kind: str
    cta_group: int = 1
    ws: bool = dataclasses.field(default=False, kw_only=True)
    sparse: bool = dataclasses.field(default=False, kw_only=True)
    lane: int = dataclasses.field(default=0, kw_only=True)
    column: int = dataclasses.field(default=0, kw_only=True)

    def __repr__(self) -> str:
        return layout_repr(self)

    def __post_init__(self) -> None:
        check_kind(self.kind, tuple(A_CONTAINER_BITS))
        plain(self, "m", "cta_group", "lane", "column")
        path = self._path
        if whole("lane", self.lane) not in path.lanes:
            only = " or ".join(map(str, path.lanes))
            raise InputError(f"lane = {self.lane}: with layout {path.name} of D, A begins at lane {only} (PTX ISA 9.1 §9.7.16.10.5)")
        check_columns("A", begin_column(self.column), self.columns)

    @functools.cached_property
    def _path(self) -> AccumulatorPath:
        return accumulator_path(self.m, self.cta_group, self.ws, self.sparse)

    @property
    def name(self) -> str:
        """The letter of the layout of D. A is in the same lanes."""
        return self._path.name

    @property
    def bits(self) -> int:
        """The bits of an element in tensor memory. Elements of 4 and 6 bits have a byte each in the 8-bit kinds."""
        return A_CONTAINER_BITS[self.kind]

    @property
    def k(self) -> int:
        """The number of stored elements of a row."""
        return A_ROW_BITS // self.bits

    @property
    def columns(self) -> int:
        """The number of columns that A occupies."""
        return A_ROW_BITS // CELL_BITS

    @property
    def copies(self) -> int:
        """The number of copies in tensor memory, in different lanes."""
        return self._path.split

    @property
    def grade(self) -> Grade:
        """The evidence grade of the layout on its architecture."""
        return A_GRADES[self._path.name][0]

    @property
    def source(self) -> str:
        """The document and section that give the layout."""
        return A_GRADES[self._path.name][1]

    def location(self, m: Any, k: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, lowest bit) of element (m, k)."""
        path = self._path
        m = indices("m", m, self.m, "the instruction has rows")
        k = indices("k", k, self.k, f"A of .kind::{self.kind} stores elements")
        copy = indices("copy", copy, self.copies, "A lies there as copies")
        m, k, copy = together(m, k, copy)
        column, bit = a_column(k, self.bits)
        lane = path_lane(m % path.rows, copy, path.rows, path.block, self.lane)
        cell: tuple[Any, Any, Any, Any] = assumed("a.cell", (m // path.rows, lane, self.column + column, bit), self, m, k, copy)
        return cell

    def element(self, cta: Any, lane: Any, column: Any, bit: Any = 0) -> tuple[Any, Any]:
        """(m, k) of the element of a bit of a cell. For an empty cell: InputError for numbers, -1 in arrays."""
        path = self._path
        cta, lane, column, bit = _cell(cta, lane, column, bit, self.cta_group)
        row, band = path_row(lane, path.rows, path.block, self.lane)
        at = column - self.column
        held = (row >= 0) & (band < path.split) & (at >= 0) & (at < self.columns)
        m, k = held * (cta * path.rows + row + 1) - 1, held * ((at * CELL_BITS + bit) // self.bits + 1) - 1
        found = _nothing("no element of A", (m, k), (cta, lane, column, bit), "cta, lane, column, bit")
        return found[0], found[1]


def _cell(cta: Any, lane: Any, column: Any, bit: Any, ctas: int) -> tuple[Any, ...]:
    return together(
        indices("cta", cta, ctas, "the instruction has CTAs"),
        indices("lane", lane, LANES, "tensor memory has lanes"),
        indices("column", column, COLUMNS, "tensor memory has columns"),
        indices("bit", bit, CELL_BITS, "a cell has bits"),
    )


@dataclasses.dataclass(frozen=True, repr=False)
class MetadataLayout(metaclass=OwnMembers):
    """The place of the sparsity metadata of tcgen05.mma.sp: 2, 1 or half a bit for each logical element of A.

    `m` is the instruction's; k counts logical elements. For kinds with one column the `selector` (instruction
    descriptor, bits 1:0) picks one of two, so `column` is even. With .ws and M below 128 every band of lanes has a
    copy. Compiled: CUTLASS tmem_e_frg. Raises Unmodelled for 64 rows a CTA without .ws, which are in figures only.

    >>> from smemsim import MetadataLayout
    >>> e = MetadataLayout(128, "f16", selector=1)
    >>> e.location(25, 20), e.element(0, 25, 1, 20)
    ((0, 25, 1, 20), (25, 20))
    """

    m: int
    kind: str
    cta_group: int = 1
    ws: bool = dataclasses.field(default=False, kw_only=True)
    selector: int = dataclasses.field(default=0, kw_only=True)
    column: int = dataclasses.field(default=0, kw_only=True)

    grade = Grade.COMPILED

    def __repr__(self) -> str:
        return layout_repr(self)

    def __post_init__(self) -> None:
        check_kind(self.kind, tuple(METADATA))
        plain(self, "m", "cta_group", "selector", "column")
        row, path = self._row, accumulator_path(self.m, self.cta_group, self.ws, True)
        if whole("selector", self.selector) not in row.selectors:
            only = " or ".join(map(str, row.selectors))
            raise InputError(f"selector = {self.selector}: metadata of .kind::{self.kind} has the selector {only} ({row.source})")
        if path.rows != LANES and not self.ws:
            raise Unmodelled(
                f"m = {self.m}, cta_group = {self.cta_group}: where metadata of {path.rows} rows a CTA lies is in figures only",
                see="smemsim.DISPUTES['metadata of M = 64']",
            )
        if self.ws and self.kind.startswith("mx"):
            raise InputError(f"ws: tcgen05.mma.ws has no .kind::{self.kind} (PTX ISA 9.1 §9.7.16.10.9.3)")
        if begin_column(self.column) % len(row.selectors):
            raise InputError(f"column = {self.column}: the selector picks the even or the odd column of a pair; give the even one")
        check_columns("metadata", self.column, self.columns)

    @property
    def _row(self) -> MetadataRow:
        return METADATA[self.kind]

    @property
    def source(self) -> str:
        """The document and section that give the layout."""
        return self._row.source

    @property
    def k(self) -> int:
        """The number of logical elements of a row."""
        return self._row.k

    @property
    def columns(self) -> int:
        """The number of columns, with the column that the selector leaves to another instruction."""
        return self._row.columns * len(self._row.selectors)

    @property
    def rows(self) -> int:
        """The number of rows in one CTA."""
        return self.m // self.cta_group

    @property
    def copies(self) -> int:
        """The number of copies in tensor memory, in different lanes."""
        return LANES // self.rows

    def location(self, m: Any, k: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, lowest bit) of the metadata of logical element (m, k). In .kind::mxf4 two
        elements share a bit.
        """
        row = self._row
        m = indices("m", m, self.m, "the instruction has rows")
        k = indices("k", k, self.k, f"A of .kind::{self.kind} has logical elements")
        m, k, copy = together(m, k, indices("copy", copy, self.copies, "the metadata lies there as copies"))
        inside, first = m % self.rows, self.column + self.selector
        if row.interleaved:
            lane, bit = metadata_lane_and_bit(inside, k, row.k, row.pair_bits)
            cell = m // self.rows, lane + copy * self.rows, first + 0 * lane, bit
        else:
            column, bit = metadata_bit(k, row.pair_bits)
            cell = m // self.rows, inside + copy * self.rows, first + column, bit
        found: tuple[Any, Any, Any, Any] = assumed("metadata.cell", cell, self, m, k)
        return found

    def element(self, cta: Any, lane: Any, column: Any, bit: Any) -> tuple[Any, Any]:
        """(m, k) of the first logical element that a bit belongs to. For an empty bit: InputError for numbers, -1 in
        arrays.
        """
        row = self._row
        cta, lane, column, bit = _cell(cta, lane, column, bit, self.cta_group)
        at = column - self.column - self.selector
        held = (at >= 0) & (at < row.columns)
        if row.interleaved:
            inside, k = metadata_row_and_k(lane % self.rows, bit, row.k, row.pair_bits)
        else:
            inside, k = lane % self.rows, metadata_element(at, bit, row.pair_bits)
        m, k = held * (cta * self.rows + inside + 1) - 1, held * (k + 1) - 1
        found = _nothing("no metadata", (m, k), (cta, lane, column, bit), "cta, lane, column, bit")
        return found[0], found[1]


# ---- `ScaleLayout`: the place of the scale factors of block-scaled kinds, in tensor memory and in the shared memory
# they are copied from


CELL_BYTES = CELL_BITS // 8
_KINDS = tuple(dict.fromkeys(kind for mode in SCALE_MODES for kind in mode.kinds))


@dataclasses.dataclass(frozen=True, repr=False)
class ScaleLayout(metaclass=OwnMembers):
    """The place of the scale factors of A or of B in tensor memory, for one tcgen05.mma of a block-scaled kind. A
    factor is a byte, repeated in every 32 lanes.

    - Operand: `operand`, "A" or "B".
    - Instruction: `m` and `n` (of the pair), and `kind`, "mxf8f6f4", "mxf4" or "mxf4nvf4".
    - Block size: `scale_vec`, "1X", "2X", "4X", "block16" or "block32". The names .blockN mean the same as .scale_vec,
      except with `k` 96 (sm_103a).
    - K: `k`, that of the instruction. Default: the dense one that is not 96.
    - Place: `scale_id`, SFA_ID or SFB_ID, and `column`, that of the scales' address.

    In a pair each CTA has the scales of its own rows of A, and all scales of B. With M = 128 the upper half of N is 64
    lanes further (TIRx-harness test_mxf8_cta2.py). Scales of K = 96 that do not fit the first cell continue in a second
    one, after the first cells of all rows.

    Documented: PTX ISA 9.1 §9.7.16.10.7. Compiled: the lanes of rows and the pairs (CUTLASS tmem_sf_frg), the second
    cell for 128 and 256 rows (CuTe DSL sm103_dense_blockscaled_gemm_persistent.py). Inferred: the second cell for other
    rows. Raises Unmodelled for a second cell in a pair with M = 128.

    >>> import smemsim
    >>> sfa = smemsim.ScaleLayout("A", m=128, n=64, kind="mxf8f6f4", scale_vec="1X")
    >>> sfa.location(5, 0)
    (0, 5, 0, 0)
    """

    operand: str
    m: int = dataclasses.field(kw_only=True)
    n: int = dataclasses.field(kw_only=True)
    kind: str = dataclasses.field(kw_only=True)
    scale_vec: str = dataclasses.field(kw_only=True)
    k: int | None = dataclasses.field(default=None, kw_only=True)
    cta_group: int = dataclasses.field(default=1, kw_only=True)
    scale_id: int = dataclasses.field(default=0, kw_only=True)
    column: int = dataclasses.field(default=0, kw_only=True)

    def __repr__(self) -> str:
        return layout_repr(self)

    def __post_init__(self) -> None:
        choice("operand", self.operand, ("A", "B"), "'A' or 'B'")
        plain(self, "m", "n", "k", "cta_group", "scale_id", "column")
        path = accumulator_path(self.m, self.cta_group, False, False)
        if path.m < LANES:
            raise InputError(f"m = {self.m}: block-scaled kinds have M = 128, or 256 with .cta_group::2 (PTX ISA 9.1 §9.7.16.2.1)")
        if whole("n", self.n) not in (allowed := legal_n(self.cta_group, False, False)):
            raise InputError(f"n = {self.n}: .cta_group::{self.cta_group} has N = {allowed[0]} to 256 in steps of {allowed[0]}")
        check_kind(self.kind, _KINDS)
        mode = self.mode
        if whole("scale_id", self.scale_id) not in mode.ids:
            only = ", ".join(map(str, mode.ids))
            raise InputError(f"scale_id = {self.scale_id}: {mode.name} has {mode.scales} scales a row, and the id {only} ({mode.source})")
        if path.split == 2 and self._cells > 1:
            raise Unmodelled(
                f"m = {self.m}, cta_group = 2: with K = {WIDE_K} and scale_id = {self.scale_id} the last scales lie in a second cell; how far behind "
                "the first in a pair with M = 128 is in no source",
                see="smemsim.DISPUTES['scales of K = 96']",
            )
        check_columns("scales", begin_column(self.column), self.columns)

    @functools.cached_property
    def mode(self) -> ScaleMode:
        """The row of the table that is meant."""
        names = tuple(dict.fromkeys(mode.name for mode in SCALE_MODES))
        asked = choice("scale_vec", self.scale_vec, names, " or ".join(names))
        kind = kind_of(self.kind)
        for mode in scale_modes(kind, wide_k=self.k == WIDE_K, asked=asked):
            if self.k is None or self.k in mode.k:
                return mode
        has = "; ".join(
            f"{mode.name} with K = {' or '.join(map(str, mode.k))}" for wide in (False, True) for mode in scale_modes(kind, wide_k=wide)
        )
        raise InputError(f"scale_vec = {shown(asked)}, k = {self.k}: .kind::{self.kind} has {has} (PTX ISA 9.1 §9.7.16.10.7.1)")

    @property
    def grade(self) -> Grade:
        """The evidence for the lanes. For K = 96: for the second cell."""
        return Grade.INFERRED if WIDE_K in self.mode.k and self.rows % LANES else Grade.COMPILED

    @property
    def source(self) -> str:
        """The document and section that give the layout."""
        return f"{self.mode.source}; CUTLASS tmem_sf_frg"

    @property
    def rows(self) -> int:
        """The number of rows of A in one CTA, or of columns of B."""
        return self.m // self.cta_group if self.operand == "A" else self.n

    @property
    def scales(self) -> int:
        """The number of factors of one row."""
        return self.mode.scales

    @property
    def _bands(self) -> int:
        return 2 if self.operand == "B" and self.cta_group == 2 and self.m == LANES else 1

    @property
    def _band_rows(self) -> int:
        return self.rows // self._bands

    @property
    def _cells(self) -> int:
        """Cells that the scales of one row lie in."""
        return -(-(self.scale_id + self.scales) // CELL_BYTES)

    @property
    def columns(self) -> int:
        """The number of columns from the first to the last cell that is read."""
        further, _ = scale_slot(self.scale_id, self.scales - 1, self.rows)
        return int(further) - (-self._band_rows // WARP_LANES)

    @property
    def copies(self) -> int:
        """The number of copies of each factor: in other lanes, and for B also in both CTAs of a pair."""
        return LANES // WARP_LANES // self._bands * (self.cta_group if self.operand == "B" else 1)

    def location(self, row: Any, index: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, byte) of factor `index` of row `row` (for B: of column n), in copy number
        `copy`.
        """
        total = self.m if self.operand == "A" else self.n
        row = indices("row", row, total, f"the scales of {self.operand} have rows")
        index = indices("index", index, self.scales, f"{self.mode.name} has scales")
        row, index, copy = together(row, index, indices("copy", copy, self.copies, "the scales lie there as copies"))
        further, byte = scale_slot(self.scale_id, index, self.rows)
        in_cta = self.copies // (self.cta_group if self.operand == "B" else 1)
        cta = row // self.rows if self.operand == "A" else copy // in_cta
        lane, column = scale_cell(row % self.rows, copy % in_cta, self._band_rows)
        cell: tuple[Any, Any, Any, Any] = assumed("scales.cell", (cta, lane, self.column + column + further, byte), self, row, index, copy)
        return cell

    def element(self, cta: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any]:
        """(row, index) of the factor in a byte of a cell. For an empty byte: InputError for numbers, -1 in arrays."""
        cta, lane, column, byte = together(
            indices("cta", cta, self.cta_group, "the instruction has CTAs"),
            indices("lane", lane, LANES, "tensor memory has lanes"),
            indices("column", column, COLUMNS, "tensor memory has columns"),
            indices("byte", byte, CELL_BYTES, "a cell has bytes"),
        )
        width, _ = scale_slot(0, CELL_BYTES, self.rows)  # columns from a row's first cell to its second
        at = column - self.column
        row, _ = scale_row(lane, at % width, self._band_rows, self._bands)
        index = at // width * CELL_BYTES + byte - self.scale_id
        held = (row >= 0) & (index >= 0) & (index < self.scales)
        row = row + (cta * self.rows if self.operand == "A" else 0)
        row, index = held * (row + 1) - 1, held * (index + 1) - 1
        if isinstance(row, np.ndarray):
            return row, index
        if row < 0:
            raise InputError(
                f"(cta, lane, column, byte) = {(cta, lane, column, byte)}: no scale of {self.operand} of this instruction lies there"
            )
        return int(row), int(index)

    def smem_offset(self, row: Any, index: Any) -> Any:
        """The byte of the factor in shared memory, in blocks of 512 bytes (128 rows x 4 factors) that
        `tcgen05.cp.32x128b.warpx4` copies.

        Compiled: CUTLASS SfAtom ((32,4),4):((16,4),1), DeepGEMM, JAX.
        """
        row = indices("row", row, 1 << 20, "rows are")
        index = indices("index", index, CELL_BYTES, "a block has scales")
        return scale_block_byte(*together(row, index))


# ---- The cells that tcgen05.mma touches, as arrays: of D, of A, of scale factors and of metadata; kept, because those
# of a kernel come again and again


Lanes = slice | np.ndarray
# CTA of the group, lanes, first column and end column: everything that one access touches
Box = tuple[int, Lanes, int, int]

Parts = tuple[tuple[np.ndarray, np.ndarray], ...]  # (lane, column) in each CTA
Copies = tuple[tuple[np.ndarray, ...], ...]  # (CTA, lane, column, unit of the cell), one entry a copy


@remembered(64)
def cells_of_d(layout: AccumulatorLayout) -> Parts:
    """(lanes, columns) of D's rows in each CTA, (rows, N)."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    _, lane, column = layout.location(m, n)
    rows = layout.m // layout.cta_group
    return tuple((lane[cta * rows : (cta + 1) * rows], column[cta * rows : (cta + 1) * rows]) for cta in range(layout.cta_group))


@remembered(64)
def cells_of_a(layout: ATmemLayout) -> Copies:
    """Cells of A's stored elements, (M, stored K), with the lowest bit of each."""
    m, k = np.meshgrid(np.arange(layout.m), np.arange(layout.k), indexing="ij")
    return tuple(layout.location(m, k, copy) for copy in range(layout.copies))


@remembered(64)
def cells_of_scales(layout: ScaleLayout) -> Copies:
    """Cells of scale factors, (rows, factors of a row), with the byte of each."""
    rows = layout.m if layout.operand == "A" else layout.n
    row, index = np.meshgrid(np.arange(rows), np.arange(layout.scales), indexing="ij")
    return tuple(layout.location(row, index, copy) for copy in range(layout.copies))


@remembered(64)
def cells_of_metadata(layout: MetadataLayout) -> Copies:
    """Cells of the metadata's sets of four bits, (M, sets of a row), with the lowest bit of each."""
    m, k = np.meshgrid(np.arange(layout.m), np.arange(0, layout.k, METADATA[layout.kind].chunk), indexing="ij")
    return tuple(layout.location(m, k, copy) for copy in range(layout.copies))


def copies_of(layout: ATmemLayout | ScaleLayout | MetadataLayout) -> Copies:
    """Cells of A, scale factors or metadata, as `cells_of_a` and its siblings give them."""
    if isinstance(layout, ATmemLayout):
        return cells_of_a(layout)
    return cells_of_scales(layout) if isinstance(layout, ScaleLayout) else cells_of_metadata(layout)


def lane_set(lanes: np.ndarray) -> Lanes:
    """Lanes as a slice where they follow one another."""
    each = distinct(lanes)
    first, last = int(each[0]), int(each[-1])
    return slice(first, last + 1) if last - first + 1 == len(each) else each


@remembered(64)
def boxes_of_d(layout: AccumulatorLayout) -> tuple[Box, ...]:
    """Where D lies, a box in each CTA."""
    return tuple((cta, lane_set(lane), int(column.min()), int(column.max()) + 1) for cta, (lane, column) in enumerate(cells_of_d(layout)))


@remembered(64)
def boxes_of(layout: ATmemLayout | ScaleLayout | MetadataLayout) -> tuple[Box, ...]:
    """Where A, scale factors or metadata lie, all copies of them, a box in each CTA that has any."""
    copies = copies_of(layout)
    cta, lane, column = (np.stack([copy[n] for copy in copies]) for n in range(3))
    boxes = []
    for number in distinct(cta).tolist():
        mine = cta == number
        boxes.append((number, lane_set(lane[mine]), int(column[mine].min()), int(column[mine].max()) + 1))
    return tuple(boxes)
