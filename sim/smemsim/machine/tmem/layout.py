"""`AccumulatorLayout`: where the elements of D lie, for every shape of tcgen05.mma.

>>> d = AccumulatorLayout(m=128, n=256, cta_group=2)
>>> d
AccumulatorLayout(m=128, n=256, cta_group=2)  # layout B, 2x2, compiled
>>> d.location(70, 200), d.element(1, 70, 72)
((1, 70, 72), (70, 200))
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.addressing.tensor_memory import accumulator_cell, accumulator_element, path_lane
from smemsim.arguments import flag, in_steps, whole
from smemsim.errors import InputError
from smemsim.machine.tmem.address import check_columns, indices, together
from smemsim.spec.evidence import Grade
from smemsim.spec.tcgen05 import SHAPES
from smemsim.spec.tensor_memory import ACCUMULATORS, COLUMNS, LANES, AccumulatorPath

__all__ = ["AccumulatorLayout", "accumulator_path", "legal_n"]


def accumulator_path(m: Any, cta_group: Any, ws: Any, sparse: Any) -> AccumulatorPath:
    """The organization of D for these; InputError where tcgen05.mma has no such shape."""
    m, cta_group = whole("m", m), whole("cta_group", cta_group)
    ws, sparse = flag("ws", ws), flag("sparse", sparse)
    if cta_group not in (1, 2):
        raise InputError(f"cta_group = {cta_group}: there are .cta_group::1 and .cta_group::2")
    if ws and cta_group == 2:
        raise InputError("ws: tcgen05.mma.ws exists for .cta_group::1 only (PTX ISA 9.7.16.10.9.3)")
    fitting = [p for p in ACCUMULATORS if p.cta_group == cta_group and p.ws in (None, ws) and p.sparse in (None, sparse)]
    for path in fitting:
        if path.m == m:
            return path
    sizes = " or ".join(str(n) for n in sorted({p.m for p in fitting}))
    form = f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if sparse else ''}.cta_group::{cta_group}"
    pair = ", the rows of both CTAs" if cta_group == 2 else ""
    raise InputError(f"m = {m}: {form} has M = {sizes}{pair} (PTX ISA 9.7.16.2.1)")


def legal_n(cta_group: int, ws: bool, sparse: bool) -> tuple[int, ...]:
    """Every N that some kind of tcgen05.mma has; the kinds differ (integers have fewer). PTX ISA 9.7.16.2.1."""
    rows = (s for s in SHAPES if (s.cta_group, s.ws) == (cta_group, ws) and s.sparse in (None, sparse))
    return tuple(sorted({n for row in rows for n in row.n}))


@dataclasses.dataclass(frozen=True, repr=False)
class AccumulatorLayout:
    """Where D of one tcgen05.mma lies in tensor memory: a cell of 32 bits for each element, of 16-bit types its lower half.

    `m` and `n` are those of the instruction (of the pair, with `cta_group` 2). `lane` and `column` are those of the address of D: lane 0,
    or 16 for the layouts that use half of the lanes. `name` is the layout's letter in the PTX ISA, `grade` and `source` what it rests on;
    none has been measured. Raises InputError for shapes that tcgen05.mma does not have, Unmodelled past the last column.
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
                f"n = {n}: {'.ws has' if self.ws else f'.cta_group::{self.cta_group} has'} N = {in_steps(allowed)} (PTX ISA 9.7.16.2.1)"
            )
        lane = whole("lane", self.lane)
        if lane not in path.lanes:
            only = " or ".join(map(str, path.lanes))
            raise InputError(f"lane = {lane}: layout {path.name} begins at lane {only} (PTX ISA 9.7.16.10.5)")
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
        """How sure it is."""
        return self._path.grade

    @property
    def source(self) -> str:
        """Where it stands."""
        return self._path.source

    @property
    def datapath(self) -> str:
        """The PTX ISA's name of the data path: 4x1, 2x2, 1x4."""
        return self._path.datapath

    @property
    def columns(self) -> int:
        """Columns it occupies in each CTA."""
        return self.n // self._path.split

    @property
    def lanes(self) -> np.ndarray:
        """int64: the lanes it occupies in each CTA, ascending."""
        path = self._path
        row, band = np.meshgrid(np.arange(path.rows), np.arange(path.split))
        found: np.ndarray = np.sort(path_lane(row, band, path.rows, path.block, self.lane).ravel())
        return found

    def location(self, m: Any, n: Any) -> tuple[Any, Any, Any]:
        """(CTA of the pair, lane, column) of element (m, n); whole numbers, or arrays that broadcast, for arrays of that shape.

        >>> AccumulatorLayout(64, 8).location(20, 3)    # layout F: 16 rows in every 32 lanes
        (0, 36, 3)
        """
        path = self._path
        m = indices("m", m, self.m, "the instruction has rows")
        n = indices("n", n, self.n, "the instruction has columns")
        m, n = together(m, n)
        cta, lane, column = accumulator_cell(m, n, self.columns, path.rows, path.block, self.lane)
        return cta, lane, self.column + column

    def element(self, cta: Any, lane: Any, column: Any) -> tuple[Any, Any]:
        """(m, n) of the element in a cell. Where none lies there: InputError for numbers, -1 in arrays.

        >>> AccumulatorLayout(64, 8).element(0, 36, 3)
        (20, 3)
        >>> AccumulatorLayout(64, 8).element(0, 16, 3)
        Traceback (most recent call last):
        smemsim.errors.InputError: CTA 0, lane 16, column 3: no element of D; layout F (64 x 8) has columns 0 to 7, lanes 0 to 15 of every 32
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
