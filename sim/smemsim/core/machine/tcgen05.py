"""tcgen05.mma: one instruction, or several at once.

An instruction with the words of its operands is `Tcgen05Mma`. Its method `prepare` decodes and checks them: the places
of A, B, D, scale factors and metadata. Its method `execute` runs instructions on their memories. The function
`tcgen05_mma` runs one, and explains every term by its address and its tensor coordinate.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import flag, shown, whole, wholes
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.core.arithmetic.multiply import Factors, Options, Sums, add_tiles, is_added_in_place, multiply_tiles, row_of
from smemsim.core.finding import Finding
from smemsim.core.layout.fragments import sparse_k
from smemsim.core.layout.tcgen05 import is_lane_disabled, is_zero_column
from smemsim.core.machine.memory import WORDS, SharedMemory, Windows
from smemsim.core.machine.product import MmaOperand, MmaResult, SharedOperand, used_writers, weaker
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.layout import (
    AccumulatorLayout,
    ATmemLayout,
    Box,
    Copies,
    MetadataLayout,
    ScaleLayout,
    boxes_of,
    boxes_of_d,
    cells_of_a,
    cells_of_d,
    cells_of_metadata,
    cells_of_scales,
    copies_of,
    lane_set,
)
from smemsim.core.machine.tmem.memory import TensorMemory, check_together, memories_of
from smemsim.core.spec.assumptions import assumed, remembered
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.instr_descriptor import ZERO_COLUMN_MASK
from smemsim.core.spec.tcgen05 import kind_of, scale_modes
from smemsim.core.spec.tensor_memory import COLUMNS, DECOMPRESSIONS, EMPTY_GROUP, LANES, METADATA, SCALE_ID_SHIFT, Decompression, ScaleMode
from smemsim.core.words.instr import InstrDescriptor, shape_disputes
from smemsim.core.words.smem import SmemDescriptor

__all__ = [
    "BrokenRule",
    "Issue",
    "Prepared",
    "Tcgen05Mma",
    "TmemMma",
    "Together",
    "check_instruction",
    "descriptor_of",
    "execute",
    "instruction",
    "prepare",
    "prepared",
    "scale_address",
    "scale_factors",
    "scale_id_in_force",
    "stored_k",
    "tcgen05_mma",
]


# ---- The instruction: is there such a tcgen05.mma?


class BrokenRule(InputError):
    """An instruction breaks a rule of the instruction descriptor. The rule and the field are in `finding`."""

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message)
        self.finding = finding


def instruction(idesc: Any, kind: Any) -> InstrDescriptor:
    """The instruction descriptor, whose word needs the kind; reserved bits that are set do nothing
    (`RULES["tcgen05.idesc_bits"]`).
    """
    if isinstance(idesc, InstrDescriptor):
        if kind is not None and kind_of(kind).name != idesc.kind:
            raise InputError(f"kind = {shown(kind)}: the instruction descriptor is one of kind {idesc.kind}")
        return InstrDescriptor.decode(assumed("idesc.word", idesc.word, idesc.kind), kind=idesc.kind)
    if kind is None:
        raise InputError("kind: needs the .kind of the instruction (f16, tf32, f8f6f4 ...); the word does not say it")
    return InstrDescriptor.decode(assumed("idesc.word", idesc, kind_of(kind).name), kind=kind)


descriptor_of = remembered(64)(instruction)


@dataclasses.dataclass(frozen=True)
class Tcgen05Mma:
    """A tcgen05.mma with the words of its operands, as `tcgen05_mma` takes them, unchecked."""

    i: InstrDescriptor
    arch: str
    d: int | TmemAddress
    a: int | SmemDescriptor | TmemAddress
    b: int | SmemDescriptor
    _: dataclasses.KW_ONLY
    cta_group: int = 1
    ws: bool = False
    scale_vec: str | None = None
    enable_input_d: bool = True
    scale_input_d: int = 0
    disable_output_lane: tuple[int, ...] = ()
    scale_a: int | TmemAddress | None = None
    scale_b: int | TmemAddress | None = None
    metadata: int | TmemAddress | None = None
    zero_column_mask: int = 0

    @property
    def name(self) -> str:
        """The instruction as messages name it."""
        return f"tcgen05.mma{'.ws' if self.ws else ''}{'.sp' if self.i.sparsity else ''}.cta_group::{self.cta_group}.kind::{self.i.kind}"


def check_instruction(mma: Tcgen05Mma) -> None:
    """InputError with the first rule of instruction, descriptors or qualifiers that is broken."""
    i, a, b, d = mma.i, mma.a, mma.b, TmemAddress.decode(mma.d, "d")
    if isinstance(b, TmemAddress):
        raise InputError(f"b = {b}: B comes from shared memory only; give the word of a matrix descriptor")
    in_shared = (("a", a), ("b", b))
    swizzles = {
        f"swizzle_{side}": str(_word(side, word, mma.arch).swizzle) for side, word in in_shared if not isinstance(word, TmemAddress)
    }
    # an invalid code is reported when the operand is read
    known = {name: value for name, value in swizzles.items() if value != "invalid"}
    a_source = "tensor" if isinstance(a, TmemAddress) else "shared"
    for finding in i.problems(arch=mma.arch, cta_group=mma.cta_group, ws=mma.ws, a_source=a_source, scale_vec=mma.scale_vec, **known):
        if finding.severity in (Severity.TRAP, Severity.WRONG):
            raise BrokenRule(f"instruction descriptor {i.word:#010x}: {finding.printed.sentence()}", finding)
    if isinstance(a, TmemAddress) and a.lane != d.lane:
        raise InputError(f"a = {a}, d = {d}: A and D must begin at the same lane (PTX ISA 9.1 §9.7.16.10.5)")
    for name, value in (("scale_a", mma.scale_a), ("scale_b", mma.scale_b)):
        if i.row.block_scaled and value is None:
            raise InputError(f"{name}: kind {i.kind} needs the tensor-memory address of its scale factors")
        if not i.row.block_scaled and value is not None:
            raise InputError(f"{name} = {shown(value)}: kind {i.kind} has no scale factors")
    if i.sparsity and mma.metadata is None:
        raise InputError("metadata: the descriptor says sparse (bit 2); tcgen05.mma.sp needs the tensor-memory address of its metadata")
    if not i.sparsity and mma.metadata is not None:
        raise InputError(
            f"metadata = {shown(mma.metadata)}: the instruction descriptor is dense (bit 2 is 0); tcgen05.mma.sp needs a sparse one"
        )


def _word(side: str, descriptor: Any, arch: str) -> SmemDescriptor:
    if isinstance(descriptor, SmemDescriptor):
        return descriptor
    wanted = "the 64-bit word of a matrix descriptor" + (", or a TmemAddress for A in tensor memory" if side == "a" else "")
    return SmemDescriptor.decode(whole(side, descriptor, wanted=wanted), arch=arch)


# ---- `prepare`: what the words mean, before any memory is looked at


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """An instruction that exists: the places of its operands, and its options.

    The columns of B that count as zero are `zero_columns` (N,), None if there are none. The elements of D that are
    written are `written` (M, N), None if all are.
    """

    of: Tcgen05Mma
    d: AccumulatorLayout
    a: SharedOperand | ATmemLayout
    b: SharedOperand
    scales: tuple[ScaleLayout, ScaleLayout] | None
    metadata: MetadataLayout | None
    zero_columns: np.ndarray | None
    written: np.ndarray | None
    options: Options

    @property
    def i(self) -> InstrDescriptor:
        """The instruction descriptor."""
        return self.of.i

    @property
    def shared_operands(self) -> tuple[SharedOperand, ...]:
        """B, and A where it is in shared memory, as each CTA of the group has it."""
        return (self.b, self.a) if isinstance(self.a, SharedOperand) else (self.b,)

    @functools.cached_property
    def reads(self) -> tuple[Box, ...]:
        """The boxes of tensor memory that it reads."""
        of_a = [] if isinstance(self.a, SharedOperand) else [self.a]
        layouts = [*of_a, *(self.scales or ()), *([self.metadata] if self.metadata else [])]
        boxes = [box for layout in layouts for box in boxes_of(layout)]
        return tuple(boxes) + (boxes_of_d(self.d) if self.of.enable_input_d else ())

    @functools.cached_property
    def writes(self) -> tuple[Box, ...]:
        """The boxes of tensor memory that it writes."""
        boxes, written = boxes_of_d(self.d), self.written
        if written is None:
            return boxes
        rows, cells = self.d.m // self.d.cta_group, cells_of_d(self.d)
        lanes = [cells[cta][0][written[cta * rows : (cta + 1) * rows]] for cta in range(self.d.cta_group)]
        return tuple((cta, lane_set(lanes[cta]), first, end) for cta, _, first, end in boxes if lanes[cta].size)

    @functools.cached_property
    def overwritten(self) -> tuple[str, int, int] | None:
        """The first operand in tensor memory that has cells in common with D: its name, and the first and the last of
        these columns. None if there is none, or if some lanes of D are not written.
        """
        operands: list[tuple[str, ATmemLayout | ScaleLayout | MetadataLayout]] = []
        if not isinstance(self.a, SharedOperand):
            operands.append(("A", self.a))
        operands += [(f"the scale factors of {layout.operand}", layout) for layout in self.scales or ()]
        operands += [("the metadata", self.metadata)] if self.metadata else []
        for name, layout in operands if self.written is None else ():
            columns = _columns_of_d_in(self.d, layout)
            if len(columns):
                return name, int(columns.min()), int(columns.max())
        return None

    @property
    def only_adds(self) -> bool:
        """Is D, all of it, what it reads and writes of tensor memory?"""
        is_plain = self.scales is None and self.metadata is None and self.written is None and isinstance(self.a, SharedOperand)
        return is_plain and bool(self.of.enable_input_d)

    @functools.cached_property
    def adds_in_place(self) -> bool:
        """Does it multiply what lies in shared memory, and put sums as they are where they belong? Whether it does so
        in place the arithmetic decides.
        """
        is_plain = self.scales is None and self.metadata is None and self.written is None and self.zero_columns is None
        return is_plain and not self.options.scale_c and isinstance(self.a, SharedOperand) and _blocks_of_d(self.d) is not None

    @property
    def form(self) -> Any:
        """All of it but the addresses of A and B, if it is one that adds in place; else None."""
        return (self.i, self.options, self.d, bool(self.of.enable_input_d)) if self.adds_in_place else None

    @functools.cached_property
    def layout_grade(self) -> Grade:
        """The weakest evidence grade of the layouts in tensor memory that the instruction uses."""
        grades = [self.d.grade]
        grades += [] if isinstance(self.a, SharedOperand) else [_grade_of_a(self.i, self.a)]
        grades += [layout.grade for layout in self.scales or ()]
        grades += [self.metadata.grade] if self.metadata else []
        grades += [RULES["tcgen05.idesc_bits"].grades["sm_100a"]] if any(self.i.table.constants(self.i.word)) else []
        grades += [RULES["tcgen05.pair"].grades["sm_100a"]] if self.d.cta_group == 2 else []
        grades += [Grade.INFERRED] if self.zero_columns is not None else []
        return weaker(*grades)

    def grade(self, shared: Sequence[SharedMemory]) -> Grade:
        """The weakest evidence grade of the operands' addresses and of the layout of D."""
        return weaker(self.layout_grade, *(operand.grade(memory) for operand in self.shared_operands for memory in shared))

    @functools.cached_property
    def disputes(self) -> tuple[str, ...]:
        """The rows of smemsim.DISPUTES that the result rests on."""
        in_tensor = not isinstance(self.a, SharedOperand)
        return _disputes(self.i, self.d, a_in_tensor=in_tensor, is_masked=self.zero_columns is not None)


