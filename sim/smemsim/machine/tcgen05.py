"""`tcgen05_mma`: one tcgen05.mma on the memories of a CTA or a pair, every term known by address and by tensor coordinate."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.addressing.tcgen05 import is_lane_disabled, is_zero_column
from smemsim.arguments import shown, whole
from smemsim.arithmetic.multiply import multiply
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.layout import rules_in_force, weakest
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, MmaResult
from smemsim.machine.tcgen05_operands import read_a_from_tensor, read_factors, read_index, read_shared
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES, Grade
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.spec.instr_descriptor import ZERO_COLUMN_MASK
from smemsim.spec.tensor_memory import LANES

__all__ = ["TmemMma", "tcgen05_mma"]


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

    The result has both operands with addresses and owners, `terms(m, n)`, and D. Operand addresses and places in tensor memory carry their
    grade (`result.grade`): documented, compiled or inferred, nothing is measured on Blackwell. Sums are exact and rounded once;
    `result.certain` says where that cannot differ from silicon.

    Raises InputError for an instruction that does not exist, with the first rule it breaks, HardwareTrap when an operand leaves the shared
    window, Unmodelled for what nobody knows, infinities and NaNs included.

    >>> from smemsim.machine.memory import SharedMemory
    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a")
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))                  # ones in 8 x 16 B blocks, both operands
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    >>> result = tcgen05_mma(tmem, tmem.alloc(32), word, word, 0x08040490, kind="f16", shared=shared, enable_input_d=False)
    >>> result
    <tcgen05.mma.cta_group::1.kind::f16: 128 x 16 f32, addresses documented; D does not depend on rounding>
    >>> float(tmem.cells[127, :16].view(np.float32)[15]), result.terms(9, 3)[0].a.place
    (16.0, 'shared 0x510')
    """
    i = _descriptor(idesc, kind)
    tensor, memories = _memories(tensor_memory, TensorMemory, cta_group), _memories(shared, SharedMemory, cta_group)
    if len({memory.arch for memory in (*tensor, *memories)}) > 1:
        raise InputError(f"the memories are those of {', '.join(sorted({m.arch for m in (*tensor, *memories)}))}: needs one architecture")
    a_source = "tensor" if isinstance(a, TmemAddress) else "shared"
    _check(i, memories[0].arch, a, b, cta_group=cta_group, ws=ws, a_source=a_source, scale_vec=scale_vec)
    _check_qualifiers(i, scale_a=scale_a, scale_b=scale_b, metadata=metadata)
    at = TmemAddress.decode(d)
    layout = AccumulatorLayout(i.m, i.n, cta_group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    cells = _cells_of_d(layout)
    if isinstance(a, TmemAddress):
        a_operands = read_a_from_tensor(i, a, tensor, ws=ws)
    else:
        a_operands = (read_shared(i, "A", a, memories),)
    b_operand = read_shared(i, "B", b, memories)
    factors = read_factors(i, scale_a, scale_b, tensor, scale_vec=scale_vec) if i.row.block_scaled else None
    index = read_index(i, metadata, tensor, ws=ws) if i.sparsity else None
    zero = _zero_columns(zero_column_mask, i, ws)
    shift = _scale_of_d(i, scale_input_d)
    c = _read_d(i, cells, tensor) if enable_input_d else np.zeros((i.m, i.n), np.uint16 if i.d_type == "f16" else np.uint32)
    values = np.where(zero[:, None], 0, b_operand.bits) if zero is not None else b_operand.bits
    bands = [slice(n, n + i.n // len(a_operands)) for n in range(0, i.n, i.n // len(a_operands))]
    parts = [
        multiply(
            operand.bits,
            values[band],
            c[:, band],
            instruction="tcgen05",
            a_type=i.a_type,
            b_type=i.b_type,
            d_type=i.d_type,
            index=index,
            negate_a=i.negate_a,
            negate_b=i.negate_b,
            saturate=i.saturate,
            factors=None if factors is None else dataclasses.replace(factors, b=factors.b[band]),
            scale_c=shift,
        )
        for operand, band in zip(a_operands, bands, strict=True)
    ]
    written = _enabled(disable_output_lane, cta_group, cells)
    result = MmaResult(
        f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if i.sparsity else ''}.cta_group::{cta_group}.kind::{i.kind}",
        a_operands,
        b_operand,
        c,
        np.concatenate([part[0] for part in parts], axis=1),
        i.d_type,
        np.concatenate([part[1] for part in parts], axis=1),
        _grade(i, a_operands, a, b, layout, memories[0].arch),
        index,
        factors=factors,
        negate=(i.negate_a, i.negate_b),
        written=written,
        zero_columns=zero,
    )
    _write_d(result, cells, tensor)
    return result


def _descriptor(idesc: Any, kind: str | None) -> InstrDescriptor:
    if isinstance(idesc, InstrDescriptor):
        if kind is not None and InstrDescriptor.decode(0, kind=kind).kind != idesc.kind:
            raise InputError(f"kind = {shown(kind)}: the instruction descriptor is one of kind {idesc.kind}")
        return idesc
    if kind is None:
        raise InputError("kind: needs the .kind of the instruction (f16, tf32, f8f6f4 ...); the word does not say it")
    return InstrDescriptor.decode(idesc, kind=kind)


def _memories(given: Any, what: type, cta_group: Any) -> tuple[Any, ...]:
    if whole("cta_group", cta_group) not in (1, 2):
        raise InputError(f"cta_group = {cta_group}: needs 1 or 2")
    found = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(found) != cta_group or not all(isinstance(memory, what) for memory in found):
        wanted = f"a {what.__name__}" if cta_group == 1 else f"a pair of {what.__name__}, of the even CTA and of its peer"
        raise InputError(f"{shown(given)}: .cta_group::{cta_group} needs {wanted}")
    return found


def _check(i: InstrDescriptor, arch: str, a: Any, b: Any, **context: Any) -> None:
    """InputError with the first rule of instruction or descriptors that is broken."""
    for side, word in (("a", a), ("b", b)):
        if not isinstance(word, TmemAddress):
            context[f"swizzle_{side}"] = _word(word, arch).swizzle
    broken = [f for f in i.problems(arch=arch, **_known(context)) if f.severity is Severity.TRAP or f.code == "I603"]
    serious = [f for f in broken if f.severity in (Severity.TRAP, Severity.WRONG)]
    if serious:
        raise InputError(f"instruction descriptor {i.word:#010x}: {serious[0]}")


def _known(context: dict[str, Any]) -> dict[str, Any]:
    """What `InstrDescriptor.problems` can judge: a layout code that means nothing is judged when the operand is read."""
    return {name: value for name, value in context.items() if value is not None and value != "invalid"}


def _word(descriptor: Any, arch: str) -> SmemDescriptor:
    return descriptor if isinstance(descriptor, SmemDescriptor) else SmemDescriptor.decode(descriptor, arch=arch)


def _check_qualifiers(i: InstrDescriptor, *, scale_a: Any, scale_b: Any, metadata: Any) -> None:
    """What the instruction's form has must be there, and nothing else."""
    for name, value in (("scale_a", scale_a), ("scale_b", scale_b)):
        if i.row.block_scaled and value is None:
            raise InputError(f"{name}: kind {i.kind} needs the tensor-memory address of its scale factors")
        if not i.row.block_scaled and value is not None:
            raise InputError(f"{name} = {shown(value)}: kind {i.kind} has no scale factors")
    if i.sparsity and metadata is None:
        raise InputError("metadata: the descriptor says sparse (bit 2); tcgen05.mma.sp needs the tensor-memory address of its metadata")
    if not i.sparsity and metadata is not None:
        raise InputError(
            f"metadata = {shown(metadata)}: the instruction descriptor is dense (bit 2 is 0); tcgen05.mma.sp needs a sparse one"
        )


def _scale_of_d(i: InstrDescriptor, shift: Any) -> int:
    number = whole("scale_input_d", shift, minimum=0)
    if number and not i.row.scale_input_d:
        raise InputError(f"scale_input_d = {number}: kinds f16 and tf32 have it, kind {i.kind} has not (PTX ISA 9.7.16.10.9)")
    if number > 15:
        raise InputError(f"scale_input_d = {number}: D is divided by 2^0 to 2^15 (PTX ISA 9.7.16.10.9)")
    return number


def _zero_columns(mask: Any, i: InstrDescriptor, ws: bool) -> np.ndarray | None:
    """(N,) bool of the columns of B that count as zero; None without a mask."""
    word = ZERO_COLUMN_MASK.check_range(mask, "zero_column_mask")
    if not word:
        return None
    if not ws:
        raise InputError(f"zero_column_mask = {word:#x}: only tcgen05.mma.ws has it (PTX ISA 9.7.16.10.9.3)")
    if any(ZERO_COLUMN_MASK.constants(word)):
        raise Unmodelled(f"zero_column_mask = {word:#018x}: reserved bits are set; what they do is not known")
    v = ZERO_COLUMN_MASK.decode(word)
    if v["shift"]:
        raise Unmodelled(f"zero_column_mask = {word:#018x}: shift = {v['shift']}; no document says how B is shifted")
    if not v["non_zero_mask"]:
        return None
    width = i.n // (LANES // i.m)  # M = 128 has one band, 64 two, 32 four
    return np.array(
        [
            is_zero_column(v[f"start_count_{n // width}"], v[f"first_span_{n // width}"], v["skip_span"], v["use_span"], n % width)
            for n in range(i.n)
        ]
    )


Cells = tuple[tuple[np.ndarray, np.ndarray], ...]


@functools.lru_cache(maxsize=64)
def _cells_of_d(layout: AccumulatorLayout) -> Cells:
    """(lanes, columns) of D's rows in each CTA, (rows, N)."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    _, lane, column = layout.location(m, n)
    rows = layout.m // layout.cta_group
    return tuple((lane[cta * rows : (cta + 1) * rows], column[cta * rows : (cta + 1) * rows]) for cta in range(layout.cta_group))


def _read_d(i: InstrDescriptor, cells: Cells, tensor: tuple[TensorMemory, ...]) -> np.ndarray:
    held = np.concatenate([memory.read(*where) for memory, where in zip(tensor, cells, strict=True)])
    return held.astype(np.uint16) if i.d_type == "f16" else held  # 16-bit elements are the lower halves of their cells


def _enabled(words: Any, cta_group: int, cells: Cells) -> np.ndarray | None:
    """(M, N) bool: is this element of D written? None when all are."""
    if isinstance(words, (str, bytes)) or not hasattr(words, "__iter__"):
        raise InputError(f"disable_output_lane = {shown(words)}: needs {4 * cta_group} words of 32 bits")
    given = tuple(whole("disable_output_lane", word, minimum=0) for word in words)
    if not given:
        return None
    if len(given) != 4 * cta_group or any(word >> 32 for word in given):
        raise InputError(f"disable_output_lane: .cta_group::{cta_group} has {4 * cta_group} words of 32 bits, a bit for every lane")
    off = np.array([[is_lane_disabled(given, cta, lane) for lane in range(LANES)] for cta in range(cta_group)])
    return np.concatenate([~off[cta][lane] for cta, (lane, _) in enumerate(cells)])


def _write_d(result: MmaResult, cells: Cells, tensor: tuple[TensorMemory, ...]) -> None:
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


def _grade(i: InstrDescriptor, operands: tuple[MmaOperand, ...], a: Any, b: Any, layout: AccumulatorLayout, arch: str) -> Grade:
    """The weakest of what the addresses of A and B and the places of D rest on."""
    machine, grades = architecture(arch), [layout.grade]
    for word, dtype, major in ((a, i.a_type, i.a_major), (b, i.b_type, i.b_major)):
        if not isinstance(word, TmemAddress):
            fmt, packing = element_format(dtype), i.row.packing
            k_bytes = -(-i.k // fmt.elements_per_chunk(packing)) * 16
            rules = rules_in_force(
                _word(word, arch), machine, major=major, k_bytes=k_bytes, bits=fmt.bits, packing=packing if fmt.bits < 8 else "packed"
            )
            grades.append(weakest(rules, machine))
    if isinstance(a, TmemAddress) or i.sparsity or i.row.block_scaled:
        grades.append(RULES["tcgen05.tensor_operands"].grades[arch])
    return max(grades, key=list(Grade).index)
