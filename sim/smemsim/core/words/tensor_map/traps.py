"""Which tensor maps trap in every transfer, in every load or in every store, whatever its coordinates and addresses.

Measured (H200): traces tma_edited, tma_mode_traps, tma_loads_far, tma_load_traps, tma_store_traps; on Blackwell it is
inferred from the same rules. Rows off 16 B and wider than the swizzle, and types that sm_90a has not, were measured in
loads only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal

from smemsim.core.spec.swizzles import MODES, SwizzleMode
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLE_BITS, SWIZZLES, Interleave, TensorMapSwizzle
from smemsim.core.spec.transfers import CHUNK_BYTES, ENCODE_CALLS, MAP_OF_MODE
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map.arguments import Arguments
from smemsim.core.words.tensor_map.bits import Encoded
from smemsim.core.words.tensor_map.rules import inner

__all__ = ["Direction", "MapTrap", "map_traps", "swizzle_in_force"]


Direction = Literal["load", "store", "transfer"]
_MEASURED = ("sm_90a", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MapTrap:
    """A reason why every `direction` ("transfer": both) through a map traps. It has the field, a sentence, the CUDA
    error, the fix, and the source.

    The suites that show it on sm_90a are `traces`, empty if nothing is measured. If `is_meant` is set, the documents
    allow the map for the other direction, so a kernel may have it. If the sentence begins with the field,
    `named` is set.
    """

    where: str
    reason: str
    direction: Direction = "transfer"
    cuda_error: int = ILLEGAL_INSTRUCTION
    repair: str = ""
    source: str = "no document says it"
    traces: tuple[str, ...] = ()
    is_meant: bool = False
    named: bool = False

    def stops(self, *, is_store: bool) -> bool:
        """Does the map trap in this direction, stores or loads?"""
        return self.direction in ("transfer", "store" if is_store else "load")


def map_traps(tm: Encoded, arch: str | None, mode: str | None = None) -> Iterator[MapTrap]:
    """Every reason, in the order in which hardware reports its errors. The instruction's mode is `mode`. None is that
    of the map.

    Without `arch` traps are those of sm_90a, and those of modes that only Blackwell has.

    >>> from smemsim import TensorMap
    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(1 << 32, 4), global_strides=(0,), box_dim=(64, 4))
    >>> [(trap.direction, trap.where, trap.cuda_error) for trap in map_traps(tm, "sm_90a")]
    [('transfer', 'global_dim[0]', 715)]
    """
    for ask in _QUESTIONS:
        yield from ask(tm, arch, mode)


def swizzle_in_force(a: Arguments, arch: str | None) -> SwizzleMode:
    """The mode that transfers go by: sm_90a looks at two bits of the map only (measured: trace tma_swizzle_bits).

    >>> from smemsim import TensorMap
    >>> tm = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(128,), global_strides=(), box_dim=(128,),
    ...                      swizzle="128B_ATOM_32B")
    >>> str(swizzle_in_force(tm, "sm_90a").swizzle), str(swizzle_in_force(tm, "sm_100a").swizzle)
    ('128B', '128B_ATOM_32B')
    """
    code = TensorMapSwizzle(SWIZZLE_BITS[a.swizzle][0]) if arch == "sm_90a" else a.swizzle
    return MODES[SWIZZLES[code]]


def _other_mode(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if mode is not None and tm.call != (wanted := MAP_OF_MODE[mode]):
        yield MapTrap(
            where="mode",
            reason=f"mode {mode} needs a map of {ENCODE_CALLS[wanted]}, not of {ENCODE_CALLS[tm.call]}",
            traces=("tma_mode_traps", "tma_edited"),
            named=True,
        )


def _far_dimensions(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    for i, n in enumerate(tm.global_dim):
        if n > LIMITS.max_usable_dim:
            yield MapTrap(
                where=f"global_dim[{i}]",
                reason=f"global_dim[{i}] = {n} is above 2^31 elements (the driver encodes up to 2^32)",
                repair="split the tensor, or fold part of the dimension into another",
                traces=("tma_loads_far", "tma_mode_traps"),
                named=True,
            )


def _stale_tf32(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if arch in _MEASURED and "to_tf32" in tm.unknown_fields:
        yield MapTrap(
            where="data_type",
            reason=f"the tf32 bit is set with {tm.type_row.code.name}; only FLOAT32 and FLOAT32_FTZ may have it",
            direction="load",
            repair="begin with a map of another type than TFLOAT32: tensormap.replace.tile.elemtype never clears the bit",
            traces=("tma_edited",),
        )


def _integer_nan(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if tm.oob_fill and not tm.type_row.nan_fill:
        yield MapTrap(
            where="oob_fill",
            reason=f"oob_fill is NaN, and {tm.type_row.code.name} has no NaN (stores ignore the fill)",
            direction="load",
            repair="use fill with zeros, or a floating-point type of 16 bits or more",
            source="cuTensorMapEncodeTiled: oobFill",
            traces=("tma_edited",),
            named=True,
        )


def _newer_type(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if arch == "sm_90a" and not tm.type_row.sm90:
        yield MapTrap(
            where="data_type",
            reason=f"data_type = {tm.type_row.code.name} needs sm_100a; sm_90a does not have it",
            repair="load the elements as UINT8",
            source="cuda.h of CUDA 12.8 and later; of loads, of stores inferred",
            traces=("tma_edited",),
            named=True,
        )


def _inner_extent(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if tm.interleave:
        return
    row, (name, elements) = tm.type_row, inner(tm)
    chunk_bytes, swizzle = CHUNK_BYTES.get(row.code, 16), swizzle_in_force(tm, arch)
    bits = elements * row.bits
    if bits % (8 * chunk_bytes):
        yield MapTrap(
            where=name,
            reason=f"a row of the box takes {bits / 8:g} B, which is not a multiple of {chunk_bytes} B",
            repair=f"make {name} a multiple of {8 * chunk_bytes // row.bits} elements",
            source="cuTensorMapEncodeTiled: boxDim[0]; of loads, of stores inferred",
            traces=("tma_edited",),
        )
    size = 16 * -(-(bits // 8) // chunk_bytes)
    if swizzle.mask and size > swizzle.width:
        yield MapTrap(
            where=name,
            reason=f"a row of the box takes {size} B of shared memory; {tm.swizzle.name} allows at most {swizzle.width} B",
            repair="a narrower box and more transfers, or another swizzle",
            source="cuTensorMapEncodeTiled: swizzle; of loads, of stores inferred",
            traces=("tma_edited",),
        )


def _slice_strides(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    step = LIMITS.address_alignment_32b
    if tm.interleave is Interleave.INTERLEAVE_32B and any(stride % step for stride in tm.global_strides):
        yield MapTrap(
            where="global_strides",
            reason=f"global_strides = {tm.global_strides}; INTERLEAVE_32B needs multiples of {step} B",
            repair=f"lay the tensor out with strides of {step} B",
            source="cuTensorMapEncodeTiled: globalStrides",
            traces=("tma_mode_traps", "tma_edited"),
            named=True,
        )


def _store_corners(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    lower, upper = tm.pixel_box_lower_corner, tm.pixel_box_upper_corner
    if tm.call == "im2col" and (min(lower) < 0 or max(upper) > 0):
        yield MapTrap(
            where="pixel_box_lower_corner" if min(lower) < 0 else "pixel_box_upper_corner",
            reason=f"the pixel box has the lower corner {lower} and the upper corner {upper}; a store needs lower corners >= 0 and upper corners <= 0",
            direction="store",
            repair="a separate map for stores",
            traces=("tma_mode_traps",),
            is_meant=True,
        )


def _gathered_box(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    if mode not in ("tile::gather4", "tile::scatter4"):
        return
    source = "PTX ISA 9.1 §9.7.9.27"
    if tm.rank != 2 or tm.interleave:
        reason = f"{mode} needs a map of rank 2 without interleave, not rank {tm.rank}, {tm.interleave.name}"
        yield MapTrap(where="rank", reason=reason, source=source)
    if tm.rank == 2 and tm.box_dim[1] != 1:
        reason = f"box_dim[1] = {tm.box_dim[1]}; {mode} needs 1, because the instruction names its four rows"
        yield MapTrap(where="box_dim[1]", reason=reason, source=source, named=True)


def _one_direction(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    row = tm.type_row
    if row.load_only:
        yield MapTrap(
            where="data_type",
            reason=f"{row.code.name} can be loaded, but not stored",
            direction="store",
            source="PTX ISA 9.1 §5.5.1.1, cuda.h",
            is_meant=True,
        )
    if row.swizzles and tm.swizzle is TensorMapSwizzle.SWIZZLE_128B_ATOM_64B:
        yield MapTrap(
            where="swizzle",
            reason=f"{row.code.name} with {tm.swizzle.name} can be stored, but not loaded",
            direction="load",
            source="cuTensorMapEncodeTiled: swizzle",
            is_meant=tm.swizzle.name in row.store_only,
        )


def _misaligned(tm: Encoded, arch: str | None, mode: str | None) -> Iterator[MapTrap]:
    step = LIMITS.address_alignment_32b if tm.interleave is Interleave.INTERLEAVE_32B else LIMITS.address_alignment
    if tm.global_address % step:
        yield MapTrap(
            where="global_address",
            reason=f"global_address = {tm.global_address:#x} is not a multiple of {step} B",
            cuda_error=MISALIGNED_ADDRESS,
            repair="an aligned address, and coordinates that lead to the first element",
            source="cuTensorMapEncodeTiled: globalAddress",
            traces=("tma_edited", "tma_mode_traps"),
            named=True,
        )


# In this order: of several reasons hardware reports an illegal instruction before a misaligned address.
_QUESTIONS: tuple[Callable[[Encoded, str | None, str | None], Iterator[MapTrap]], ...] = (
    _other_mode,
    _far_dimensions,
    _stale_tf32,
    _integer_nan,
    _newer_type,
    _inner_extent,
    _slice_strides,
    _store_corners,
    _gathered_box,
    _one_direction,
    _misaligned,
)
