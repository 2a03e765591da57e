"""What the driver's encode calls refuse: one generator a rule, each yielding a sentence for every value that breaks it.

The rules are those that driver 580 on an H200 enforces, fitted to the traces encode_tiled and encode_im2col; documented rules that it
does not enforce are not here (stride order, box larger than the tensor, INTERLEAVE_32B with another swizzle).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

from smemsim.spec.architectures import architecture
from smemsim.spec.swizzles import MODES
from smemsim.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLES,
    DataType,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
    corner_bits,
)

__all__ = ["RULES", "Arguments", "Rule", "Violation", "violations"]


class Violation(str):
    """The sentence of a broken rule; `rule` is the rule's name."""

    rule: str

    def __new__(cls, sentence: str, rule: str) -> Violation:
        self = super().__new__(cls, sentence)
        self.rule = rule
        return self


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Arguments as given; an enum is None where its code was out of range (which is reported elsewhere)."""

    global_address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    data_type: TensorMapDataType | None
    interleave: Interleave | None
    swizzle: TensorMapSwizzle | None
    l2_promotion: L2Promotion | None
    oob_fill: OobFill | None
    arch: str | None  # the architecture the map is judged for
    box_dim: tuple[int, ...] = ()
    pixel_box_lower_corner: tuple[int, ...] = ()
    pixel_box_upper_corner: tuple[int, ...] = ()
    channels_per_pixel: int = 0
    pixels_per_column: int = 0
    im2col: bool = False

    @property
    def row(self) -> DataType | None:
        return None if self.data_type is None else DATA_TYPES[self.data_type]

    @property
    def alignment(self) -> int:
        wide = self.interleave is Interleave.INTERLEAVE_32B or (self.row is not None and bool(self.row.swizzles))
        return LIMITS.address_alignment_32b if wide else LIMITS.address_alignment


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule: its name (that of the function), what it is about, where it is written, which calls it is for."""

    name: str
    text: str
    source: str
    tiled: bool
    im2col: bool
    check: Callable[[Arguments], Iterator[str]]


RULES: list[Rule] = []
Check = Callable[[Arguments], Iterator[str]]


def rule(source: str, *, tiled: bool = True, im2col: bool = True) -> Callable[[Check], Check]:
    """Register a generator as a rule; its docstring is the rule's text."""

    def register(check: Check) -> Check:
        RULES.append(Rule(check.__name__, (check.__doc__ or "").strip(), source, tiled, im2col, check))
        return check

    return register


@rule("cuTensorMapEncodeTiled: rank; trace encode_tiled", im2col=False)
def rank(a: Arguments) -> Iterator[str]:
    """Rank 1 to 5, at least 3 with interleave; every array as long as the rank asks."""
    n = len(a.global_dim)
    if not 1 <= n <= LIMITS.max_rank:
        yield f"rank = {n} (entries of global_dim): needs 1 to {LIMITS.max_rank}"
    elif a.interleave and n < 3:
        yield f"rank = {n}: needs at least 3 with interleave {a.interleave.name}"
    for name, entries, wanted in (
        ("global_strides", len(a.global_strides), max(n - 1, 0)),
        ("box_dim", len(a.box_dim), n),
        ("element_strides", len(a.element_strides), n),
    ):
        if entries != wanted:
            yield f"{name} has {entries} entries: needs {wanted} for rank {n}"


@rule("cuTensorMapEncodeTiled: globalAddress; traces encode_tiled, encode_im2col")
def global_address(a: Arguments) -> Iterator[str]:
    """A multiple of 16 B, or 32 B with INTERLEAVE_32B, below 2^57; 0 is accepted, and it need not be mapped."""
    if not 0 <= a.global_address < LIMITS.address_end or a.global_address % a.alignment:
        yield f"global_address = {a.global_address:#x}: needs a multiple of {a.alignment} B below 2^{LIMITS.address_end.bit_length() - 1}"


@rule("cuTensorMapEncodeTiled: globalDim; traces encode_tiled, encode_im2col")
def global_dim(a: Arguments) -> Iterator[str]:
    """1 to 2^32 elements; sub-byte types need a multiple in dimension 0."""
    for i, n in enumerate(a.global_dim):
        if not 1 <= n <= LIMITS.max_dim:
            yield f"global_dim[{i}] = {n}: needs 1 to 2^{LIMITS.max_dim.bit_length() - 1}"
    if a.row is not None and a.global_dim and a.global_dim[0] % a.row.multiple:
        yield f"global_dim[0] = {a.global_dim[0]}: needs a multiple of {a.row.multiple} for {a.row.code.name}"


