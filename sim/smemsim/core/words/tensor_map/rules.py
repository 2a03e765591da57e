"""The rules of the driver's encode calls for tiled and im2col maps, and the driver's answer.

On sm_90a the rules are those that driver 580 enforces on an H200, fitted to the traces encode_tiled, encode_im2col and
encode_im2col_wide. Documented rules that it does not enforce are findings (`problems`). On Blackwell they are those of
the driver's header, or inferred. This module has the rules of tiled maps; `im2col_rules` adds those of im2col maps.

Both calls are measured on an H200. Driver 580 treats the second like the first, with corners of 0 along H and D. The
rules of the second on Blackwell are those of the driver's header and the PTX ISA.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.finding import Finding, InWord, Path
from smemsim.core.spec.architectures import ARCHITECTURES, MACHINES, any_architecture
from smemsim.core.spec.findings import CODES
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLE_ARCHITECTURES,
    SWIZZLES,
    WIDE_IS_IM2COL,
    Im2colWideMode,
    Interleave,
    TensorMapSwizzle,
    corner_bits,
)
from smemsim.core.words.tensor_map.arguments import Arguments, Call

__all__ = [
    "ALL_CALLS",
    "FINE",
    "IM2COL",
    "IM2COL_RULES",
    "TENSOR_MAP_RULES",
    "TILED",
    "TILED_RULES",
    "WIDE",
    "Broken",
    "Call",
    "Rule",
    "Target",
    "inner",
    "inner_shown",
    "lengths",
    "refused",
    "rule",
    "target",
    "violations",
]


# ---- What a rule of the encode calls is: a row with a check, its grades, and where it is written


TILED: tuple[Call, ...] = ("tiled",)
IM2COL: tuple[Call, ...] = ("im2col",)
WIDE: tuple[Call, ...] = ("im2col_wide",)
ALL_CALLS: tuple[Call, ...] = (*TILED, *IM2COL, *WIDE)


class Broken(NamedTuple):
    """A value that breaks a rule, and what to write instead ("" if there is no single answer)."""

    what: str
    fix: str = ""


FINE: Sequence[Broken] = ()


@dataclasses.dataclass(frozen=True)
class Target:
    """The target of a check: an architecture (None: any), and an encode call. With `encode=False` it is existing bytes
    instead.

    Maps that no encode call makes can be made by tensormap.replace. They are legal if the PTX ISA allows them.
    """

    arch: str | None
    encode: bool

    @property
    def relaxed_stores(self) -> bool:
        """sm_103a relaxes what stores of 6-bit elements need (PTX ISA 9.1 §5.5.1.1)."""
        return not self.encode and self.arch in (None, "sm_103a")


Check = Callable[[Arguments, Target], Sequence[Broken]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule: its name, its requirement, its source, its grade on each architecture, and its calls.

    The code of its finding in a larger check is `code`. The enums that the rule needs are `needs`. Rules that are
    `newer` concern types and swizzles that Hopper does not have.
    """

    name: str
    text: str
    source: str
    grades: dict[str, Grade]
    code: str
    calls: tuple[Call, ...]
    encode_only: bool
    needs: tuple[str, ...]
    newer: bool
    check: Check = dataclasses.field(repr=False)

    def __str__(self) -> str:
        grades = ", ".join(f"{arch} {grade}" for arch, grade in self.grades.items())
        return f"{self.name}: {self.text} ({grades}; {self.source})"


def rule(
    table: list[Rule],
    source: str,
    sm_90a: str,
    blackwell: str,
    *,
    code: str = "T205",
    calls: tuple[Call, ...] = ALL_CALLS,
    encode_only: bool = False,
    needs: tuple[str, ...] = (),
    newer: bool = False,
) -> Callable[[Check], Check]:
    """Make a check a row of the table; its docstring is the rule's text, its grades those of sm_90a ("": not there) and
    of sm_100a, sm_103a.
    """
    grades = {name: Grade(g) for name in ARCHITECTURES if (g := sm_90a if name == "sm_90a" else blackwell)}

    def register(check: Check) -> Check:
        text = " ".join((check.__doc__ or "").split())
        table.append(Rule(check.__name__, text, source, grades, code, calls, encode_only, needs, newer, check))
        return check

    return register


