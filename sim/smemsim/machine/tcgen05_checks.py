"""What an instruction may have beside its operands: is there such a tcgen05.mma, and what do its masks say?"""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.addressing.tcgen05 import is_lane_disabled, is_zero_column
from smemsim.arguments import shown, whole, wholes
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.spec.findings import Finding, Severity
from smemsim.spec.instr_descriptor import ZERO_COLUMN_MASK
from smemsim.spec.tcgen05 import kind_of
from smemsim.spec.tensor_memory import LANES

__all__ = ["BrokenRule", "check_instruction", "enabled", "instruction", "scale_of_d", "zero_columns"]


class BrokenRule(InputError):
    """A rule of the instruction descriptor that an instruction breaks: `finding` says which."""

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message)
        self.finding = finding


def instruction(idesc: Any, kind: Any) -> InstrDescriptor:
    """The instruction descriptor, whose word needs the kind; reserved bits that are set do nothing (`RULES["tcgen05.idesc_bits"]`)."""
    if isinstance(idesc, InstrDescriptor):
        if kind is not None and kind_of(kind).name != idesc.kind:
            raise InputError(f"kind = {shown(kind)}: the instruction descriptor is one of kind {idesc.kind}")
        return idesc
    if kind is None:
        raise InputError("kind: needs the .kind of the instruction (f16, tf32, f8f6f4 ...); the word does not say it")
    return InstrDescriptor.decode(idesc, kind=kind)


def check_instruction(
    i: InstrDescriptor,
    arch: str,
    d: TmemAddress,
    a: Any,
    b: Any,
    *,
    cta_group: int,
    ws: bool,
    scale_vec: Any,
    scale_a: Any,
    scale_b: Any,
    metadata: Any,
) -> None:
    """InputError with the first rule of instruction, descriptors or qualifiers that is broken."""
    if isinstance(b, TmemAddress):
        raise InputError(f"b = {b}: B comes from shared memory only; give the word of a matrix descriptor")
    swizzles = {
        f"swizzle_{side}": str(_word(side, word, arch).swizzle) for side, word in (("a", a), ("b", b)) if not isinstance(word, TmemAddress)
    }
    known = {name: value for name, value in swizzles.items() if value != "invalid"}  # an invalid code is judged when the operand is read
    a_source = "tensor" if isinstance(a, TmemAddress) else "shared"
    for finding in i.problems(arch=arch, cta_group=cta_group, ws=ws, a_source=a_source, scale_vec=scale_vec, **known):
        if finding.severity in (Severity.TRAP, Severity.WRONG):
            raise BrokenRule(f"instruction descriptor {i.word:#010x}: {finding}", finding)
    if isinstance(a, TmemAddress) and a.lane != d.lane:
        raise InputError(f"a = {a}, d = {d}: A and D must begin at the same lane (PTX ISA 9.7.16.10.5)")
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


def _word(side: str, descriptor: Any, arch: str) -> SmemDescriptor:
    if isinstance(descriptor, SmemDescriptor):
        return descriptor
    wanted = "the 64-bit word of a matrix descriptor" + (", or a TmemAddress for A in tensor memory" if side == "a" else "")
    return SmemDescriptor.decode(whole(side, descriptor, wanted=wanted), arch=arch)


def scale_of_d(i: InstrDescriptor, shift: Any, ws: bool) -> int:
    """The n of scale-input-d: D counts times 2^-n."""
    number = whole("scale_input_d", shift, minimum=0)
    if number and (ws or not i.row.scale_input_d):
        what = ".ws" if ws else f"kind {i.kind}"
        raise InputError(f"scale_input_d = {number}: kinds f16 and tf32 without .ws have it, {what} has not (PTX ISA 9.7.16.10.9)")
    if number > 15:
        raise InputError(f"scale_input_d = {number}: D is divided by 2^0 to 2^15 (PTX ISA 9.7.16.10.9)")
    return number


def zero_columns(mask: Any, i: InstrDescriptor, layout: AccumulatorLayout, ws: bool) -> np.ndarray | None:
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
        raise Unmodelled(
            f"zero_column_mask = {word:#018x}: shift = {v['shift']} columns of B; where the last columns come from then is in no document "
            "(PTX ISA 9.7.16.4.3)"
        )
    if not v["non_zero_mask"]:
        return None
    width = layout.columns  # of one band; each has a start count and a first span of its own
    return np.array(
        [
            is_zero_column(v[f"start_count_{n // width}"], v[f"first_span_{n // width}"], v["skip_span"], v["use_span"], n % width)
            for n in range(i.n)
        ]
    )


def enabled(words: Any, i: InstrDescriptor, cells: tuple[tuple[np.ndarray, np.ndarray], ...], ws: bool) -> np.ndarray | None:
    """(M, N) bool: is this element of D written? None when all are."""
    count = 4 * len(cells)
    given = wholes("disable_output_lane", words, wanted=f"{count} words of 32 bits, a bit for every lane")
    if not given:
        return None
    if ws or i.row.block_scaled:
        what = ".ws" if ws else f"kind {i.kind}"
        raise InputError(f"disable_output_lane: {what} has none (PTX ISA 9.7.16.10.9)")
    if len(given) != count or not all(0 <= word < 1 << 32 for word in given):
        raise InputError(
            f"disable_output_lane = {shown(given)}: .cta_group::{len(cells)} has {count} words of 32 bits, a bit for every lane"
        )
    off = np.array([[is_lane_disabled(given, cta, lane) for lane in range(LANES)] for cta in range(len(cells))])
    return np.concatenate([~off[cta][lane] for cta, (lane, _) in enumerate(cells)])