@rule("cuTensorMapEncodeTiled: globalStrides; traces encode_tiled, encode_im2col")
def global_strides(a: Arguments) -> Iterator[str]:
    """Multiples of 16 B (32 B with INTERLEAVE_32B) below 2^40; 0 and overlaps are accepted."""
    for i, stride in enumerate(a.global_strides):
        if stride % a.alignment or not 0 <= stride <= LIMITS.max_stride:
            yield f"global_strides[{i}] = {stride} B: needs a multiple of {a.alignment} B below 2^{LIMITS.max_stride.bit_length()}"


@rule("cuTensorMapEncodeTiled: boxDim; trace encode_tiled", im2col=False)
def box_dim(a: Arguments) -> Iterator[str]:
    """1 to 256 elements a dimension."""
    for i, n in enumerate(a.box_dim):
        if not 1 <= n <= LIMITS.max_box:
            split = f"; split it into {-(-n // LIMITS.max_box)} issues" if n > 0 else ""
            yield f"box_dim[{i}] = {n}: needs 1 to {LIMITS.max_box}{split}"


@rule("cuTensorMapEncodeTiled: elementStrides; traces encode_tiled, encode_im2col")
def element_strides(a: Arguments) -> Iterator[str]:
    """1 to 8, also in dimension 0 where it is ignored."""
    for i, n in enumerate(a.element_strides):
        if not 1 <= n <= LIMITS.max_element_stride:
            ignored = " (the driver checks it although it is ignored without interleave)" if i == 0 and not a.interleave else ""
            yield f"element_strides[{i}] = {n}: needs 1 to {LIMITS.max_element_stride}{ignored}"


@rule("cuTensorMapEncodeTiled: boxDim[0]; traces encode_tiled, encode_im2col")
def inner_bytes(a: Arguments) -> Iterator[str]:
    """The inner extent is a multiple of 16 B, and without interleave at most the swizzle width; ALIGN16B types need 128 elements."""
    name, elements = ("channels_per_pixel", a.channels_per_pixel) if a.im2col else ("box_dim[0]", a.box_dim[0] if a.box_dim else 0)
    if a.row is None or elements < 1:
        return
    bits = elements * a.row.bits
    inner = (
        f"{name} = {elements} x {a.row.bits} bit = {bits // 8} B"
        if bits % 8 == 0
        else f"{name} = {elements} x {a.row.bits} bit = {bits} bit"
    )
    if a.row.swizzles:
        if elements != a.row.multiple:
            yield f"{name} = {elements}: needs {a.row.multiple} elements for {a.row.code.name}"
        return
    if bits % (8 * LIMITS.inner_alignment):
        yield f"{inner}: needs a multiple of {LIMITS.inner_alignment} B"
    if a.swizzle and a.interleave is Interleave.INTERLEAVE_NONE:
        width = MODES[SWIZZLES[a.swizzle]].width
        if bits > 8 * width:
            most = 8 * width // a.row.bits
            yield (
                f"{inner}: needs at most {width} B with {a.swizzle.name}; use {-(-elements // most)} issues of at most {most} elements, "
                "or another swizzle"
            )


@rule("cuTensorMapEncodeTiled: oobFill; traces encode_tiled, encode_im2col")
def fill(a: Arguments) -> Iterator[str]:
    """NaN fill needs a floating-point type."""
    if a.oob_fill and a.row is not None and not a.row.nan_fill:
        yield f"oob_fill = {a.oob_fill.name}: needs a floating-point type of 16 bits or more, not {a.row.code.name}"


