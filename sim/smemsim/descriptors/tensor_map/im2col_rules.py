"""What cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide refuse besides the rules that all encode calls share.

Both are measured on an H200, where driver 580 judges the second as it does the first, with corners of 0 along H and D. What the second
asks for on Blackwell is what the driver's header and the PTX ISA say.
"""

from __future__ import annotations

from collections.abc import Sequence

from smemsim.descriptors.tensor_map.arguments import Arguments
from smemsim.descriptors.tensor_map.rule import FINE, IM2COL, WIDE, Rule, Target, rule
from smemsim.descriptors.tensor_map.rules import lengths
from smemsim.spec.tensor_map import LIMITS, WIDE_IS_IM2COL, Im2colWideMode, TensorMapSwizzle, corner_bits

__all__ = ["RULES"]

RULES: list[Rule] = []

WIDE_SWIZZLES = (TensorMapSwizzle.SWIZZLE_64B, TensorMapSwizzle.SWIZZLE_128B, TensorMapSwizzle.SWIZZLE_128B_ATOM_32B)
_CORNERS = ("pixel_box_lower_corner", "pixel_box_upper_corner")
_BOTH_TRACES = "traces encode_im2col, encode_im2col_wide"


def _truly_wide(a: Arguments, at: Target) -> bool:
    """A wide map on an architecture that has them, not Hopper's plain one."""
    return a.mode is not None and at.arch not in WIDE_IS_IM2COL


@rule(RULES, f"cuTensorMapEncodeIm2col: tensorRank; {_BOTH_TRACES}", "measured", "documented", calls=(*IM2COL, *WIDE))
def im2col_rank(a: Arguments, at: Target) -> Sequence[str]:
    """Rank 3 to 5; every array as long as the rank asks."""
    n = len(a.global_dim)
    broken = lengths(a, {"global_strides": max(n - 1, 0), "element_strides": n})
    if not 3 <= n <= LIMITS.max_rank:
        broken.insert(0, f"rank = {n} (entries of global_dim): im2col needs 3 to {LIMITS.max_rank}")
    return broken


@rule(
    RULES, "cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner; trace encode_im2col", "measured", "documented", calls=IM2COL
)
def corner_entries(a: Arguments, at: Target) -> Sequence[str]:
    """A corner has one entry for each spatial axis, rank - 2."""
    axes = max(len(a.global_dim) - 2, 0)
    return lengths(a, {"pixel_box_lower_corner": axes, "pixel_box_upper_corner": axes})


@rule(
    RULES,
    f"cuTensorMapEncodeIm2col: channelsPerPixel, pixelsPerColumn; {_BOTH_TRACES}",
    "measured",
    "documented",
    calls=(*IM2COL, *WIDE),
)
def column(a: Arguments, at: Target) -> Sequence[str]:
    """1 to 256 channels a pixel, 1 to 1024 pixels a column (which mode W128 ignores, but not on Hopper)."""
    broken = []
    if not 1 <= a.channels_per_pixel <= LIMITS.max_box:
        broken.append(f"channels_per_pixel = {a.channels_per_pixel}: needs 1 to {LIMITS.max_box}")
    ignored = a.mode is Im2colWideMode.W128 and _truly_wide(a, at)
    if not 1 <= a.pixels_per_column <= LIMITS.max_pixels_per_column and not ignored:
        broken.append(f"pixels_per_column = {a.pixels_per_column}: needs 1 to {LIMITS.max_pixels_per_column}")
    return broken


@rule(
    RULES,
    f"cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner; {_BOTH_TRACES}",
    "measured",
    "documented",
    calls=(*IM2COL, *WIDE),
)
def corners(a: Arguments, at: Target) -> Sequence[str]:
    """Corners fit 16, 8 or 5 signed bits for rank 3, 4 or 5; W comes first. On Hopper those of wide maps do too."""
    rank = len(a.global_dim)
    if not 3 <= rank <= LIMITS.max_rank or _truly_wide(a, at):
        return FINE
    limit = 1 << (corner_bits(rank) - 1)
    here = "" if a.mode is None else " on Hopper"
    return [
        f"{f'{name}[{i}]' if a.mode is None else f'{name}_width'} = {value}: needs {-limit} to {limit - 1} for rank {rank}{here}"
        for name, corner in zip(_CORNERS, a.pixel_box, strict=True)
        for i, value in enumerate(corner)
        if not -limit <= value < limit
    ]


@rule(RULES, f"in no document; {_BOTH_TRACES}", "measured", "inferred", calls=(*IM2COL, *WIDE), needs=("interleave",))
def bounding_box(a: Arguments, at: Target) -> Sequence[str]:
    """The box between the corners is not empty on any axis: dimensions 1 .. without interleave, 0 .. with interleave, W first; the
    driver takes dim + upper as a signed 32-bit number, so that dimensions above 2^31 are refused here."""
    first = 0 if a.interleave else 1
    broken: list[str] = []
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
                f"pixel box axis {i}: it ends at global_dim[{first + i}] + upper = {n} + {upper} = {n + upper}{wrapped}: "
                f"needs more than lower = {lower}"
            )
    return broken


@rule(RULES, "cuTensorMapEncodeIm2colWide: swizzle; PTX ISA 5.5.5", "", "documented", calls=WIDE, needs=("swizzle", "interleave"))
def wide_swizzle(a: Arguments, at: Target) -> Sequence[str]:
    """im2col::w maps have no interleave, and one of the swizzles 64B, 128B, 128B_ATOM_32B; not asked on Hopper."""
    broken: list[str] = []
    if not _truly_wide(a, at):
        return broken
    if a.interleave:
        broken.append(f"interleave = {a.interleave.name}: needs INTERLEAVE_NONE for im2col::w")
    if a.swizzle not in WIDE_SWIZZLES:
        broken.append(f"swizzle = {a.swizzle.name}: needs {', '.join(s.name for s in WIDE_SWIZZLES)} for im2col::w")
    return broken


@rule(RULES, "cuTensorMapEncodeIm2colWide: pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth", "", "documented", calls=WIDE)
def wide_corners(a: Arguments, at: Target) -> Sequence[str]:
    """Both corners of the W axis fit 16 signed bits for every rank, and the box between them is not empty; Hopper asks for less bits."""
    if not _truly_wide(a, at):
        return FINE
    limit = 1 << (LIMITS.wide_corner_bits - 1)
    broken = [
        f"{name} = {getattr(a, name)}: needs {-limit} to {limit - 1}"
        for name in ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width")
        if not -limit <= getattr(a, name) < limit
    ]
    lower, upper = a.pixel_box_lower_corner_width, a.pixel_box_upper_corner_width
    if len(a.global_dim) > 1 and a.global_dim[1] + upper <= lower:
        n = a.global_dim[1]
        broken.append(f"pixel box along W: it ends at global_dim[1] + upper = {n} + {upper} = {n + upper}: needs more than lower = {lower}")
    return broken
