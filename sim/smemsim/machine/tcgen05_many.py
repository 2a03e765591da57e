"""The tcgen05.mma of several CTAs at once, for those who run kernels: D in tensor memory, and the cells that were touched, nothing more."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import Factors, Options, multiply_tiles, row_of
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import shared_grade
from smemsim.machine.tcgen05 import disputes_of, grade_of
from smemsim.machine.tcgen05_checks import check_instruction, enabled, instruction, scale_of_d, zero_columns
from smemsim.machine.tcgen05_operands import DECOMPRESSION_OF, factors_of, index_of, layout_of_a, layout_of_metadata, layouts_of_scales
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.cells import Box, boxes_of, boxes_of_d, cells_of_a, cells_of_d, lane_set
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.spec.evidence import Grade
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import SM100_SMEM_DESC
from smemsim.spec.tensor_memory import COLUMNS

__all__ = ["Issue", "Touched", "tcgen05_mma_many"]


@dataclasses.dataclass(frozen=True, eq=False)
class Issue:
    """The operands of one tcgen05.mma, as `tcgen05_mma` has them; one memory for each CTA of the group."""

    tensor: tuple[TensorMemory, ...]
    shared: tuple[SharedMemory, ...]
    d: int
    a: int | TmemAddress
    b: int
    enable_input_d: bool = True
    scale_input_d: int = 0
    disable_output_lane: tuple[int, ...] = ()
    scale_a: int | None = None
    scale_b: int | None = None
    metadata: int | None = None
    zero_column_mask: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Touched:
    """What one of them did: the boxes of tensor memory that it `reads` and `writes`.

    `unwritten` says that bytes of shared memory were read that nobody wrote; `grade` and `disputes` are those of `MmaResult`.
    """

    reads: tuple[Box, ...]
    writes: tuple[Box, ...]
    unwritten: bool
    grade: Grade
    disputes: tuple[str, ...]


def tcgen05_mma_many(
    issues: Sequence[Issue], idesc: int, *, kind: str, ws: bool = False, scale_vec: str | None = None
) -> tuple[InstrDescriptor, list[Touched]]:
    """`tcgen05_mma` for several independent instructions of one form; the same operands, errors and results in tensor memory.

    Returns the instruction descriptor's meaning, and what each of them touched. Owners of cells are not looked at.

    >>> from smemsim.descriptors.smem import SmemDescriptor
    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a", owners=False)
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256).encode()
    >>> one = Issue((tmem,), (shared,), tmem.alloc(32).encode(), word, word, enable_input_d=False)
    >>> i, (touched,) = tcgen05_mma_many([one], 0x08040490, kind="f16")
    >>> float(tmem.cells[127, :16].view(np.float32)[15]), touched.writes
    (16.0, ((0, slice(0, 128, None), 0, 16),))
    """
    i = _descriptor(idesc, kind)
    prepared = [_prepare(i, issue, ws, scale_vec) for issue in issues]
    results: list[np.ndarray | None] = [None] * len(prepared)
    plain = [n for n, p in enumerate(prepared) if p.options == prepared[0].options and p.index is None and len(p.a) == 1]
    if len(plain) > 1:
        d = _multiply(i, [prepared[n] for n in plain])
        for n, values in zip(plain, d, strict=True):
            results[n] = values
    for n, p in enumerate(prepared):
        done = results[n]
        _write(p, _multiply(i, [p])[0] if done is None else done)
    return i, [p.touched for p in prepared]


@dataclasses.dataclass(frozen=True, eq=False)
class _Prepared:
    """Everything that is read, before anything is written."""

    tensor: tuple[TensorMemory, ...]
    a: list[np.ndarray]  # for each band of N
    b: np.ndarray
    c: np.ndarray
    cells: tuple[np.ndarray, ...]
    written: np.ndarray | None
    index: np.ndarray | None
    factors: Factors | None
    options: Options
    touched: Touched


@functools.lru_cache(maxsize=64)
def _descriptor(idesc: int, kind: str) -> InstrDescriptor:
    return instruction(idesc, kind)


@functools.lru_cache(maxsize=256)
def _checked(
    i: InstrDescriptor, arch: str, lane_d: int, lane_a: int | None, mode_a: int, mode_b: int, cta_group: int, ws: bool, scale_vec: str | None,
    has: tuple[bool, bool, bool],
) -> None:  # fmt: skip
    """`check_instruction`, once for everything that it depends on: of the descriptors' words that is the swizzle."""
    given = [0 if there else None for there in has]
    a: Any = TmemAddress(lane_a, 0) if lane_a is not None else mode_a
    check_instruction(
        i, arch, TmemAddress(lane_d, 0), a, mode_b, cta_group=cta_group, ws=ws, scale_vec=scale_vec, scale_a=given[0], scale_b=given[1],
        metadata=given[2],
    )  # fmt: skip