@rule("in no document; traces encode_tiled, encode_im2col")
def total_bytes(a: Arguments) -> Iterator[str]:
    """The box takes at most 228 KiB, counted as element bytes x floor(box / element stride) in every dimension, 0 included."""
    if a.row is None or any(n < 1 for n in (*a.box_dim, *a.element_strides)):
        return
    if a.im2col:
        elements = a.channels_per_pixel * a.pixels_per_column
    else:
        elements = math.prod(box // step for box, step in zip(a.box_dim, a.element_strides, strict=False))
    size = a.row.bits * elements // 8
    if size > LIMITS.max_box_bytes:
        yield f"the box takes {size} B of shared memory: needs at most {LIMITS.max_box_bytes} B"


@rule("cuTensorMapEncodeIm2col: tensorRank; trace encode_im2col", tiled=False)
def im2col_rank(a: Arguments) -> Iterator[str]:
    """Rank 3 to 5; a corner has rank - 2 entries."""
    n = len(a.global_dim)
    if not 3 <= n <= LIMITS.max_rank:
        yield f"rank = {n} (entries of global_dim): im2col needs 3 to {LIMITS.max_rank}"
    for name, entries, wanted in (
        ("global_strides", len(a.global_strides), max(n - 1, 0)),
        ("element_strides", len(a.element_strides), n),
        ("pixel_box_lower_corner", len(a.pixel_box_lower_corner), max(n - 2, 0)),
        ("pixel_box_upper_corner", len(a.pixel_box_upper_corner), max(n - 2, 0)),
    ):
        if entries != wanted:
            yield f"{name} has {entries} entries: needs {wanted} for rank {n}"


@rule("cuTensorMapEncodeIm2col: channelsPerPixel, pixelsPerColumn; trace encode_im2col", tiled=False)
def column(a: Arguments) -> Iterator[str]:
    """1 to 256 channels a pixel, 1 to 1024 pixels a column."""
    if not 1 <= a.channels_per_pixel <= LIMITS.max_box:
        yield f"channels_per_pixel = {a.channels_per_pixel}: needs 1 to {LIMITS.max_box}"
    if not 1 <= a.pixels_per_column <= LIMITS.max_pixels_per_column:
        yield f"pixels_per_column = {a.pixels_per_column}: needs 1 to {LIMITS.max_pixels_per_column}"


@rule("cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner; trace encode_im2col", tiled=False)
def corners(a: Arguments) -> Iterator[str]:
    """Corners fit 16, 8 or 5 signed bits for rank 3, 4 or 5; W comes first."""
    rank = len(a.global_dim)
    if not 3 <= rank <= LIMITS.max_rank:
        return
    limit = 1 << (corner_bits(rank) - 1)
    for name in ("pixel_box_lower_corner", "pixel_box_upper_corner"):
        for i, value in enumerate(getattr(a, name)):
            if not -limit <= value < limit:
                yield f"{name}[{i}] = {value}: needs {-limit} to {limit - 1} for rank {rank}"


@rule("in no document; trace encode_im2col", tiled=False)
def bounding_box(a: Arguments) -> Iterator[str]:
    """The box between the corners is not empty on any axis: dimensions 1 .. without interleave, 0 .. with interleave, W first.

    The driver takes dim + upper as a signed 32-bit number, so that dimensions above 2^31 are refused here.
    """
    first = 1 if a.interleave is Interleave.INTERLEAVE_NONE else 0
    for i, (lower, upper) in enumerate(zip(a.pixel_box_lower_corner, a.pixel_box_upper_corner, strict=False)):
        if first + i >= len(a.global_dim):
            return
        n = a.global_dim[first + i]
        end = (n + upper + (1 << 31)) % (1 << 32) - (1 << 31)
        if end <= lower:
            wrapped = f" (in 32 bits {end})" if end != n + upper else ""
            yield f"pixel box axis {i}: it ends at global_dim[{first + i}] + upper = {n} + {upper} = {n + upper}{wrapped}: needs more than lower = {lower}"


@rule("cuTensorMapEncodeTiled: 16U4_ALIGN16B, 16U6_ALIGN16B (documented)")
def padded_types(a: Arguments) -> Iterator[str]:
    """Types with gaps in shared memory: no interleave, no swizzle or one of 128 bytes."""
    if a.row is None or not a.row.swizzles:
        return
    if a.interleave:
        yield f"interleave = {a.interleave.name}: needs INTERLEAVE_NONE for {a.row.code.name}"
    if a.swizzle is not None and a.swizzle.name not in a.row.swizzles:
        yield f"swizzle = {a.swizzle.name}: needs {', '.join(a.row.swizzles)} for {a.row.code.name}"


@rule("driver 580 on an H200; traces encode_tiled, encode_im2col")
def hopper(a: Arguments) -> Iterator[str]:
    """Sub-byte types and 128B atom swizzles do not exist on Hopper."""
    if a.arch is None or architecture(a.arch).instruction != "wgmma":
        return
    if a.row is not None and not a.row.sm90:
        yield f"data_type = {a.row.code.name}: needs sm_100 or later"
    if a.swizzle is not None and a.swizzle > TensorMapSwizzle.SWIZZLE_128B:
        yield f"swizzle = {a.swizzle.name}: needs sm_100 or later"


def violations(arguments: Arguments) -> list[Violation]:
    """Every rule that is broken, as sentences; empty where the driver accepts."""
    chosen = [r for r in RULES if (r.im2col if arguments.im2col else r.tiled)]
    return [Violation(sentence, r.name) for r in chosen for sentence in r.check(arguments)]
