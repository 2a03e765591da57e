"""`tcgen05_mma`: one tcgen05.mma on the memories of a CTA or a pair, every term known by address and by tensor coordinate."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.arguments import flag
from smemsim.arithmetic.multiply import multiply, row_of
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.instr_problems import shape_disputes
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaResult
from smemsim.machine.tcgen05_checks import check_instruction, enabled, instruction, scale_of_d, zero_columns
from smemsim.machine.tcgen05_operands import DECOMPRESSION_OF, read_a_from_tensor, read_factors, read_index, read_shared
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.cells import Parts, cells_of_d
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.machine.tmem.pairs import check_together, memories_of
from smemsim.spec.evidence import RULES, Grade
from smemsim.spec.formats import element_format

__all__ = ["TmemMma", "disputes_of", "grade_of", "tcgen05_mma"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TmemMma:
    """One CTA's part of a tcgen05.mma as a writer of tensor memory: rows `first_row` on of `result.d`."""

    result: MmaResult
    cta: int
    first_row: int

    def where(self, place: int) -> tuple[int, ...]:
        """(m, n, byte) of the byte `place`."""
        m, n = divmod(place // 4, self.result.d.shape[1])
        return self.first_row + m, n, place % 4

    def unsure(self, places: np.ndarray) -> np.ndarray:
        """Which of the bytes `places` belong to elements that the instruction was not certain of."""
        m, n = np.divmod(places // 4, self.result.d.shape[1])
        return np.asarray(~self.result.certain[self.first_row + m, n])

    def __repr__(self) -> str:
        return f"<CTA {self.cta} of {self.result!r}>"


def tcgen05_mma(
    tensor_memory: TensorMemory | tuple[TensorMemory, TensorMemory],
    d: int | TmemAddress,
    a: int | SmemDescriptor | TmemAddress,
    b: int | SmemDescriptor,
    idesc: int | InstrDescriptor,
    *,
    shared: SharedMemory | tuple[SharedMemory, SharedMemory],
    kind: str | None = None,
    cta_group: int = 1,
    ws: bool = False,
    enable_input_d: bool = True,
    scale_input_d: int = 0,
    disable_output_lane: tuple[int, ...] = (),
    scale_a: int | TmemAddress | None = None,
    scale_b: int | TmemAddress | None = None,
    scale_vec: str | None = None,
    metadata: int | TmemAddress | None = None,
    zero_column_mask: int = 0,
) -> MmaResult:
    """`tcgen05.mma`: D = A * B + D of one instruction, read through the descriptors and written to tensor memory.

    `d` is the address of D; `a` a shared-memory descriptor, or a `TmemAddress` for A in tensor memory; `b` a descriptor; `idesc` the
    instruction descriptor (a word needs `kind`). With `cta_group` 2 both memories are pairs, of the even CTA and its peer, and the same
    descriptors and addresses hold in both. `scale_a`, `scale_b` are the addresses of the scale factors of block-scaled kinds, `scale_vec`
    "1X", "2X", "4X" (or "block16", "block32"), `metadata` that of a sparse A; `scale_input_d` divides the D that is added by 2^n.

    The instruction is done when the call returns: there is no commit and no fence to forget here. The result has both operands with
    addresses and owners, `terms(m, n)`, and D. Operand addresses and places in tensor memory carry their grade (`result.grade`):
    documented, compiled or inferred, nothing is measured on Blackwell; `result.disputes` names what sources disagree about. What the
    elements come to is inferred from public studies (`result.arithmetic`); `result.certain` says where no datapath known to us comes to other
    bits; it is False where D depends on what nobody wrote, or on what an earlier instruction was not certain of.

    Raises InputError for an instruction that does not exist, with the first rule it breaks, HardwareTrap when an operand leaves the shared
    window, Unmodelled for what nobody knows; nothing is written then.

    >>> from smemsim.machine.memory import SharedMemory
    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a")
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))                  # ones in 8 x 16 B blocks, both operands
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    >>> result = tcgen05_mma(tmem, tmem.alloc(32), word, word, 0x08040490, kind="f16", shared=shared, enable_input_d=False)
    >>> result
    <tcgen05.mma.cta_group::1.kind::f16: 128 x 16 f32; addresses compiled; arithmetic inferred, no element depends on it>
    >>> float(tmem.cells[127, :16].view(np.float32)[15]), result.terms(9, 3)[0].a.place
    (16.0, 'shared 0x510')
    """
    i = instruction(idesc, kind)
    tensor = memories_of("tensor_memory", tensor_memory, TensorMemory, cta_group)
    memories = memories_of("shared", shared, SharedMemory, cta_group)
    check_together(tensor, memories, cta_group)
    ws = flag("ws", ws)
    at = TmemAddress.decode(d, "d")
    check_instruction(
        i, memories[0].arch, at, a, b, cta_group=cta_group, ws=ws, scale_vec=scale_vec, scale_a=scale_a, scale_b=scale_b, metadata=metadata
    )
    layout = AccumulatorLayout(i.m, i.n, cta_group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    cells = cells_of_d(layout)
    zero = zero_columns(zero_column_mask, i, layout, ws)
    shift = scale_of_d(i, scale_input_d, ws)
    written = enabled(disable_output_lane, i, cells, ws)
    a_operands = read_a_from_tensor(i, a, tensor, ws=ws) if isinstance(a, TmemAddress) else (read_shared(i, "A", a, memories),)
    b_operand = read_shared(i, "B", b, memories)
    factors, no_factor, odd_factor, factor_grade = (
        read_factors(i, scale_a, scale_b, tensor, scale_vec=scale_vec) if i.row.block_scaled else _NOTHING
    )
    index, no_index, odd_index, index_grade = (
        read_index(i, metadata, tensor, [x.bits for x in a_operands], ws=ws) if i.sparsity else _NOTHING
    )
    adds_d = flag("enable_input_d", enable_input_d)
    c, nobody, unsure = _read_d(i, cells, tensor) if adds_d else _no_d(i)
    for memory, where in zip(tensor, cells, strict=True):
        memory.check_allocated(*where)
    values = np.where(zero[:, None], 0, b_operand.bits) if zero is not None else b_operand.bits
    width = i.n // len(a_operands)
    bands = [slice(n, n + width) for n in range(0, i.n, width)]
    parts = [
        multiply(
            operand.bits,
            values[band],
            c[:, band],
            kind=i.kind,
            a_type=i.a_type,
            b_type=i.b_type,
            d_type=i.d_type,
            index=index,
            negate_a=i.negate_a,
            negate_b=i.negate_b,
            saturate=i.saturate,
            factors=None if factors is None else dataclasses.replace(factors, b=factors.b[band]),
            scale_c=shift,
            adds_c=adds_d,
        )
        for operand, band in zip(a_operands, bands, strict=True)
    ]
    certain = np.concatenate([part[1] for part in parts], axis=1) & ~unsure
    unknown = np.concatenate([operand.doubtful_rows[:, None] | np.zeros(width, bool) for operand in a_operands], axis=1)
    certain &= ~(unknown | b_operand.doubtful_rows[None, :] | nobody)
    certain &= not (no_factor or odd_factor or no_index or odd_index)
    counts = {
        "A": sum(int(operand.unwritten.sum()) for operand in a_operands),
        "B": int(b_operand.unwritten.sum()),
        "D": int(nobody.sum()),
        "the scale factors": no_factor,
        "the metadata": no_index,
    }
    result = MmaResult(
        f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if i.sparsity else ''}.cta_group::{cta_group}.kind::{i.kind}",
        a_operands,
        b_operand,
        c,
        np.concatenate([part[0] for part in parts], axis=1),
        i.d_type,
        certain,
        grade_of(i, layout, [*(operand.grade for operand in (*a_operands, b_operand)), factor_grade, index_grade], masked=zero is not None),
        index,
        arithmetic=row_of(i.kind, i.a_type, i.b_type, i.d_type),
        unwritten={name: count for name, count in counts.items() if count},
        disputes=disputes_of(i, layout, a_in_tensor=isinstance(a, TmemAddress), masked=zero is not None),
        scale_c=shift,
        factors=factors,
        negate=(i.negate_a, i.negate_b),
        written=written,
        zero_columns=zero,
        saturate=i.saturate,
    )
    _write_d(result, cells, tensor)
    return result


_NOTHING: tuple[Any, int, bool, Grade] = (None, 0, False, Grade.DOCUMENTED)


def _read_d(i: InstrDescriptor, cells: Parts, tensor: tuple[TensorMemory, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(what D holds, where nobody wrote it, where the instructions that did were not certain of it), (M, N)."""
    half = i.d_type == "f16"  # 16-bit elements are the lower halves of their cells
    held = np.concatenate([memory.read(*where) for memory, where in zip(tensor, cells, strict=True)])
    doubts = [memory.doubts(*where) for memory, where in zip(tensor, cells, strict=True)]
    nobody, unsure = (
        np.concatenate([of_bytes[..., : 2 if half else 4].any(-1) for of_bytes in kind]) for kind in zip(*doubts, strict=True)
    )
    return held.astype(np.uint16) if half else held, nobody, unsure


def _no_d(i: InstrDescriptor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nothing = np.zeros((i.m, i.n), bool)
    return np.zeros((i.m, i.n), np.uint16 if i.d_type == "f16" else np.uint32), nothing, nothing


def _write_d(result: MmaResult, cells: Parts, tensor: tuple[TensorMemory, ...]) -> None:
    first = 0
    for cta, (memory, (lane, column)) in enumerate(zip(tensor, cells, strict=True)):
        rows = slice(first, first + len(lane))
        writer, values = TmemMma(result, cta, first), result.d[rows].astype(np.uint32)
        if result.written is None:
            memory.write_cells(lane, column, values, writer)
        else:
            on = result.written[rows]
            place = np.arange(values.size).reshape(values.shape) * 4
            memory.write_placed(lane[on], column[on], values[on], writer, place[on])
        first += len(lane)


def grade_of(i: InstrDescriptor, layout: AccumulatorLayout, grades: list[Grade], *, masked: bool) -> Grade:
    """The weakest of what the operands' addresses and the places of D rest on."""
    grades = [*grades, layout.grade]
    grades += [RULES["tcgen05.idesc_bits"].grades["sm_100a"]] if any(i.table.constants(i.word)) else []
    grades += [RULES["tcgen05.pair"].grades["sm_100a"]] if layout.cta_group == 2 else []
    grades += [Grade.INFERRED] if masked else []
    return max(grades, key=list(Grade).index)


def disputes_of(i: InstrDescriptor, layout: AccumulatorLayout, *, a_in_tensor: bool, masked: bool) -> tuple[str, ...]:
    """The rows of smemsim.DISPUTES that the result rests on."""
    rows = {
        **dict.fromkeys(shape_disputes(i, cta_group=layout.cta_group, ws=layout.ws), True),
        "mixed f16 and bf16": {i.a_type, i.b_type} == {"f16", "bf16"},
        "layout C": layout.name == "C",
        "layout E": layout.name == "E",
        "A of .ws": layout.ws and a_in_tensor and i.m < 128,
        "decompression": a_in_tensor and i.a_type in DECOMPRESSION_OF and not i.kind.startswith("mxf4"),
        "MN-major 4- and 6-bit operands of f8f6f4": any(
            major == "MN" and element_format(dtype).bits < 8
            for dtype, major, read in ((i.a_type, i.a_major, not a_in_tensor), (i.b_type, i.b_major, True))
            if read
        ),
        "scales of B in two CTAs": i.row.block_scaled and layout.name == "B",
        "scales of K = 96": bool(i.k_size),
        "zero-column mask": masked,
        "reserved bits of instruction descriptors": any(i.table.constants(i.word)),
    }
    return tuple(name for name, in_force in rows.items() if in_force)
