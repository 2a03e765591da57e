"""What tcgen05.mma reads from tensor memory: `ATmemLayout`, `ScaleLayout` and `MetadataLayout`.

Several of these lie there more than once: `copies` says how often, and `location(..., copy=i)` where the i-th time.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.addressing.tensor_memory import (
    a_column,
    metadata_bit,
    metadata_element,
    metadata_lane_and_bit,
    metadata_row_and_k,
    path_lane,
    path_row,
)
from smemsim.arguments import choice, whole
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.address import check_columns, indices, layout_repr, plain, together
from smemsim.machine.tmem.layout import accumulator_path
from smemsim.spec.evidence import Grade
from smemsim.spec.tensor_memory import A_CONTAINER_BITS, A_GRADES, CELL_BITS, COLUMNS, LANES, METADATA, AccumulatorPath, MetadataRow

__all__ = ["ATmemLayout", "MetadataLayout", "begin_column", "check_kind"]

A_BITS = 256  # of a row of A that one instruction reads


def check_kind(kind: Any, kinds: tuple[str, ...]) -> str:
    """InputError unless it is one of these kinds of tcgen05.mma."""
    return choice("kind", kind, kinds, " or ".join(kinds))


def begin_column(value: Any) -> int:
    """The first column as an int."""
    column: int = indices("column", whole("column", value), COLUMNS, "tensor memory has columns")
    return column


def _nothing(what: str, found: tuple[Any, ...], given: tuple[Any, ...], names: str) -> tuple[Any, ...]:
    """Numbers as ints, or InputError where they are negative; arrays as they are."""
    if isinstance(found[0], np.ndarray):
        return found
    if found[0] < 0:
        raise InputError(f"({names}) = {given}: {what} lies there")
    return tuple(int(value) for value in found)


@dataclasses.dataclass(frozen=True, repr=False)
class ATmemLayout:
    """Where A of one tcgen05.mma lies when it comes from tensor memory: in the lanes of D, 256 bits a row, that is 8 columns.

    `m`, `cta_group`, `ws`, `sparse` and `lane` are those of the instruction, see AccumulatorLayout; k counts stored elements (of a sparse A
    the kept ones). Each band of N reads A from its own lanes: with the layouts B, E and G of D, A lies there twice, twice and four times.
    Compiled: CUTLASS TmemAllocMode::Duplicated (layout B), FlashMLA (E); `grade` and `source` say which.

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
            raise InputError(f"lane = {self.lane}: with layout {path.name} of D, A begins at lane {only} (PTX ISA 9.7.16.10.5)")
        check_columns("A", begin_column(self.column), self.columns)

    @functools.cached_property
    def _path(self) -> AccumulatorPath:
        return accumulator_path(self.m, self.cta_group, self.ws, self.sparse)

    @property
    def name(self) -> str:
        """The letter of the layout of D, whose lanes A has."""
        return self._path.name

    @property
    def bits(self) -> int:
        """Bits of an element in tensor memory; the 4- and 6-bit types of the 8-bit kinds have a byte each."""
        return A_CONTAINER_BITS[self.kind]

    @property
    def k(self) -> int:
        """Elements of a row that are stored."""
        return A_BITS // self.bits

    @property
    def columns(self) -> int:
        """Columns it occupies."""
        return A_BITS // CELL_BITS

    @property
    def copies(self) -> int:
        """How often it lies there, in different lanes."""
        return self._path.split

    @property
    def grade(self) -> Grade:
        """How sure it is."""
        return A_GRADES[self._path.name][0]

    @property
    def source(self) -> str:
        """Where it stands."""
        return A_GRADES[self._path.name][1]

    def location(self, m: Any, k: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, lowest bit) of element (m, k)."""
        path = self._path
        m = indices("m", m, self.m, "the instruction has rows")
        k = indices("k", k, self.k, f"A of .kind::{self.kind} stores elements")
        copy = indices("copy", copy, self.copies, "A lies there as copies")
        m, k, copy = together(m, k, copy)
        column, bit = a_column(k, self.bits)
        return m // path.rows, path_lane(m % path.rows, copy, path.rows, path.block, self.lane), self.column + column, bit

    def element(self, cta: Any, lane: Any, column: Any, bit: Any = 0) -> tuple[Any, Any]:
        """(m, k) of the element that a bit of a cell belongs to. Where none lies there: InputError for numbers, -1 in arrays."""
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
class MetadataLayout:
    """Where the sparsity metadata of tcgen05.mma.sp lies: 2, 1 or half a bit for each logical element of A.

    `m` is the instruction's; k counts logical elements. Of the kinds with one column the `selector` (instruction descriptor, bits 1:0) picks
    one of two, so that `column` is even. With .ws and M below 128 every band of lanes has a copy.
    Compiled: CUTLASS tmem_e_frg. Raises Unmodelled for 64 rows a CTA without .ws, which are in figures only.

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
            raise InputError(f"ws: tcgen05.mma.ws has no .kind::{self.kind} (PTX ISA 9.7.16.10.9.3)")
        if begin_column(self.column) % len(row.selectors):
            raise InputError(f"column = {self.column}: the selector picks the even or the odd column of a pair; give the even one")
        check_columns("metadata", self.column, self.columns)

    @property
    def _row(self) -> MetadataRow:
        return METADATA[self.kind]

    @property
    def source(self) -> str:
        """Where it stands."""
        return self._row.source

    @property
    def k(self) -> int:
        """Logical elements of a row."""
        return self._row.k

    @property
    def columns(self) -> int:
        """Columns that belong to it, with the one that the selector leaves to another instruction."""
        return self._row.columns * len(self._row.selectors)

    @property
    def rows(self) -> int:
        """Rows in one CTA."""
        return self.m // self.cta_group

    @property
    def copies(self) -> int:
        """How often it lies there, in different lanes."""
        return LANES // self.rows

    def location(self, m: Any, k: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, lowest bit) of what logical element (m, k) has of the metadata; two share a bit of .kind::mxf4."""
        row = self._row
        m = indices("m", m, self.m, "the instruction has rows")
        k = indices("k", k, self.k, f"A of .kind::{self.kind} has logical elements")
        m, k, copy = together(m, k, indices("copy", copy, self.copies, "the metadata lies there as copies"))
        inside, first = m % self.rows, self.column + self.selector
        if row.interleaved:
            lane, bit = metadata_lane_and_bit(inside, k, row.k, row.pair_bits)
            return m // self.rows, lane + copy * self.rows, first + 0 * lane, bit
        column, bit = metadata_bit(k, row.pair_bits)
        return m // self.rows, inside + copy * self.rows, first + column, bit

    def element(self, cta: Any, lane: Any, column: Any, bit: Any) -> tuple[Any, Any]:
        """(m, k) of the first logical element that a bit belongs to. Where none lies: InputError for numbers, -1 in arrays."""
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
