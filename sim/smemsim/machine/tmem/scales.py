"""`ScaleLayout`: where the scale factors of the block-scaled kinds lie in tensor memory, and in the shared memory they are copied from.

>>> sfa = ScaleLayout("A", m=128, n=256, kind="mxf4nvf4", scale_vec="4X")
>>> sfa.location(70, 2), sfa.location(70, 2, copy=3), sfa.smem_offset(70, 2)
((0, 6, 2, 2), (0, 102, 2, 2), 106)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.addressing.tensor_memory import scale_block_byte, scale_cell, scale_row, scale_slot
from smemsim.arguments import choice, shown, whole
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.address import check_columns, indices, layout_repr, plain, together
from smemsim.machine.tmem.layout import accumulator_path, legal_n
from smemsim.machine.tmem.operands import begin_column, check_kind
from smemsim.spec.evidence import Grade
from smemsim.spec.tcgen05 import WIDE_K, kind_of, scale_modes
from smemsim.spec.tensor_memory import CELL_BITS, COLUMNS, LANES, SCALE_MODES, WARP_LANES, ScaleMode

__all__ = ["ScaleLayout"]

CELL_BYTES = CELL_BITS // 8
_KINDS = tuple(dict.fromkeys(kind for mode in SCALE_MODES for kind in mode.kinds))


@dataclasses.dataclass(frozen=True, repr=False)
class ScaleLayout:
    """Where the scale factors of A or of B lie, for one tcgen05.mma of a block-scaled kind: a byte each, in every 32 lanes again.

    `operand` is "A" or "B"; `m` and `n` the instruction's (the pair's); `kind` "mxf8f6f4", "mxf4" or "mxf4nvf4"; `scale_vec` "1X", "2X",
    "4X", "block16" or "block32" (.blockN stand for .scale_vec, but with `k` 96, sm_103a); `k` the instruction's K (by default a dense one
    that is not 96); `scale_id` SFA_ID or SFB_ID; `column` that of the scales' address. Of a pair each CTA has the scales of its own rows of
    A, and all of those of B; with M = 128 the upper half of N lies 64 lanes further. Documented: PTX ISA 9.7.16.10.7; the lanes of rows and
    the pairs: compiled, CUTLASS tmem_sf_frg. Scales of K = 96 that have no room in the first cell go on in a second one, behind the first cells of
    all rows (compiled for 128 and 256 rows: CuTe DSL sm103_dense_blockscaled_gemm_persistent.py; inferred for others). Raises Unmodelled where
    that is so in a pair with M = 128, which no program shows.
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
            raise InputError(f"m = {self.m}: block-scaled kinds have M = 128, or 256 with .cta_group::2 (PTX ISA 9.7.16.2.1)")
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
        if self.operand == "B" and path.split == 2 and self.n % (2 * WARP_LANES):
            raise Unmodelled(
                f"n = {self.n}: with M = 128 and .cta_group::2 each half of N has its own 64 lanes; what halves that are no multiple of 32 "
                "do is in no source"
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
        raise InputError(f"scale_vec = {shown(asked)}, k = {self.k}: .kind::{self.kind} has {has} (PTX ISA 9.7.16.10.7.1)")

    @property
    def grade(self) -> Grade:
        """How sure the lanes are, and of K = 96 the second cell."""
        return Grade.INFERRED if WIDE_K in self.mode.k and self.rows % LANES else Grade.COMPILED

    @property
    def source(self) -> str:
        """Where it stands."""
        return f"{self.mode.source}; CUTLASS tmem_sf_frg"

    @property
    def rows(self) -> int:
        """Rows of A in one CTA, or columns of B."""
        return self.m // self.cta_group if self.operand == "A" else self.n

    @property
    def scales(self) -> int:
        """Scales of one row."""
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
        """Columns from the first to the last whose cells are read."""
        further, _ = scale_slot(self.scale_id, self.scales - 1, self.rows)
        return int(further) - (-self._band_rows // WARP_LANES)

    @property
    def copies(self) -> int:
        """How often each scale lies there: in other lanes, and those of B in both CTAs of a pair."""
        return LANES // WARP_LANES // self._bands * (self.cta_group if self.operand == "B" else 1)

    def location(self, row: Any, index: Any, copy: Any = 0) -> tuple[Any, Any, Any, Any]:
        """(CTA of the pair, lane, column, byte) of scale `index` of row `row` (of N for B), for the `copy`-th time."""
        total = self.m if self.operand == "A" else self.n
        row = indices("row", row, total, f"the scales of {self.operand} have rows")
        index = indices("index", index, self.scales, f"{self.mode.name} has scales")
        row, index, copy = together(row, index, indices("copy", copy, self.copies, "the scales lie there as copies"))
        further, byte = scale_slot(self.scale_id, index, self.rows)
        in_cta = self.copies // (self.cta_group if self.operand == "B" else 1)
        cta = row // self.rows if self.operand == "A" else copy // in_cta
        lane, column = scale_cell(row % self.rows, copy % in_cta, self._band_rows)
        return cta, lane, self.column + column + further, byte

    def element(self, cta: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any]:
        """(row, index) of the scale in a byte of a cell. Where none of them lies: InputError for numbers, -1 in arrays."""
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
        """Byte of the scale in the blocks of 128 rows x 4 scales that `tcgen05.cp.32x128b.warpx4` copies, 512 bytes each.

        Compiled: CUTLASS SfAtom ((32,4),4):((16,4),1), DeepGEMM, JAX.
        """
        row = indices("row", row, 1 << 20, "rows are")
        index = indices("index", index, CELL_BYTES, "a block has scales")
        return scale_block_byte(*together(row, index))
