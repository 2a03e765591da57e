"""The 128 bytes of a tensor map, both ways. `spec.tensor_map.TENSOR_MAP` has the places of the fields.

Measured (driver 580 on an H200, traces encode_tiled, encode_im2col, encode_im2col_wide). The bits of newer swizzles and
sub-byte types are those that ptxas emits for tensormap.replace: compiled.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.finding import Finding, TensorMapError
from smemsim.core.spec.fields import PART_BITS, Selection
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLE_BITS,
    SWIZZLES,
    TENSOR_MAP,
    WIDE_IS_IM2COL,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
    grade_unread,
    pack_corner,
    unpack_corner,
)
from smemsim.core.words.tensor_map.arguments import Arguments
from smemsim.core.words.tensor_map.rules import refused

__all__ = ["Encoded", "decode_parts", "encode_parts", "raw_bytes"]


def _bits(**fields: int) -> int:
    """The part of the map in which all enums stand, with these fields."""
    word = TENSOR_MAP.encode(**fields)
    if word & ~(((1 << PART_BITS) - 1) << PART_BITS * _ENUM_PART):
        raise ValueError(f"{', '.join(fields)}: not in part {_ENUM_PART} of the map")
    return word >> PART_BITS * _ENUM_PART


_ENUM_PART = TENSOR_MAP.fields["format"].low // PART_BITS
_FORMATS = {code: (row.format_code, int(row.to_tf32)) for code, row in DATA_TYPES.items()}
_TYPE_BITS = {code: _bits(format=form, to_tf32=tf32) for code, (form, tf32) in _FORMATS.items()}
_MODE_BITS = {code: _bits(swizzle_low=low, atomicity=atomicity, swizzle_high=high) for code, (low, atomicity, high) in SWIZZLE_BITS.items()}
_INTERLEAVE_BITS = {code: _bits(interleave=code) for code in Interleave}
_PROMOTION_BITS = {code: _bits(l2_promotion=code) for code in L2Promotion}
_FILL_BITS = {code: _bits(nan_fill=code) for code in OobFill}
_CALL_BITS = {(call, rank): _bits(im2col=call, rank=rank) for call in (0, 1) for rank in range(1, LIMITS.max_rank + 1)}

_HEAD = TENSOR_MAP.select(
    "im2col", "rank", "interleave", "l2_promotion", "nan_fill", "format", "to_tf32", "swizzle_low", "atomicity", "swizzle_high",
)  # fmt: skip


def _lists(rank: int, tail: Sequence[str]) -> Selection:
    """Dimensions, element strides, low and high parts of the strides, then the box and what is derived from it."""
    strides = [f"stride{i}_{part}" for part in ("low", "high") for i in range(rank - 1)]
    dims = [f"{name}{i}" for name in ("dim", "element_stride") for i in range(rank)]
    return TENSOR_MAP.select("global_address", *dims, *strides, *tail, "box_bytes", "swizzle_period")


_RANKS = range(1, LIMITS.max_rank + 1)
_TILED = {rank: _lists(rank, [f"box{i}" for i in range(rank)]) for rank in _RANKS}
_IM2COL = {rank: _lists(rank, ["pixels", *(f"box{i}" for i in range(5))]) for rank in _RANKS[2:]}

_PERIODS = {code: 8 * MODES[s].width if MODES[s].mask else MODES[s].period for code, s in SWIZZLES.items()}
_INTERLEAVES, _PROMOTIONS, _FILLS = dict(enumerate(Interleave)), tuple(L2Promotion), tuple(OobFill)
_LOW_STRIDE_BITS = TENSOR_MAP.fields["stride0_low"].width
_LOW_STRIDE = TENSOR_MAP.fields["stride0_low"].mask
_BOX_BYTES = TENSOR_MAP.fields["box_bytes"].mask
_STRIDE_UNIT = 4  # strides are stored in units of 16 B
_HIGH_STRIDE = _LOW_STRIDE_BITS + _STRIDE_UNIT


def raw_bytes(raw: Any) -> bytes:
    """The 128 bytes of anything that holds them; InputError for what does not.

    >>> raw_bytes(bytearray(128)) == bytes(128)
    True
    """
    if hasattr(raw, "getPtr"):  # cuda.bindings' CUtensorMap has no buffer protocol
        import ctypes

        return ctypes.string_at(int(raw.getPtr()), TENSOR_MAP.parts.size)
    try:
        view = memoryview(raw)
        data = view.tobytes()
        if "O" in view.format:
            raise TypeError("an array of Python objects holds addresses of them, not bytes")
    except (TypeError, BufferError, ValueError, NotImplementedError):
        hint = "; TensorMap.parse reads text" if isinstance(raw, str) else ""
        raise InputError(f"a tensor map is 128 bytes or an object that holds them, not {type(raw).__name__}{hint}") from None
    if len(data) != TENSOR_MAP.parts.size:
        raise InputError(f"a tensor map is 128 bytes, not {len(data)}")
    return data


def encode_parts(a: Arguments) -> list[int]:
    """The 64-bit parts of the map that the driver makes; fields of dimensions past the rank hold 0 bits.

    A wide map becomes on Hopper an im2col map without corners along H and D; its mode goes nowhere (trace
    encode_im2col_wide).
    """
    rank = len(a.global_dim)
    parts = [0] * (TENSOR_MAP.bits // PART_BITS)
    parts[_ENUM_PART] = (
        _CALL_BITS[not a.box_dim, rank]
        | _TYPE_BITS[a.data_type]
        | _MODE_BITS[a.swizzle]
        | _INTERLEAVE_BITS[a.interleave]
        | _PROMOTION_BITS[a.l2_promotion]
        | _FILL_BITS[a.oob_fill]
    )
    low = [stride >> _STRIDE_UNIT & _LOW_STRIDE for stride in a.global_strides]
    high = [stride >> _HIGH_STRIDE for stride in a.global_strides]
    if a.box_dim:
        elements = math.prod(map(operator.floordiv, a.box_dim, a.element_strides))
        select, box = _TILED[rank], a.box_dim
    else:
        elements = a.channels_per_pixel * a.pixels_per_column
        lower, upper = a.pixel_box
        corners = (pack_corner(lower, rank) | pack_corner(upper, rank) << 16).to_bytes(4, "little")
        select, box = _IM2COL[rank], (a.pixels_per_column - 1, a.channels_per_pixel, *[byte + 1 for byte in corners])
    derived = (a.type_row.bits * elements // 8 & _BOX_BYTES, _PERIODS[a.swizzle])
    select.write(parts, (a.global_address, *a.global_dim, *a.element_strides, *low, *high, *box, *derived))
    return parts


def decode_parts(parts: Sequence[int]) -> dict[str, Any]:
    """The arguments by name. Raises TensorMapError, with a sentence for every field, if the bits are not a map."""
    im2col, rank, interleave, promotion, fill, form, tf32, low, atomicity, high = _HEAD.read(parts)
    data_type = _TYPE_OF.get((form, tf32))
    if rank > LIMITS.max_rank or (im2col and rank < 3) or data_type is None or interleave not in _INTERLEAVES:
        raise TensorMapError(_why_no_map(im2col, rank, form, interleave))
    address, *values = (_IM2COL if im2col else _TILED)[rank].read(parts)[:-2]
    n = 2 * rank
    lows, highs, box = values[n : n + rank - 1], values[n + rank - 1 : n + 2 * rank - 2], values[n + 2 * rank - 2 :]
    given = {
        "data_type": data_type,
        "global_address": address,
        "global_dim": tuple(values[:rank]),
        "global_strides": tuple([(a | b << _LOW_STRIDE_BITS) << _STRIDE_UNIT for a, b in zip(lows, highs, strict=True)]),
        "element_strides": tuple(values[rank:n]),
        "interleave": _INTERLEAVES[interleave],
        "swizzle": _SWIZZLE_OF[low, atomicity, high],
        "l2_promotion": _PROMOTIONS[promotion],
        "oob_fill": _FILLS[fill],
    }
    if not im2col:
        given["box_dim"] = tuple(box)
        return given
    pixels, channels, *corners = box
    packed = int.from_bytes(bytes([byte - 1 for byte in corners]), "little")
    return given | {
        "pixel_box_lower_corner": unpack_corner(packed & 0xFFFF, rank),
        "pixel_box_upper_corner": unpack_corner(packed >> 16, rank),
        "channels_per_pixel": channels,
        "pixels_per_column": pixels + 1,
    }


def _why_no_map(im2col: int, rank: int, form: int, interleave: int) -> list[Finding]:
    reasons = []
    if rank > LIMITS.max_rank:
        reasons.append(f"rank {rank} where maps have 1 to {LIMITS.max_rank}")
    elif im2col and rank < 3:
        reasons.append(f"im2col rank {rank} where im2col maps have 3 to {LIMITS.max_rank}")
    if (form, 0) not in _TYPE_OF:
        reasons.append(f"format code {form} where element types have 0 to {max(f for f, _ in _TYPE_OF)}")
    if interleave not in _INTERLEAVES:
        reasons.append(f"interleave {interleave} where it is 0 to {max(_INTERLEAVES)}")
    return [refused(f"the 128 bytes hold no tensor map: {reason}") for reason in reasons]


def _swizzle_of(low: int, atomicity: int, high: int) -> TensorMapSwizzle:
    """The mode of three fields; of combinations that no mode has, the mode without the foreign ones, which are unknown
    bits then.
    """
    by_bits = {bits: code for code, bits in SWIZZLE_BITS.items()}
    return next(by_bits[b] for b in ((low, atomicity, high), (low, 0, high), (low, atomicity, 0), (low, 0, 0)) if b in by_bits)


def _type_of() -> dict[tuple[int, int], TensorMapDataType]:
    """By (format, to_tf32). tensormap.replace of the element type leaves a set tf32 bit: for other formats it is an
    unknown bit.
    """
    plain = {(form, 1): code for code, (form, tf32) in _FORMATS.items() if not tf32}
    return plain | {bits: code for code, bits in _FORMATS.items()}


_SWIZZLE_OF = {(low, a, high): _swizzle_of(low, a, high) for low in range(4) for a in range(4) for high in range(2)}
_TYPE_OF = _type_of()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoded(Arguments):
    """The arguments of a tensor map together with its 128 bytes, `bytes(encoded)`."""

    # of 1024: where other bytes were found than the encoder writes
    unknown_bits: int = dataclasses.field(default_factory=int)
    on_hopper: bool = False  # a wide map encoded for Hopper, which has only plain im2col maps

    @functools.cached_property
    def unknown_fields(self) -> tuple[str, ...]:
        """Names of the fields whose bits are not what the encoder writes for these arguments. () for a map that was
        encoded.
        """
        if not self.unknown_bits:
            return ()
        return tuple(name for name, field in TENSOR_MAP.fields.items() if field.raw(self.unknown_bits))

    def unread_fields(self, arch: str | None) -> dict[str, Grade | None]:
        """The names of `unknown_fields`, each with the grade of the evidence that no transfer on an architecture
        reads it. The grade is None if the effect of the field is unknown.
        """
        if not self.unknown_bits:
            return {}
        raw = int.from_bytes(bytes(self), "little")
        return {name: grade_unread(name, TENSOR_MAP.fields[name].raw(raw), arch) for name in self.unknown_fields}

    def __getattr__(self, name: str) -> int:
        # A map from bytes is compared with the encoder's only on demand.
        if name == "unknown_bits" and "_raw" in self.__dict__:
            bits = int.from_bytes(self.__dict__["_raw"], "little") ^ int.from_bytes(TENSOR_MAP.parts.pack(*encode_parts(self)), "little")
            self.__dict__[name] = bits
            return bits
        raise AttributeError(f"a TensorMap has no attribute {name!r}")

    def __bytes__(self) -> bytes:
        raw: bytes | None = self.__dict__.get("_raw")
        if raw is not None:
            return raw
        if self.mode is not None and not self.on_hopper:
            raise Unmodelled(
                "the bits that cuTensorMapEncodeIm2colWide writes on sm_100 and later are not published; those of driver 580 on Hopper (a plain "
                f"im2col map) are known: arch={WIDE_IS_IM2COL[0]!r}"
            )
        packed: bytes = TENSOR_MAP.parts.pack(*encode_parts(self))
        if self.unknown_bits:
            return (int.from_bytes(packed, "little") ^ self.unknown_bits).to_bytes(len(packed), "little")
        return packed