_LAYOUT = SM100_SMEM_DESC.fields["layout_type"]
_SWIZZLE = _LAYOUT.mask << _LAYOUT.low


def _prepare(i: InstrDescriptor, issue: Issue, ws: bool, scale_vec: str | None) -> _Prepared:
    tensor, group = issue.tensor, len(issue.tensor)
    for memory in tensor:
        memory.check_group(group)
    arch, at = tensor[0].arch, TmemAddress.decode(issue.d, "d")
    in_tensor = isinstance(issue.a, TmemAddress)
    _checked(
        i, arch, at.lane, issue.a.lane if isinstance(issue.a, TmemAddress) else None, 0 if isinstance(issue.a, TmemAddress) else issue.a & _SWIZZLE,
        issue.b & _SWIZZLE, group, ws, scale_vec, (issue.scale_a is not None, issue.scale_b is not None, issue.metadata is not None),
    )  # fmt: skip
    layout = AccumulatorLayout(i.m, i.n, group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    cells = _flat_d(layout)
    zero = zero_columns(issue.zero_column_mask, i, layout, ws)
    shift = scale_of_d(i, issue.scale_input_d, ws)
    written = enabled(issue.disable_output_lane, i, cells_of_d(layout), ws)
    reads: list[Box] = []
    b, unwritten, grade = _shared(i, "B", issue.b, issue.shared)
    if zero is not None:
        b = np.where(zero[:, None], 0, b)
    if isinstance(issue.a, TmemAddress):
        of_a = layout_of_a(i, issue.a, group, ws=ws)
        a = [_tensor_a(i.a_type, of_a.bits, copy, tensor) for copy in cells_of_a(of_a)]
        reads += boxes_of(of_a)
        contained = DECOMPRESSION_OF.get(i.a_type) if of_a.bits == 8 else None
        grade = _weaker(grade, of_a.grade, *([contained.grade] if contained else []))
    else:
        bits, missing, graded = _shared(i, "A", issue.a, issue.shared)
        a, unwritten, grade = [bits], unwritten or missing, _weaker(grade, graded)
    factors = index = None
    if i.row.block_scaled:
        layouts = layouts_of_scales(i, issue.scale_a, issue.scale_b, group, scale_vec=scale_vec)
        factors, _ = factors_of(i, layouts, tensor)
        reads += [*boxes_of(layouts[0]), *boxes_of(layouts[1])]
        grade = _weaker(grade, *(one.grade for one in layouts))
    if i.sparsity:
        of_metadata = layout_of_metadata(i, issue.metadata, group, ws=ws)
        index, _ = index_of(i, of_metadata, tensor, a)
        reads += boxes_of(of_metadata)
        grade = _weaker(grade, of_metadata.grade)
    half = i.d_type == "f16"
    if issue.enable_input_d:
        c = np.concatenate([memory.cells.reshape(-1)[flat] for memory, flat in zip(tensor, cells, strict=True)])
        c = c.astype(np.uint16) if half else c
        reads += boxes_of_d(layout)
    else:
        c = np.zeros((i.m, i.n), np.uint16 if half else np.uint32)
    writes = boxes_of_d(layout)
    for cta, _, first, end in writes:
        tensor[cta].check_allocated(0, np.arange(first, end))
    if written is not None:
        rows = i.m // group
        on = [cells_of_d(layout)[cta][0][written[cta * rows : (cta + 1) * rows]] for cta in range(group)]
        writes = tuple((cta, lane_set(on[cta]), first, end) for cta, _, first, end in writes if on[cta].size)
    touched = Touched(
        tuple(reads), writes, unwritten, grade_of(i, layout, [grade], masked=zero is not None),
        disputes_of(i, layout, a_in_tensor=in_tensor, masked=zero is not None),
    )  # fmt: skip
    return _Prepared(
        tensor, a, b, c, cells, written, index, factors, Options(i.negate_a, i.negate_b, shift, i.saturate), touched,
    )  # fmt: skip


def _shared(i: InstrDescriptor, operand: str, word: int, shared: tuple[SharedMemory, ...]) -> tuple[np.ndarray, bool, Grade]:
    """(bits, did nobody write some of them, what the addresses rest on): each CTA gives its half of the rows."""
    dtype, major = (i.a_type, i.a_major) if operand == "A" else (i.b_type, i.b_major)
    rows = (i.m if operand == "A" else i.n) // len(shared)
    k = i.k // 2 if operand == "A" and i.sparsity else i.k
    parts = [memory.operand_bits(word, dtype=dtype, major=major, rows=rows, k=k, packing=i.row.packing) for memory in shared]
    grade = _shared_grade(word, shared[0].arch, dtype, major, k, i.row.packing)
    return parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts]), any(part[1] for part in parts), grade