def _columns_of_d_in(d: AccumulatorLayout, layout: ATmemLayout | ScaleLayout | MetadataLayout) -> np.ndarray:
    """The columns of the cells that D and an operand in tensor memory have in common."""
    boxes = [(cta, first, end) for cta, _, first, end in boxes_of_d(d)]
    if not any(
        cta == its and first < end_of_its and begin < end for cta, _, begin, end_of_its in boxes_of(layout) for its, first, end in boxes
    ):
        return np.empty(0, np.int64)
    of_d = np.concatenate([_places(cta, lane, column).reshape(-1) for cta, (lane, column) in enumerate(cells_of_d(d))])
    both: np.ndarray = np.intersect1d(
        of_d, np.concatenate([_places(cta, lane, column).reshape(-1) for cta, lane, column, _ in copies_of(layout)])
    )
    return both % COLUMNS


def _places(cta: Any, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The places of cells among those of all CTAs of a group."""
    found: np.ndarray = (cta * LANES + lane) * COLUMNS + column
    return found


def prepare(mma: Tcgen05Mma) -> Prepared:
    """Decode the words of an instruction. Raises InputError with the first rule that it breaks, and Unmodelled for
    unknown behaviour.
    """
    check_instruction(mma)
    i, group, at = mma.i, mma.cta_group, TmemAddress.decode(mma.d, "d")
    d = AccumulatorLayout(i.m, i.n, group, ws=mma.ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    zero = _zero_columns(mma.zero_column_mask, d)
    options = Options(i.negate_a, i.negate_b, _scale_of_d(i, mma.scale_input_d, mma.ws), i.saturate)
    written = _written(mma.disable_output_lane, i, d)
    if isinstance(mma.a, TmemAddress):
        a: SharedOperand | ATmemLayout = _layout_of_a(mma, mma.a)
    else:
        a = SharedOperand(mma.a, i.a_type, i.a_major, i.m // group, i.k // 2 if i.sparsity else i.k, i.row.packing)
    b = SharedOperand(mma.b, i.b_type, i.b_major, i.n // group, i.k, i.row.packing)
    scales = _layouts_of_scales(mma) if i.row.block_scaled else None
    metadata = _layout_of_metadata(mma) if i.sparsity else None
    return Prepared(mma, d, a, b, scales, metadata, zero, written, options)


prepared = remembered(1024)(prepare)  # those of a kernel come again and again


def _scale_of_d(i: InstrDescriptor, shift: Any, ws: bool) -> int:
    """The n of scale-input-d: D counts times 2^-n."""
    number = whole("scale_input_d", shift, minimum=0)
    if number and (ws or not i.row.scale_input_d):
        what = ".ws" if ws else f"kind {i.kind}"
        raise InputError(f"scale_input_d = {number}: kinds f16 and tf32 without .ws have it, {what} has not (PTX ISA 9.1 §9.7.16.10.9)")
    if number > 15:
        raise InputError(f"scale_input_d = {number}: D is divided by 2^0 to 2^15 (PTX ISA 9.1 §9.7.16.10.9)")
    return number


def _zero_columns(mask: Any, layout: AccumulatorLayout) -> np.ndarray | None:
    """(N,) bool of the columns of B that count as zero; None without a mask."""
    word = ZERO_COLUMN_MASK.check_range(mask, "zero_column_mask")
    if not word:
        return None
    if not layout.ws:
        raise InputError(f"zero_column_mask = {word:#x}: only tcgen05.mma.ws has it (PTX ISA 9.1 §9.7.16.10.9.3)")
    if any(ZERO_COLUMN_MASK.constants(word)):
        raise Unmodelled(f"zero_column_mask = {word:#018x}: reserved bits are set; what they do is not known")
    v = ZERO_COLUMN_MASK.decode(word)
    if v["shift"]:
        raise Unmodelled(
            f"zero_column_mask = {word:#018x}: shift = {v['shift']} columns of B; where the last columns come from then is in no document "
            "(PTX ISA 9.1 §9.7.16.4.3)"
        )
    if not v["non_zero_mask"]:
        return None
    width = layout.columns  # of one band; each has a start count and a first span of its own
    counts: list[tuple[int, int, int, int]] = [
        assumed("zero_columns.counts", (v[f"start_count_{n}"], v[f"first_span_{n}"], v["skip_span"], v["use_span"]))
        for n in range(layout.n // width)
    ]
    zero: np.ndarray = assumed("zero_columns", np.array([is_zero_column(*counts[n // width], n % width) for n in range(layout.n)]), width)
    return zero


def _written(words: Any, i: InstrDescriptor, layout: AccumulatorLayout) -> np.ndarray | None:
    """(M, N) bool: is this element of D written? None when all are."""
    cells = cells_of_d(layout)
    count = 4 * len(cells)
    given = wholes("disable_output_lane", words, wanted=f"{count} words of 32 bits, a bit for every lane")
    if not given:
        return None
    if layout.ws or i.row.block_scaled:
        what = ".ws" if layout.ws else f"kind {i.kind}"
        raise InputError(f"disable_output_lane: {what} has none (PTX ISA 9.1 §9.7.16.10.9)")
    if len(given) != count or not all(0 <= word < 1 << 32 for word in given):
        raise InputError(
            f"disable_output_lane = {shown(given)}: .cta_group::{len(cells)} has {count} words of 32 bits, a bit for every lane"
        )
    off = np.array([[is_lane_disabled(given, cta, lane) for lane in range(LANES)] for cta in range(len(cells))])
    off = assumed("lanes.disabled", off)
    if not off.any():  # as CUTLASS writes it
        return None
    return np.concatenate([~off[cta][lane] for cta, (lane, _) in enumerate(cells)])


# How 4- and 6-bit elements stand in their byte of tensor memory: as tcgen05.cp's decompression puts them.
DECOMPRESSION_OF = {dtype: row for row in DECOMPRESSIONS.values() for dtype in row.types}


def _contained(i: InstrDescriptor, layout: ATmemLayout) -> Decompression | None:
    """How A's elements stand in their bytes; None where they have no container."""
    row = DECOMPRESSION_OF.get(i.a_type) if layout.bits == 8 else None
    return None if row is None else assumed("decompression", row)


def _grade_of_a(i: InstrDescriptor, layout: ATmemLayout) -> Grade:
    contained = _contained(i, layout)
    return layout.grade if contained is None else weaker(layout.grade, contained.grade)


def _layout_of_a(mma: Tcgen05Mma, at: TmemAddress) -> ATmemLayout:
    """Where A lies in tensor memory."""
    i = mma.i
    if i.k_size:
        raise Unmodelled("A in tensor memory with K = 96: no document shows how a row of it lies there")
    return ATmemLayout(i.m, i.kind, mma.cta_group, ws=mma.ws, sparse=i.sparsity, lane=at.lane, column=at.column)


def _layouts_of_scales(mma: Tcgen05Mma) -> tuple[ScaleLayout, ScaleLayout]:
    """The layouts of the scale factors of A and of B."""
    i = mma.i
    modes = scale_modes(i.row, wide_k=bool(i.k_size))
    if mma.scale_vec is None and len(modes) > 1:
        raise InputError(f"scale_vec: kind {i.kind} has {' and '.join(mode.name for mode in modes)}; choose one")
    of_a, of_b = (
        ScaleLayout(
            operand, m=i.m, n=i.n, kind=i.kind, scale_vec=mma.scale_vec or modes[0].name, k=i.k if i.k_size else None, cta_group=mma.cta_group,
            scale_id=scale_id_in_force(scale_id, f"scale_{operand.lower()}", taddr, modes), column=scale_address(f"scale_{operand.lower()}", taddr)[1],
        )
        for operand, taddr, scale_id in (("A", mma.scale_a, i.a_sf_id), ("B", mma.scale_b, i.b_sf_id))
    )  # fmt: skip
    return of_a, of_b


def scale_id_in_force(of_descriptor: int, name: str, taddr: Any, modes: Sequence[ScaleMode]) -> int:
    """The scale id that counts, of those in the descriptor and in the address: the descriptor's."""
    number: int = assumed("scales.id", of_descriptor, scale_address(name, taddr)[0], modes[0].ids)
    return number


def _layout_of_metadata(mma: Tcgen05Mma) -> MetadataLayout:
    """The layout of the metadata of a sparse A."""
    i = mma.i
    return MetadataLayout(i.m, i.kind, mma.cta_group, ws=mma.ws, selector=i.sparsity_selector, column=_column("metadata", mma.metadata))


def _column(name: str, taddr: Any) -> int:
    """The column of an address whose lane is 0."""
    at = TmemAddress.decode(taddr, name)
    if at.lane:
        raise Unmodelled(f"{name} = {at}: scale factors and metadata are addressed from lane 0; what another lane does is not known")
    return at.column


def scale_address(name: str, taddr: Any) -> tuple[int, int]:
    """(scale id in bits 31:30, column) of the address of scale factors.

    Kernels keep the id there from which they make the instruction descriptor, and pass the address as it is. The
    instruction takes the descriptor's (`RULES["tcgen05.scale_address"]`).

    >>> scale_address("scale_a", 0x800001D0), scale_address("scale_a", TmemAddress(0, 464))
    ((2, 464), (0, 464))
    """
    if isinstance(taddr, TmemAddress):
        return 0, _column(name, taddr)
    word = whole(name, taddr, minimum=0, wanted="a tensor memory address")
    return word >> SCALE_ID_SHIFT, _column(name, word & (1 << SCALE_ID_SHIFT) - 1)


def _disputes(i: InstrDescriptor, layout: AccumulatorLayout, *, a_in_tensor: bool, is_masked: bool) -> tuple[str, ...]:
    """The rows of smemsim.DISPUTES that the result rests on."""
    rows = {
        **dict.fromkeys(shape_disputes(i, cta_group=layout.cta_group, ws=layout.ws), True),
        "mixed f16 and bf16": {i.a_type, i.b_type} == {"f16", "bf16"},
        "layout C": layout.name == "C",
        "layout E": layout.name == "E",
        "A of .ws": layout.ws and a_in_tensor and i.m < 128,
        "N = 256 of .ws": layout.ws and (i.kind, i.m, i.n) == ("f8f6f4", 128, 256),
        "decompression": a_in_tensor and i.a_type in DECOMPRESSION_OF and not i.kind.startswith("mxf4"),
        "MN-major 4- and 6-bit operands of f8f6f4": any(
            major == "MN" and element_format(dtype).bits < 8
            for dtype, major, read in ((i.a_type, i.a_major, not a_in_tensor), (i.b_type, i.b_major, True))
            if read
        ),
        "scales of B in two CTAs": i.row.block_scaled and layout.name == "B",
        "scales of K = 96": bool(i.k_size),
        "zero-column mask": is_masked,
        "reserved bits of instruction descriptors": any(i.table.constants(i.word)),
    }
    return tuple(name for name, in_force in rows.items() if in_force)


# ---- `execute`: several independent instructions at once


@dataclasses.dataclass(frozen=True, eq=False)
class Issue:
    """An instruction and the memories that it works on, one of each for every CTA of the group.

    `are_unwritten` says of cells, by CTA, lane and column, which ones no instruction has written. None: all count as
    written.
    """

    mma: Prepared
    tensor: tuple[TensorMemory, ...]
    shared: tuple[SharedMemory, ...]
    are_unwritten: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None

    def __post_init__(self) -> None:
        check_together(self.tensor, self.shared, len(self.tensor))


@dataclasses.dataclass(frozen=True, eq=False)
class Values:
    """The inputs of an instruction, raw bits: A (M, stored K) for each band of N, B (N, K), C (M, N), and the K that
    multiplies a sparse A.
    """

    a: Sequence[np.ndarray]
    b: np.ndarray
    c: np.ndarray
    factors: Factors | None
    index: np.ndarray | None


def execute(issues: Sequence[Issue]) -> list[bool]:
    """Run instructions that do not depend on each other. Returns for each whether it read uninitialised bytes of shared
    memory.

    D is written without an owner: for tensor memories that do not record owners. Raises HardwareTrap if an operand
    leaves the shared window, and Unmodelled for unknown behaviour. Nothing is written then.

    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a", owners=False)
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256).encode()
    >>> mma = Tcgen05Mma(instruction(0x08040490, "f16"), "sm_100a", tmem.alloc(32), word, word, enable_input_d=False)
    >>> execute([Issue(prepare(mma), (tmem,), (shared,))]), float(tmem.cells[127, :16].view(np.float32)[15])
    ([False], 16.0)
    """
    return Together(issues).run()


class Together:
    """Several independent instructions, to be run at once, as often as one likes, while nothing else is assumed."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues: Sequence[Issue] = tuple(issues)
        columns = {issue.mma: boxes_of_d(issue.mma.d) for issue in issues}
        self._is_one = len(columns) == 1  # the same instruction of all
        self._boxes = [(issue.tensor[cta], first, end) for issue in issues for cta, _, first, end in columns[issue.mma]]
        self._in_place = _in_place(issues) if _are_added_in_place(issues) else []
        self._windows = Windows([memory for issue in issues for memory in issue.shared])

    def again(self, issues: Sequence[Issue]) -> Together:
        """The same with another instruction of the same form on the same memories. All have one, as they had before."""
        found = copy.copy(self)
        found.issues = issues
        return found

    def run(self) -> list[bool]:
        """Run the instructions; arguments and result are those of `execute`."""
        bits: dict[tuple[int, str], tuple[np.ndarray, bool]] = {}
        if self._in_place:
            for tensor, first, end in self._boxes:
                tensor.check_columns(first, end)
            return self._add(bits)
        read = [_read(issue, functools.partial(_bits_among, bits, self.issues, n)) for n, issue in enumerate(self.issues)]
        products = _multiply([(issue.mma, values) for issue, (values, _) in zip(self.issues, read, strict=True)])
        for issue, d in zip(self.issues, products, strict=True):
            _write(issue, d)
        return [missing for _, missing in read]

    def _add(self, found: dict[tuple[int, str], tuple[np.ndarray, bool]]) -> list[bool]:
        """`run` of instructions that add in place; `found` is kept as by `_bits_among`."""
        (b, is_unwritten), (a, missing) = (self._operands(found, side) for side in "BA")
        for part in self._in_place:
            mine, i = part.which, part.mma.i
            types = i.a_type, i.b_type, i.d_type
            of_a, of_b = (a, b) if mine is None else (a[mine], b[mine])
            operands = of_a.reshape(-1, part.blocks.rows, a.shape[2]), of_b.reshape(-1, part.blocks.columns, b.shape[2])
            add_tiles(*operands, part.operands, part.sums, row=row_of(i.kind, *types), types=types, options=part.mma.options)
        return list((is_unwritten | missing).tolist())

    def _operands(self, found: dict[tuple[int, str], tuple[np.ndarray, bool]], side: str) -> tuple[np.ndarray, np.ndarray]:
        """Raw bits (instructions, rows, stored K) of an operand in shared memory, and which instructions read
        uninitialised ones.
        """
        issues, number = self.issues, "BA".index(side)
        first = issues[0].mma
        if self._is_one:
            bits, missing = first.shared_operands[number].bits_of(self._windows)
            return bits.reshape(len(issues), -1, bits.shape[2]), np.asarray(missing.reshape(len(issues), -1).any(axis=1))
        read = [_bits_among(found, issues, n, side, issue.mma.shared_operands[number]) for n, issue in enumerate(issues)]
        return np.stack([bits for bits, _ in read]), np.array([missing for _, missing in read])


def _columns_of_d(issue: Issue) -> list[tuple[TensorMemory, int, int]]:
    """The columns of tensor memory of D: the first one, and the one after the last."""
    return [(issue.tensor[cta], first, end) for cta, _, first, end in boxes_of_d(issue.mma.d)]


def _are_added_in_place(issues: Sequence[Issue]) -> bool:
    """Do these instructions have one form, and add to accumulators in one room that are stored in blocks like the
    matrix?
    """
    mma, room = issues[0].mma, issues[0].tensor[0].room
    if not mma.adds_in_place or not is_added_in_place(row_of(mma.i.kind, mma.i.a_type, mma.i.b_type, mma.i.d_type), mma.i.d_type):
        return False
    form = mma.i, mma.options, mma.d.cta_group
    others, rooms = {issue.mma for issue in issues}, {id(memory.room) for issue in issues for memory in issue.tensor}
    return rooms == {id(room)} and all(other.adds_in_place and (other.i, other.options, other.d.cta_group) == form for other in others)


@dataclasses.dataclass(frozen=True, eq=False)
class _InPlace:
    """Instructions like `mma` whose D is in the same blocks of their tensor memories.

    Their numbers are `which` (None: all). For each block, `operands` has the numbers of A and B, and `sums` has its
    place.
    """

    mma: Prepared
    blocks: Blocks
    which: list[int] | None
    operands: tuple[np.ndarray, np.ndarray]
    sums: Sums


def _in_place(issues: Sequence[Issue]) -> list[_InPlace]:
    """The instructions that add in place, grouped by the blocks of D."""
    all_blocks = [_blocks_of_d(issue.mma.d) for issue in issues]
    return [
        _of_blocks(issues, blocks, [n for n, its in enumerate(all_blocks) if its is blocks])
        for blocks in dict.fromkeys(all_blocks)
        if blocks is not None
    ]


def _of_blocks(all_issues: Sequence[Issue], blocks: Blocks, mine: list[int]) -> _InPlace:
    issues = [all_issues[n] for n in mine]
    mma, count = issues[0].mma, len(issues)
    across, down = mma.i.m // blocks.rows, mma.i.n // blocks.columns
    each = np.arange(count)[:, None, None]
    which_a = np.broadcast_to(each * across + np.arange(across)[:, None], (count, across, down)).reshape(-1)
    which_b = np.broadcast_to(each * down + np.arange(down), (count, across, down)).reshape(-1)
    rooms, where = np.array([[memory.at for memory in issue.tensor] for issue in issues]), np.empty((count, across * down, 3), np.int64)
    where[:] = blocks.places
    where[..., 0] = rooms[:, blocks.places[:, 0]]
    adds = np.repeat(np.array([bool(issue.mma.of.enable_input_d) for issue in issues]), across * down)
    sums = Sums(issues[0].tensor[0].room, where.reshape(-1, 3), adds)
    return _InPlace(mma, blocks, None if count == len(all_issues) else mine, (which_a, which_b), sums)


def _read(issue: Issue, bits_of: Callable[[str, SharedOperand], tuple[np.ndarray, bool]]) -> tuple[Values, bool]:
    """Everything that is read, and whether some of it is uninitialised in shared memory."""
    mma, tensor = issue.mma, issue.tensor
    for memory, first, end in _columns_of_d(issue):
        memory.check_columns(first, end)
    b, is_unwritten = bits_of("B", mma.b)
    if isinstance(mma.a, SharedOperand):
        bits, missing = bits_of("A", mma.a)
        a, is_unwritten = [bits], is_unwritten or missing
    else:
        a = [_elements(_gather(tensor, *copy[:3]), copy[3], mma.i, mma.a) for copy in cells_of_a(mma.a)]
    if mma.of.enable_input_d:
        blocks, flat = _block_of_d(mma.d), _flat_d(mma.d)
        parts = [memory.cells[blocks] if blocks else memory.cells.reshape(-1)[at] for memory, at in zip(tensor, flat, strict=True)]
        c = np.concatenate(parts) if len(parts) > 1 else parts[0]
    else:
        c = np.zeros((mma.i.m, mma.i.n), np.uint32)
    return _values(issue, a, b, c), is_unwritten


def _bits_among(
    found: dict[tuple[int, str], tuple[np.ndarray, bool]], issues: Sequence[Issue], number: int, side: str, operand: SharedOperand
) -> tuple[np.ndarray, bool]:
    """`_bits` of the instruction of that number, and with it of all that read through the same descriptors; what is
    `found` is kept.
    """
    mma = issues[number].mma
    if (number, side) not in found:
        same = [n for n, issue in enumerate(issues) if issue.mma is mma and len(issue.shared) == 1]
        if len(same) > 1:
            bits, missing = operand.bits_of(Windows([issues[n].shared[0] for n in same]))
            found.update(((n, side), (bits[k], bool(missing[k]))) for k, n in enumerate(same))
        else:
            found[number, side] = _bits(side, operand, issues[number].shared)
    return found[number, side]


def _bits(side: str, operand: SharedOperand, shared: tuple[SharedMemory, ...]) -> tuple[np.ndarray, bool]:
    """Raw bits of the rows of all CTAs, and whether some of them are uninitialised."""
    parts = [operand.bits(memory) for memory in shared]
    if len(parts) == 1:
        return parts[0]
    rows = assumed("pair.rows", [bits for bits, _ in parts], side)
    return np.concatenate(rows), any(missing for _, missing in parts)


def _values(issue: Issue, a: Sequence[np.ndarray], b: np.ndarray, c: np.ndarray) -> Values:
    """A, B and the cells of D as they are multiplied, with scale factors and metadata out of tensor memory."""
    mma = issue.mma
    if mma.zero_columns is not None:
        b = np.where(mma.zero_columns[:, None], 0, b)
    if mma.i.d_type == "f16":
        c = c.astype(np.uint16)  # 16-bit elements are the lower halves of their cells
    factors = None if mma.scales is None else scale_factors(issue)
    index = None if mma.metadata is None else _read_index(mma.i, mma.metadata, issue.tensor, a)
    return Values(a, b, c, factors, index)


def _multiply(given: Sequence[tuple[Prepared, Values]]) -> list[np.ndarray]:
    """D (M, N) of each; those that differ in nothing but their operands are multiplied side by side."""
    alike: dict[Any, list[int]] = {}
    for number, (mma, values) in enumerate(given):
        is_plain = values.index is None and len(values.a) == 1
        alike.setdefault((mma.i, mma.options, mma.of.scale_vec) if is_plain else number, []).append(number)
    done: list[Any] = [None] * len(given)
    for numbers in alike.values():
        for number, d in zip(numbers, _products(given[numbers[0]][0], [given[number][1] for number in numbers]), strict=True):
            done[number] = d
    return done


def _products(mma: Prepared, given: Sequence[Values]) -> np.ndarray:
    """D (instructions, M, N) of instructions of one form, or of a single one."""
    i, first = mma.i, given[0]
    types = (i.a_type, i.b_type, i.d_type)
    width = i.n // len(first.a)
    bands = []
    b, c = np.stack([values.b for values in given]), np.stack([values.c for values in given])
    scales = [values.factors for values in given if values.factors is not None]
    for number in range(len(first.a)):
        part = slice(number * width, (number + 1) * width)
        factors = scales[0].of(np.stack([f.a for f in scales]), np.stack([f.b[part] for f in scales])) if scales else None
        bands.append(
            multiply_tiles(
                np.stack([values.a[number] for values in given]), b[:, part], np.ascontiguousarray(c[:, :, part]), row=row_of(i.kind, *types),
                types=types, index=first.index, options=mma.options, factors=factors,
            )
        )  # fmt: skip
    return np.concatenate(bands, axis=2) if len(bands) > 1 else bands[0]


@remembered(64)
def _flat_d(layout: AccumulatorLayout) -> tuple[np.ndarray, ...]:
    """D's cells in each CTA, (rows, N)."""
    return tuple(lane * COLUMNS + column for lane, column in cells_of_d(layout))


@remembered(64)
def _block_of_d(layout: AccumulatorLayout) -> tuple[slice, slice] | None:
    """The lanes and columns of D in each CTA, if its elements are stored like the matrix."""
    cells = cells_of_d(layout)
    lane, column = cells[0]
    rows, n = lane.shape
    is_block = all((at == lane[0, 0] + np.arange(rows)[:, None]).all() and (by == column[0, 0] + np.arange(n)).all() for at, by in cells)
    return (slice(int(lane[0, 0]), int(lane[0, 0]) + rows), slice(int(column[0, 0]), int(column[0, 0]) + n)) if is_block else None


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks:
    """D in blocks of `rows` x `columns` elements, which lie in tensor memory as in the matrix; `places` (blocks, 3) say
    where each begins: CTA, lane, column.
    """

    rows: int
    columns: int
    places: np.ndarray


@remembered(64)
def _blocks_of_d(layout: AccumulatorLayout) -> Blocks | None:
    """The largest blocks of D that lie together; None where they would be small."""
    for down in (1, 2, 4):
        for across in (1, 2, 4):
            rows, columns = layout.m // layout.cta_group // across, layout.n // down
            if rows * across * layout.cta_group == layout.m and columns * down == layout.n:
                found = _in_blocks(layout, rows, columns)
                if found is not None:
                    return Blocks(rows, columns, found)
    return None


def _in_blocks(layout: AccumulatorLayout, rows: int, columns: int) -> np.ndarray | None:
    """Where D's blocks of that size begin, row after row of them; None where one is torn."""
    places = []
    for cta, (lane, column) in enumerate(cells_of_d(layout)):
        for m in range(0, len(lane), rows):
            for n in range(0, layout.n, columns):
                block = slice(m, m + rows), slice(n, n + columns)
                at, by = int(lane[m, n]), int(column[m, n])
                if (lane[block] != at + np.arange(rows)[:, None]).any() or (column[block] != by + np.arange(columns)).any():
                    return None
                places.append((cta, at, by))
    return np.array(places, np.int64)


def _write(issue: Issue, d: np.ndarray) -> None:
    block = _block_of_d(issue.mma.d) if issue.mma.written is None else None
    first = 0
    for memory, flat in zip(issue.tensor, _flat_d(issue.mma.d), strict=True):
        rows = slice(first, first + len(flat))
        values = d[rows].astype(np.uint32, copy=False)
        first += len(flat)
        if block is not None:
            memory.cells[block] = values
            continue
        on = slice(None) if issue.mma.written is None else issue.mma.written[rows]
        memory.cells.reshape(-1)[flat[on]] = values[on]


# ---- What is read from tensor memory: A, scale factors and metadata. One entry a CTA


def _elements(words: np.ndarray, bit: np.ndarray, i: InstrDescriptor, layout: ATmemLayout) -> np.ndarray:
    """A's elements in the words of tensor memory that hold them; `bit` is where each one's container begins."""
    bits, contained = element_format(i.a_type).bits, _contained(i, layout)
    shift = contained.shift if contained else 0
    raw = words >> (bit + shift).astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype(WORDS.get(bits, np.uint8))


def _gather(tensor: tuple[TensorMemory, ...], cta: np.ndarray, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    if len(tensor) == 1:
        return tensor[0].read(lane, column)  # type: ignore[no-any-return]
    words = np.empty(cta.shape, np.uint32)
    for number, memory in enumerate(tensor):
        mine = cta == number
        words[mine] = memory.read(lane[mine], column[mine])
    return words


def scale_factors(issue: Issue) -> Factors:
    """The scale factors of A (M, factors) and of B (N, factors).

    Every factor is in tensor memory several times. If the copies differ, Unmodelled is raised: it is not known which
    lanes read which copy. It is not raised for copies that no instruction has written or that are uninitialised, and
    not if D overwrites what the instruction reads. These are faults by themselves, and the first copy counts.
    """
    assert issue.mma.scales is not None
    i, layouts, read = issue.mma.i, issue.mma.scales, []
    for layout in layouts:
        copies = cells_of_scales(layout)
        bits = _fields(copies, issue.tensor, 8, 0xFF)
        differ = (bits != bits[0]).nonzero()
        if len(differ[0]) and issue.mma.overwritten is None and (pair := _differing(issue, copies, bits)) is not None:
            row, index, one, two = pair
            texts = ["CTA {} lane {} column {} byte {}".format(*layout.location(row, index, c)) for c in (one, two)]
            raise Unmodelled(
                f"scale {index} of row {row} of {layout.operand} is {bits[one][row, index]:#04x} at {texts[0]} and {bits[two][row, index]:#04x} at "
                f"{texts[1]}: tcgen05.mma wants it in every 32 lanes (tcgen05.cp.32x128b.warpx4 puts it there); which one counts is not known"
            )
        read.append(bits[0].astype(np.uint8))
    return Factors(read[0], read[1], str(i.scale_type), i.k // layouts[1].scales)


def _differing(issue: Issue, copies: Copies, bits: np.ndarray) -> tuple[int, int, int, int] | None:
    """The row and the number of the first factor of which two copies differ, and these copies. Copies that no
    instruction has written, and uninitialised ones, are left out.
    """
    unknown = np.zeros(bits.shape, bool)
    if issue.are_unwritten is not None:
        unknown = np.stack([issue.are_unwritten(cta, lane, column) for cta, lane, column, _ in copies])
    first = np.argmin(unknown, axis=0)
    differ = (~unknown & (bits != np.take_along_axis(bits, first[None], 0))).nonzero()
    if not len(differ[0]):
        return None
    copy, row, index = (int(where[0]) for where in differ)
    return row, index, int(first[row, index]), copy


def _fields(cells: Copies, tensor: tuple[TensorMemory, ...], unit: int, mask: int) -> np.ndarray:
    """The bits of fields of cells, one entry a copy; a unit of a cell has `unit` bits."""
    bits = []
    for cta, lane, column, at in cells:
        bits.append(_gather(tensor, cta, lane, column).astype(np.int64) >> at * unit & mask)
    return np.stack(bits)


def _doubts(cells: Copies, tensor: tuple[TensorMemory, ...], unit: int) -> np.ndarray:
    """[is it uninitialised, was its writer not certain] of fields of cells, (2, copies, ...)."""
    nobody = []
    for cta, lane, column, at in cells:
        doubts = np.zeros((2, *cta.shape), bool)
        for number, memory in enumerate(tensor):
            mine = cta == number
            byte = (at[mine] * unit // 8)[:, None]
            for found, of_bytes in zip(doubts, memory.doubts(lane[mine], column[mine]), strict=True):
                found[mine] = np.take_along_axis(of_bytes, byte, -1)[:, 0]
        nobody.append(doubts)
    return np.stack(nobody, axis=1)


def _read_index(i: InstrDescriptor, layout: MetadataLayout, tensor: tuple[TensorMemory, ...], stored_a: Sequence[np.ndarray]) -> np.ndarray:
    """(M, stored K) the K of every stored element of a sparse A. `stored_a`: A's bits, (M, stored K), every copy.

    Raises Unmodelled for sets of four bits that the PTX ISA does not list (wgmma gives them a meaning; tcgen05 was not
    measured). Raises Unmodelled, too, if the copies for the bands of .ws differ.
    """
    row = METADATA[i.kind]
    cells = cells_of_metadata(layout)
    copies = _fields(cells, tensor, 1, 0xF)
    nibbles = copies[0]
    if (copies != nibbles).any():
        raise Unmodelled("the copies of the metadata differ between bands of lanes; whether each band reads its own is not known")
    _check_metadata(i, nibbles, cells[0], stored_a)
    stored = np.arange(i.k // 2)
    return stored_k(stored, nibbles[:, stored * 2 // row.chunk], row.chunk)


def _check_metadata(i: InstrDescriptor, nibbles: np.ndarray, cells: tuple[np.ndarray, ...], stored_a: Sequence[np.ndarray]) -> None:
    """Unmodelled for four bits of metadata that the PTX ISA does not list."""
    row = METADATA[i.kind]
    odd = ~np.isin(nibbles, row.indices)
    if row.chunk > 2:
        odd &= (nibbles != EMPTY_GROUP) | _holds_numbers(i, stored_a, odd.shape)
    if odd.any():
        m, group = (int(where[0]) for where in np.nonzero(odd))
        place = "CTA {} lane {} column {} bit {}".format(*(part[m, group] for part in cells))
        listed = ", ".join(f"{value:#06b}" for value in row.indices)
        raise Unmodelled(
            f"metadata of row {m}, K {group * row.chunk} on, at {place}: {nibbles[m, group]:#06b}; kind {i.kind} has {listed} ({row.source})"
            + (
                f"; {EMPTY_GROUP:#06b} stands for a group of zeros, and A has other elements there"
                if nibbles[m, group] == EMPTY_GROUP
                else ""
            )
        )


def _holds_numbers(i: InstrDescriptor, stored_a: Sequence[np.ndarray], groups: tuple[int, ...]) -> np.ndarray:
    """Which groups of A have a stored element that is not zero; -0 is zero."""
    sign = 0 if i.kind == "i8" else 1 << element_format(i.a_type).bits - 1
    found: np.ndarray = np.any([((bits & ~bits.dtype.type(sign)) != 0).reshape(*groups, -1).any(axis=2) for bits in stored_a], axis=0)
    return found


def stored_k(stored: np.ndarray, nibbles: np.ndarray, chunk: int) -> np.ndarray:
    """K of stored elements whose group of `chunk` elements of K has the metadata `nibbles`.

    An index moves one element of a 2:4 group, a pair of a 4:8 group (chunk 8), and the 16-bit halves of a tf32 (chunk
    2).
    """
    if chunk == 2:
        return np.asarray(sparse_k(2 * stored, nibbles)) // 2  # type: ignore[arg-type]
    if chunk == 8:
        pairs = np.asarray(sparse_k(stored // 2, nibbles))  # type: ignore[arg-type]
        return np.asarray(2 * pairs + stored % 2)
    return np.asarray(sparse_k(stored, nibbles))  # type: ignore[arg-type]


# ---- `tcgen05_mma`: one instruction on the memories of a CTA or a pair, explained


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


@in_default_state
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
    """Execute one `tcgen05.mma`: D = A * B + D, read through the descriptors and written to tensor memory.

    - Accumulator: `d`, its address in tensor memory. With `scale_input_d` n, the D that is added is divided by 2^n.
    - Operands: `a`, a shared-memory descriptor, or a `TmemAddress` for A in tensor memory, and `b`, a descriptor.
    - Instruction descriptor: `idesc`. If it is a word, its `kind` is needed, too.
    - Pair: with `cta_group` 2 both memories are pairs, of the even CTA and its peer. Descriptors and addresses are the
      same in both.
    - Scale factors of block-scaled kinds: `scale_a` and `scale_b`, their addresses, and `scale_vec`, "1X", "2X", "4X",
      "block16" or "block32".
    - Sparsity: `metadata`, the address of the metadata of A.

    The instruction is complete when the call returns. The result has D, both operands with their addresses and owners,
    and `terms(m, n)`. If a known datapath would give other bits, `certain` is False. It is also False if D depends on
    uninitialised data or on an uncertain earlier result.

    Grades: addresses and places are documented, compiled or inferred (`result.grade`). The sums are inferred from
    public studies (`result.arithmetic`). Nothing is measured on Blackwell. `result.disputes` names contradictions of
    the sources.

    Raises InputError for an instruction that does not exist. Raises HardwareTrap if an operand leaves the shared
    window. Raises Unmodelled for unknown behaviour. Nothing is written then.

    >>> from smemsim import SmemDescriptor, TensorMemory, tcgen05_mma
    >>> import numpy as np
    >>> from smemsim import SharedMemory
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
    mma = Tcgen05Mma(
        i, memories[0].arch, d, a, b, cta_group=cta_group, ws=flag("ws", ws), scale_vec=scale_vec, scale_a=scale_a, scale_b=scale_b,
        enable_input_d=flag("enable_input_d", enable_input_d), scale_input_d=scale_input_d, disable_output_lane=disable_output_lane,
        metadata=metadata, zero_column_mask=zero_column_mask,
    )  # fmt: skip
    check_together(tensor, memories, cta_group)
    return _explained(Issue(prepare(mma), tensor, memories))


def _explained(issue: Issue) -> MmaResult:
    """Run one instruction, and note the writers of its operands before it writes D."""
    mma, i, tensor = issue.mma, issue.mma.i, issue.tensor
    if isinstance(mma.a, SharedOperand):
        of_a: tuple[MmaOperand, ...] = (mma.a.explain(issue.shared),)
    else:  # once for every band of N that has lanes of its own
        of_a = tuple(_explain_a(i, mma.a, copy, tensor) for copy in cells_of_a(mma.a))
    of_b = mma.b.explain(issue.shared)
    c, nobody, is_unsure = _explain_d(mma, tensor)
    values = _values(issue, [operand.bits for operand in of_a], of_b.bits, c)
    counts, is_doubtful = _doubts_of_all(mma, tensor)
    for memory, where in zip(tensor, cells_of_d(mma.d), strict=True):
        memory.check_allocated(*where)
    rows = np.concatenate([np.repeat(operand.doubtful_rows[:, None], i.n // len(of_a), axis=1) for operand in of_a], axis=1)
    counts = {
        "A": sum(int(operand.unwritten.sum()) for operand in of_a), "B": int(of_b.unwritten.sum()), "D": int(nobody.sum()), **counts,
    }  # fmt: skip
    result = MmaResult(
        mma.of.name, of_a, of_b, values.c, _multiply([(mma, values)])[0], i.d_type,
        grade=weaker(mma.layout_grade, *(operand.grade for operand in (*of_a, of_b))), arithmetic=row_of(i.kind, i.a_type, i.b_type, i.d_type),
        doubtful=rows | of_b.doubtful_rows | nobody | is_unsure | is_doubtful, index=values.index,
        unwritten={name: count for name, count in counts.items() if count}, disputes=mma.disputes, scale_c=mma.options.scale_c,
        adds_c=mma.of.enable_input_d, factors=values.factors, negate=(i.negate_a, i.negate_b), written=mma.written,
        zero_columns=mma.zero_columns, saturate=i.saturate,
    )  # fmt: skip
    _write_owned(result, issue)
    return result


def _explain_a(i: InstrDescriptor, layout: ATmemLayout, cells: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...]) -> MmaOperand:
    """A (M x stored K) of one copy in tensor memory, with place and writer of every element."""
    cta, lane, column, bit = cells
    size = -(-element_format(i.a_type).bits // 8)
    owners, doubts = np.empty((2, *cta.shape), np.int64), np.zeros((2, *cta.shape), bool)
    for number, memory in enumerate(tensor):
        mine = cta == number
        byte = (bit[mine] // 8)[:, None]
        for of_kind, of_bytes in zip(owners, memory.owners(lane[mine], column[mine]), strict=True):
            of_kind[mine] = np.take_along_axis(of_bytes, byte, -1)[:, 0]
        for of_kind, of_bytes in zip(doubts, memory.doubts(lane[mine], column[mine]), strict=True):
            # all bytes of the element; a container begins with a byte, or is half of one
            of_kind[mine] = np.take_along_axis(of_bytes, byte + np.arange(size), -1).any(-1)
    writers = tuple(used_writers(owners[0][cta == number], memory.writers) for number, memory in enumerate(tensor))
    address = (lane << 16 | column).astype(np.uint32)
    raw = _elements(_gather(tensor, cta, lane, column), bit, i, layout)
    return MmaOperand(
        i.a_type, "tensor", raw, address, bit, cta[:, 0], owners[0], owners[1], writers, _grade_of_a(i, layout), doubts[0], doubts[1]
    )


def _doubts_of_all(mma: Prepared, tensor: tuple[TensorMemory, ...]) -> tuple[dict[str, int], bool]:
    """The number of uninitialised scale factors and groups of metadata, and whether these, or an uncertain writer, put
    all of D in doubt.
    """
    fields = [("the scale factors", cells_of_scales(layout), 8) for layout in mma.scales or ()]
    fields += [("the metadata", cells_of_metadata(mma.metadata), 1)] if mma.metadata else []
    counts: dict[str, int] = {}
    is_doubtful = False
    for name, cells, unit in fields:
        nobody, is_unsure = _doubts(cells, tensor, unit)
        counts[name] = counts.get(name, 0) + int(nobody.any(0).sum())
        is_doubtful |= bool(nobody.any() or is_unsure.any())
    return counts, is_doubtful


def _explain_d(mma: Prepared, tensor: tuple[TensorMemory, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(content of D, is it uninitialised, were its writers not certain of it), each (M, N)."""
    if not mma.of.enable_input_d:
        nothing = np.zeros((mma.i.m, mma.i.n), bool)
        return nothing.astype(np.uint32), nothing, nothing
    cells = cells_of_d(mma.d)
    held = np.concatenate([memory.read(*where) for memory, where in zip(tensor, cells, strict=True)])
    doubts = [memory.doubts(*where) for memory, where in zip(tensor, cells, strict=True)]
    size = 2 if mma.i.d_type == "f16" else 4
    nobody, is_unsure = (np.concatenate([of_bytes[..., :size].any(-1) for of_bytes in kind]) for kind in zip(*doubts, strict=True))
    return held, nobody, is_unsure


def _write_owned(result: MmaResult, issue: Issue) -> None:
    """Write D, and that the instruction wrote it."""
    first = 0
    for cta, (memory, (lane, column)) in enumerate(zip(issue.tensor, cells_of_d(issue.mma.d), strict=True)):
        rows = slice(first, first + len(lane))
        writer, values = TmemMma(result, cta, first), result.d[rows].astype(np.uint32)
        if result.written is None:
            memory.write_cells(lane, column, values, writer)
        else:
            on = result.written[rows]
            place = np.arange(values.size).reshape(values.shape) * 4
            memory.write_placed(lane[on], column[on], values[on], writer, place[on])
        first += len(lane)