# ---- What the driver's encode calls refuse: one row a rule, whose check returns a sentence for
# every value that breaks it


TILED_RULES: list[Rule] = []
_SLICES_OF_32 = Interleave.INTERLEAVE_32B


def alignment(a: Arguments, at: Target) -> int:
    """Bytes that addresses and strides are multiples of; a data type that is not known asks for nothing."""
    row = DATA_TYPES.get(a.data_type)
    if a.interleave is _SLICES_OF_32 or (row is not None and row.swizzles and not (row.store_multiple and at.relaxed_stores)):
        return LIMITS.address_alignment_32b
    return LIMITS.address_alignment


def inner(a: Arguments) -> tuple[str, int]:
    """(argument, elements) of the inner extent of the box; 0 elements where none were given."""
    if a.box_dim:
        return "box_dim[0]", a.box_dim[0]
    return "channels_per_pixel", a.channels_per_pixel


def inner_shown(a: Arguments) -> str:
    """The inner extent in elements and bytes."""
    name, elements = inner(a)
    bits = elements * a.type_row.bits
    size = f"{bits} bit" if bits % 8 else f"{bits // 8} B"
    return f"{name} = {elements} x {a.type_row.bits} bit = {size}"


@rule(TILED_RULES, "cuda.h: the enums; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "documented")
def enum_code(a: Arguments, at: Target) -> Sequence[Broken]:
    """Every enum is one of the driver's codes."""
    return tuple(map(Broken, a.unknown_codes))


@rule(TILED_RULES, "cuTensorMapEncodeTiled: rank; trace encode_tiled", "measured", "documented", calls=TILED)
def rank(a: Arguments, at: Target) -> Sequence[Broken]:
    """Rank 1 to 5, at least 3 with interleave; every array as long as the rank asks."""
    n = len(a.global_dim)
    broken: list[Broken] = []
    if not 1 <= n <= LIMITS.max_rank:
        broken.append(Broken(f"rank = {n} (entries of global_dim): needs 1 to {LIMITS.max_rank}"))
    elif n < 3 and a.interleave:
        broken.append(Broken(f"rank = {n}: needs at least 3 with interleave {a.interleave.name}"))
    if not len(a.box_dim) == len(a.element_strides) == n == len(a.global_strides) + 1:
        wanted = {"global_strides": max(n - 1, 0), "box_dim": n, "element_strides": n}
        broken += lengths(a, wanted)
    return broken


def lengths(a: Arguments, wanted: dict[str, int]) -> list[Broken]:
    """A sentence for every list that is not as long as wanted."""
    given = {name: len(getattr(a, name)) for name in wanted}
    hint = {"global_strides": "leave out the stride of dimension 0, which is contiguous"} if given.get("global_strides") == a.rank else {}
    return [
        Broken(f"{name} has {n} entries: needs {wanted[name]} for rank {a.rank}", hint.get(name, ""))
        for name, n in given.items()
        if n != wanted[name]
    ]


@rule(
    TILED_RULES,
    "cuTensorMapEncodeTiled: globalAddress; traces encode_tiled, encode_im2col, encode_im2col_wide",
    "measured",
    "documented",
    code="T204",
)
def global_address(a: Arguments, at: Target) -> Sequence[Broken]:
    """A multiple of 16 B; of 32 B with INTERLEAVE_32B and the ALIGN16B types. 0 is
    accepted, and it need not be mapped.
    """
    if a.global_address % (step := alignment(a, at)):
        return [Broken(f"global_address = {a.global_address:#x}: needs a multiple of {step} B")]
    return FINE


@rule(TILED_RULES, "in no document; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "inferred")
def address_range(a: Arguments, at: Target) -> Sequence[Broken]:
    """Addresses lie below 2^57."""
    if not 0 <= a.global_address < LIMITS.address_end:
        return [Broken(f"global_address = {a.global_address:#x}: needs an address from 0 to below 2^{LIMITS.address_end.bit_length() - 1}")]
    return FINE


@rule(TILED_RULES, "cuTensorMapEncodeTiled: globalDim; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "documented")
def global_dim(a: Arguments, at: Target) -> Sequence[Broken]:
    """1 to 2^32 elements a dimension."""
    most = LIMITS.max_dim
    for n in a.global_dim:
        if not 1 <= n <= most:
            break
    else:
        return FINE
    return [
        Broken(f"global_dim[{i}] = {n}: needs 1 to 2^{most.bit_length() - 1}") for i, n in enumerate(a.global_dim) if not 1 <= n <= most
    ]


@rule(
    TILED_RULES,
    "cuTensorMapEncodeTiled: globalStrides; traces encode_tiled, encode_im2col, encode_im2col_wide",
    "measured",
    "documented",
    code="T204",
)
def global_strides(a: Arguments, at: Target) -> Sequence[Broken]:
    """Multiples of 16 B (32 B with INTERLEAVE_32B and the ALIGN16B types) below 2^40; 0 and overlaps are accepted."""
    step, most = alignment(a, at), LIMITS.max_stride
    for stride in a.global_strides:
        if stride % step or not 0 <= stride <= most:
            break
    else:
        return FINE
    return [
        Broken(
            f"global_strides[{i}] = {n} B: needs a multiple of {step} B below 2^{most.bit_length()}",
            f"rows padded to {-(-n // step) * step} B" if 0 < n <= most else "",
        )
        for i, n in enumerate(a.global_strides)
        if n % step or not 0 <= n <= most
    ]


@rule(TILED_RULES, "cuTensorMapEncodeTiled: boxDim; trace encode_tiled", "measured", "documented", code="T201", calls=TILED)
def box_dim(a: Arguments, at: Target) -> Sequence[Broken]:
    """1 to 256 elements a dimension."""
    most = LIMITS.max_box
    for n in a.box_dim:
        if not 1 <= n <= most:
            break
    else:
        return FINE
    return [
        Broken(f"box_dim[{i}] = {n}: needs 1 to {most}", f"{-(-n // most)} transfers of at most {most}" if n > 0 else "")
        for i, n in enumerate(a.box_dim)
        if not 1 <= n <= most
    ]


@rule(
    TILED_RULES, "cuTensorMapEncodeTiled: elementStrides; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "documented"
)
def element_strides(a: Arguments, at: Target) -> Sequence[Broken]:
    """1 to 8, also in dimension 0 where it is ignored."""
    most = LIMITS.max_element_stride
    for n in a.element_strides:
        if not 1 <= n <= most:
            break
    else:
        return FINE
    ignored = "" if a.interleave else " (the driver checks it although it is ignored without interleave)"
    return [
        Broken(f"element_strides[{i}] = {n}: needs 1 to {most}{'' if i else ignored}", f"element_strides[{i}] = {1 if n < 1 else most}")
        for i, n in enumerate(a.element_strides)
        if not 1 <= n <= most
    ]


@rule(
    TILED_RULES, "cuTensorMapEncodeTiled: boxDim[0]; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "documented", code="T203", needs=("data_type", "interleave"),
)  # fmt: skip
def inner_alignment(a: Arguments, at: Target) -> Sequence[Broken]:
    """Without interleave the inner extent is a multiple of 16 B."""
    return FINE if a.interleave else unaligned(a)


@rule(
    TILED_RULES,
    "in no document; traces encode_tiled, encode_im2col, encode_im2col_wide",
    "measured",
    "inferred",
    code="T203",
    needs=("data_type", "interleave"),
)
def interleaved_inner_alignment(a: Arguments, at: Target) -> Sequence[Broken]:
    """With interleave too the inner extent, in elements of the type, is a multiple of 16 B."""
    return unaligned(a) if a.interleave else FINE


def unaligned(a: Arguments) -> Sequence[Broken]:
    """The sentence for an inner extent that is no multiple of 16 B; types with gaps have a rule of their own."""
    row, elements = a.type_row, inner(a)[1]
    if elements * row.bits % (8 * LIMITS.inner_alignment) == 0 or elements < 1 or row.swizzles:
        return FINE
    return [Broken(f"{inner_shown(a)}: needs a multiple of {LIMITS.inner_alignment} B")]


@rule(
    TILED_RULES, "cuTensorMapEncodeTiled: swizzle; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "documented",
    code="T202", needs=("data_type", "interleave", "swizzle"),
)  # fmt: skip
def inner_width(a: Arguments, at: Target) -> Sequence[Broken]:
    """Without interleave the inner extent is at most the swizzle width."""
    if not a.swizzle or a.interleave:
        return FINE
    row, width = a.type_row, MODES[SWIZZLES[a.swizzle]].width
    elements = inner(a)[1]
    if elements * row.bits <= 8 * width or row.swizzles:
        return FINE
    most = 8 * width // row.bits
    return [
        Broken(
            f"{inner_shown(a)}: needs at most {width} B with {a.swizzle.name}",
            f"{-(-elements // most)} transfers of at most {most} elements, or another swizzle",
        )
    ]


@rule(
    TILED_RULES,
    "cuTensorMapEncodeTiled: oobFill; traces encode_tiled, encode_im2col, encode_im2col_wide",
    "measured",
    "documented",
    needs=("data_type", "oob_fill"),
)
def fill(a: Arguments, at: Target) -> Sequence[Broken]:
    """NaN fill needs a floating-point type."""
    if a.oob_fill and not a.type_row.nan_fill:
        return [Broken(f"oob_fill = {a.oob_fill.name}: needs a floating-point type of 16 bits or more, not {a.data_type.name}")]
    return FINE


@rule(TILED_RULES, "in no document; traces encode_tiled, encode_im2col, encode_im2col_wide", "measured", "inferred", needs=("data_type",))
def total_bytes(a: Arguments, at: Target) -> Sequence[Broken]:
    """The box takes at most 228 KiB, counted as element bytes x floor(box / element stride) in every dimension, 0
    included; of wide maps it is asked on Hopper only.
    """
    if a.mode is not None and at.arch not in WIDE_IS_IM2COL:
        return FINE
    elements = a.channels_per_pixel * a.pixels_per_column if not a.box_dim else 1
    for n, step in zip(a.box_dim, a.element_strides, strict=False):
        if n < 1 or step < 1:
            return FINE
        elements *= n // step
    size = a.type_row.bits * elements // 8
    if size > LIMITS.max_box_bytes:
        return [Broken(f"the box takes {size} B of shared memory: needs at most {LIMITS.max_box_bytes} B")]
    return FINE


@rule(
    TILED_RULES, "cuTensorMapEncodeTiled: 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B; PTX ISA 9.1 §5.5.1.1", "", "documented", needs=("data_type",), newer=True,
)  # fmt: skip
def sub_byte_extents(a: Arguments, at: Target) -> Sequence[Broken]:
    """Dimension 0 of sub-byte tensors is a multiple of 2 elements, or of 128 with ALIGN16B types, whose inner box is
    128 elements.
    """
    row = a.type_row
    if row.multiple == 1:
        return FINE
    step = row.store_multiple if row.store_multiple and at.relaxed_stores else row.multiple
    broken = []
    if a.global_dim and a.global_dim[0] % step:
        broken.append(Broken(f"global_dim[0] = {a.global_dim[0]}: needs a multiple of {step} for {row.code.name}"))
    name, elements = inner(a)
    if row.swizzles and elements not in (step, row.multiple):
        wanted = f"{row.multiple}" if step == row.multiple else f"{row.multiple}, or {step} for stores on sm_103a,"
        broken.append(Broken(f"{name} = {elements}: needs {wanted} elements for {row.code.name}"))
    return broken


@rule(
    TILED_RULES, "cuTensorMapEncodeTiled: 16U4_ALIGN16B, 16U6_ALIGN16B; PTX ISA 9.1 §5.5.1.1", "", "documented", needs=("data_type", "swizzle", "interleave"), newer=True,
)  # fmt: skip
def padded_types(a: Arguments, at: Target) -> Sequence[Broken]:
    """Types with gaps in shared memory: no swizzle or one of 128 bytes; 6-bit elements are never interleaved."""
    row = a.type_row
    if not row.swizzles:
        return FINE
    broken = []
    if a.interleave and not row.interleaved:
        broken.append(Broken(f"interleave = {a.interleave.name}: needs INTERLEAVE_NONE for {row.code.name}"))
    allowed = (*row.swizzles, "SWIZZLE_64B") if row.store_multiple and at.relaxed_stores else row.swizzles
    if a.swizzle.name not in allowed:
        broken.append(Broken(f"swizzle = {a.swizzle.name}: needs {', '.join(allowed)} for {row.code.name}"))
    return broken


@rule(
    TILED_RULES, "driver 580 on an H200, traces encode_tiled, encode_im2col, encode_im2col_wide; cuda.h of CUDA 12.8 and later", "measured", "documented", needs=("data_type",), newer=True,
)  # fmt: skip
def sub_byte_types(a: Arguments, at: Target) -> Sequence[Broken]:
    """Sub-byte types exist from sm_100 on, not on Hopper."""
    if at.arch == "sm_90a" and not a.type_row.sm90:
        return [Broken(f"data_type = {a.data_type.name}: needs sm_100 or later")]
    return FINE


@rule(
    TILED_RULES, "driver 580 on an H200, traces encode_tiled, encode_im2col, encode_im2col_wide; PTX ISA 9.1 §5.5.7", "measured", "documented", needs=("swizzle",), newer=True,
)  # fmt: skip
def swizzle_atoms(a: Arguments, at: Target) -> Sequence[Broken]:
    """The 128B swizzles with larger atoms exist from sm_100 on, not on Hopper."""
    archs = SWIZZLE_ARCHITECTURES.get(a.swizzle)
    if archs is None or a.swizzle is TensorMapSwizzle.SWIZZLE_96B or at.arch is None or at.arch in archs:
        return FINE
    return [Broken(f"swizzle = {a.swizzle.name}: needs sm_100 or later")]


@rule(TILED_RULES, "PTX ISA 9.1 §5.5.7, 9.7.9.28", "documented", "documented", needs=("swizzle", "interleave"), newer=True)
def swizzle_96b_use(a: Arguments, at: Target) -> Sequence[Broken]:
    """The 96B swizzle exists on sm_103a only, and without interleave."""
    if a.swizzle is not TensorMapSwizzle.SWIZZLE_96B:
        return FINE
    archs, broken = SWIZZLE_ARCHITECTURES[a.swizzle], []
    if at.arch is not None and at.arch not in archs:
        broken.append(Broken(f"swizzle = {a.swizzle.name}: needs {' or '.join(archs)}"))
    if a.interleave:
        broken.append(Broken(f"interleave = {a.interleave.name}: needs INTERLEAVE_NONE with {a.swizzle.name}"))
    return broken


@rule(
    TILED_RULES,
    "cuda.h has no code for it; PTX ISA 9.1 §9.7.9.28",
    "documented",
    "documented",
    encode_only=True,
    needs=("swizzle",),
    newer=True,
)
def swizzle_96b(a: Arguments, at: Target) -> Sequence[Broken]:
    """No encode call makes a map with the 96B swizzle."""
    if a.swizzle is not TensorMapSwizzle.SWIZZLE_96B:
        return FINE
    return [
        Broken(
            "swizzle = SWIZZLE_96B: no encode call makes it",
            "encode another swizzle, and change it in the kernel: tensormap.replace.tile.swizzle_mode, value 4 (sm_103a)",
        )
    ]


# ---- What cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide refuse besides the rules that all encode calls share


IM2COL_RULES: list[Rule] = []

WIDE_SWIZZLES = (TensorMapSwizzle.SWIZZLE_64B, TensorMapSwizzle.SWIZZLE_128B, TensorMapSwizzle.SWIZZLE_128B_ATOM_32B)
_CORNERS = ("pixel_box_lower_corner", "pixel_box_upper_corner")
_BOTH_TRACES = "traces encode_im2col, encode_im2col_wide"


def _truly_wide(a: Arguments, at: Target) -> bool:
    """A wide map on an architecture that has them, not Hopper's plain one."""
    return a.mode is not None and at.arch not in WIDE_IS_IM2COL


@rule(IM2COL_RULES, f"cuTensorMapEncodeIm2col: tensorRank; {_BOTH_TRACES}", "measured", "documented", calls=(*IM2COL, *WIDE))
def im2col_rank(a: Arguments, at: Target) -> Sequence[Broken]:
    """Rank 3 to 5; every array as long as the rank asks."""
    n = len(a.global_dim)
    broken = lengths(a, {"global_strides": max(n - 1, 0), "element_strides": n})
    if not 3 <= n <= LIMITS.max_rank:
        broken.insert(0, Broken(f"rank = {n} (entries of global_dim): im2col needs 3 to {LIMITS.max_rank}"))
    return broken


@rule(
    IM2COL_RULES,
    "cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner; trace encode_im2col",
    "measured",
    "documented",
    calls=IM2COL,
)
def corner_entries(a: Arguments, at: Target) -> Sequence[Broken]:
    """A corner has one entry for each spatial axis, rank - 2."""
    axes = max(len(a.global_dim) - 2, 0)
    return lengths(a, {"pixel_box_lower_corner": axes, "pixel_box_upper_corner": axes})


@rule(
    IM2COL_RULES,
    f"cuTensorMapEncodeIm2col: channelsPerPixel, pixelsPerColumn; {_BOTH_TRACES}",
    "measured",
    "documented",
    calls=(*IM2COL, *WIDE),
)
def column(a: Arguments, at: Target) -> Sequence[Broken]:
    """1 to 256 channels a pixel, 1 to 1024 pixels a column (which mode W128 ignores, but not on Hopper)."""
    broken = []
    if not 1 <= a.channels_per_pixel <= LIMITS.max_box:
        broken.append(Broken(f"channels_per_pixel = {a.channels_per_pixel}: needs 1 to {LIMITS.max_box}"))
    ignored = a.mode is Im2colWideMode.W128 and _truly_wide(a, at)
    if not 1 <= a.pixels_per_column <= LIMITS.max_pixels_per_column and not ignored:
        broken.append(Broken(f"pixels_per_column = {a.pixels_per_column}: needs 1 to {LIMITS.max_pixels_per_column}"))
    return broken


@rule(
    IM2COL_RULES,
    f"cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner; {_BOTH_TRACES}",
    "measured",
    "documented",
    calls=(*IM2COL, *WIDE),
)
def corners(a: Arguments, at: Target) -> Sequence[Broken]:
    """Corners fit 16, 8 or 5 signed bits for rank 3, 4 or 5; W comes first. On Hopper those of wide maps do too."""
    rank = len(a.global_dim)
    if not 3 <= rank <= LIMITS.max_rank or _truly_wide(a, at):
        return FINE
    limit = 1 << (corner_bits(rank) - 1)
    here = "" if a.mode is None else " on Hopper"
    return [
        Broken(f"{f'{name}[{i}]' if a.mode is None else f'{name}_width'} = {value}: needs {-limit} to {limit - 1} for rank {rank}{here}")
        for name, corner in zip(_CORNERS, a.pixel_box, strict=True)
        for i, value in enumerate(corner)
        if not -limit <= value < limit
    ]


@rule(IM2COL_RULES, f"in no document; {_BOTH_TRACES}", "measured", "inferred", calls=(*IM2COL, *WIDE), needs=("interleave",))
def bounding_box(a: Arguments, at: Target) -> Sequence[Broken]:
    """The box between the corners is not empty on any axis: dimensions 1 .. without interleave, 0 .. with interleave, W
    first. The driver takes dim + upper as a signed 32-bit number, so dimensions above 2^31 are refused here.
    """
    first = 0 if a.interleave else 1
    broken: list[Broken] = []
    if _truly_wide(a, at):
        return broken
    for i, (lower, upper) in enumerate(zip(*a.pixel_box, strict=False)):
        if first + i >= len(a.global_dim):
            break
        n = a.global_dim[first + i]
        end = (n + upper + (1 << 31)) % (1 << 32) - (1 << 31)
        if end <= lower:
            wrapped = f" (in 32 bits {end})" if end != n + upper else ""
            broken.append(
                Broken(
                    f"pixel box axis {i}: it ends at global_dim[{first + i}] + upper = {n} + {upper} = {n + upper}{wrapped}: "
                    f"needs more than lower = {lower}"
                )
            )
    return broken


@rule(
    IM2COL_RULES, "cuTensorMapEncodeIm2colWide: swizzle; PTX ISA 9.1 §5.5.5", "", "documented", calls=WIDE, needs=("swizzle", "interleave")
)
def wide_swizzle(a: Arguments, at: Target) -> Sequence[Broken]:
    """im2col::w maps have no interleave, and one of the swizzles 64B, 128B, 128B_ATOM_32B; not asked on Hopper."""
    broken: list[Broken] = []
    if not _truly_wide(a, at):
        return broken
    if a.interleave:
        broken.append(Broken(f"interleave = {a.interleave.name}: needs INTERLEAVE_NONE for im2col::w"))
    if a.swizzle not in WIDE_SWIZZLES:
        broken.append(Broken(f"swizzle = {a.swizzle.name}: needs {', '.join(s.name for s in WIDE_SWIZZLES)} for im2col::w"))
    return broken


@rule(IM2COL_RULES, "cuTensorMapEncodeIm2colWide: pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth", "", "documented", calls=WIDE)
def wide_corners(a: Arguments, at: Target) -> Sequence[Broken]:
    """Both corners of the W axis fit 16 signed bits for every rank, and the box between them is not empty; Hopper asks
    for less bits.
    """
    if not _truly_wide(a, at):
        return FINE
    limit = 1 << (LIMITS.wide_corner_bits - 1)
    broken = [
        Broken(f"{name} = {getattr(a, name)}: needs {-limit} to {limit - 1}")
        for name in ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width")
        if not -limit <= getattr(a, name) < limit
    ]
    lower, upper = a.pixel_box_lower_corner_width, a.pixel_box_upper_corner_width
    if len(a.global_dim) > 1 and a.global_dim[1] + upper <= lower:
        n = a.global_dim[1]
        broken.append(
            Broken(f"pixel box along W: it ends at global_dim[1] + upper = {n} + {upper} = {n + upper}: needs more than lower = {lower}")
        )
    return broken


# ---- The verdict on an encode call: every rule that its arguments break


class TensorMapRules(dict[str, Rule], metaclass=OwnMembers):
    """The rules by which the driver accepts a tensor map, a dict by name. Each has `text`, `source`, `grades`, and the
    `code` of its finding. They have the order in which they are reported.

    >>> import smemsim
    >>> smemsim.TENSOR_MAP_RULES["global_address"].code
    'T204'
    """


TENSOR_MAP_RULES = TensorMapRules((r.name, r) for r in (*TILED_RULES, *IM2COL_RULES))

_CALLS: tuple[Call, ...] = ("tiled", "im2col", "im2col_wide")
# Nearly all maps have whole-byte types, one of Hopper's swizzles and legal codes: most rules about the others need not
# be asked.
_ALL = {
    (call, encode): tuple(r for r in TENSOR_MAP_RULES.values() if call in r.calls and (encode or not r.encode_only))
    for call in _CALLS
    for encode in (True, False)
}
_USUAL = {key: tuple(r.check for r in chosen if not r.newer and r.name != "enum_code") for key, chosen in _ALL.items()}
_TARGETS = {(arch, encode): Target(arch, encode) for arch in (None, *MACHINES) for encode in (True, False)}


def target(arch: Any, *, encode: bool) -> Target:
    """The target of a check; the architecture by its name, None for any."""
    if arch is None:
        return _TARGETS[None, encode]
    found = any_architecture(arch)
    if not found.has_clusters:
        raise InputError(f"arch = {found.name!r}: not an architecture that has tensor maps; they came with sm_90a")
    return _TARGETS[found.name, encode]


_WHOLE = InWord("tensor map", Path())


def refused(sentence: str, rule: str = "", code: str = "T205", source: str = "", repair: str = "") -> Finding:
    """The finding of a broken rule of the encode calls, which is about the map as a whole."""
    return Finding(code, CODES[code].severity, _WHOLE, sentence, repair, source=source, rule=rule)


def violations(a: Arguments, call: Call, at: Target) -> list[Finding]:
    """A finding for every sentence of every rule that is broken; empty where the driver accepts."""
    if call == "im2col_wide" and at.arch is None:  # two sets of rules: a call may be legal by the one or by the other
        return violations(a, call, _TARGETS["sm_100a", at.encode]) if violations(a, call, _TARGETS["sm_90a", at.encode]) else []
    chosen = _ALL[call, at.encode]
    if a.unknown_codes:
        chosen = tuple(r for r in chosen if all(getattr(a, name) is not None for name in r.needs))
    elif a.type_row.itemsize and a.swizzle not in SWIZZLE_ARCHITECTURES:
        for check in _USUAL[call, at.encode]:
            if check(a, at):
                break
        else:
            return []
    findings: list[Finding] = []
    for r in chosen:
        findings += [refused(broken.what, r.name, r.code, r.source, broken.fix) for broken in r.check(a, at)]
    return findings