_shared_grade = functools.lru_cache(maxsize=512)(shared_grade)


def _tensor_a(dtype: str, container: int, copy: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...]) -> np.ndarray:
    """A's elements, (M, stored K), of one copy."""
    contained = DECOMPRESSION_OF.get(dtype) if container == 8 else None
    bits, shift = element_format(dtype).bits, contained.shift if contained else 0
    cta, lane, column, bit = copy
    words = _gather(tensor, cta, lane, column)
    raw = words >> (bit + shift).astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))


def _gather(tensor: tuple[TensorMemory, ...], cta: np.ndarray, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    if len(tensor) == 1:
        return tensor[0].read(lane, column)  # type: ignore[no-any-return]
    words = np.empty(cta.shape, np.uint32)
    for number, memory in enumerate(tensor):
        mine = cta == number
        words[mine] = memory.read(lane[mine], column[mine])
    return words


@functools.lru_cache(maxsize=64)
def _flat_d(layout: AccumulatorLayout) -> tuple[np.ndarray, ...]:
    """D's cells in each CTA, (rows, N)."""
    return tuple(lane * COLUMNS + column for lane, column in cells_of_d(layout))


def _weaker(*grades: Grade) -> Grade:
    return max(grades, key=list(Grade).index)


def _multiply(i: InstrDescriptor, prepared: Sequence[_Prepared]) -> list[np.ndarray]:
    """D of instructions that differ in nothing but their operands, or of a single one."""
    first = prepared[0]
    row, types = row_of(i.kind, i.a_type, i.b_type, i.d_type), (i.a_type, i.b_type, i.d_type)
    width = i.n // len(first.a)
    out = []
    for band, _ in enumerate(first.a):
        part = slice(band * width, (band + 1) * width)
        b, c = (np.stack([getattr(p, name) for p in prepared]) for name in ("b", "c"))
        factors = None
        if first.factors is not None:
            scales = [p.factors for p in prepared if p.factors is not None]
            factors = first.factors.of(np.stack([f.a for f in scales]), np.stack([f.b for f in scales])[:, part])
        out.append(
            multiply_tiles(
                np.stack([p.a[band] for p in prepared]), b[:, part], np.ascontiguousarray(c[:, :, part]), row=row, types=types,
                index=first.index, options=first.options, factors=factors,
            )
        )  # fmt: skip
    return list(np.concatenate(out, axis=2) if len(out) > 1 else out[0])


def _write(p: _Prepared, d: np.ndarray) -> None:
    first = 0
    for memory, flat in zip(p.tensor, p.cells, strict=True):
        values = d[first : first + len(flat)].astype(np.uint32, copy=False)
        if p.written is None:
            memory.cells.reshape(-1)[flat] = values
        else:
            on = p.written[first : first + len(flat)]
            memory.cells.reshape(-1)[flat[on]] = values[on]
        first += len(flat)
