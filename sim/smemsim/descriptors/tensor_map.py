"""`TensorMap`: the arguments of a cuTensorMapEncode call, or the 128 bytes it made, as a value."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from smemsim.arguments import is_whole, shown, whole, wholes
from smemsim.descriptors.tensor_map_rules import Arguments, Violation, violations
from smemsim.errors import InputError, TensorMapError
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.swizzles import MODES, SwizzleMode
from smemsim.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLE_BITS,
    SWIZZLES,
    TENSOR_MAP,
    DataType,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
    pack_corner,
    unpack_corner,
)

__all__ = ["TensorMap"]

E = TypeVar("E", bound=enum.IntEnum)
_PREFIXES = ("CU_TENSOR_MAP_", "DATA_TYPE_", "INTERLEAVE_", "SWIZZLE_", "L2_PROMOTION_", "FLOAT_OOB_FILL_")
_SHORT: dict[type[enum.IntEnum], dict[str, int]] = {
    TensorMapDataType: {name: row.code for row in DATA_TYPES.values() for name in row.names},
    TensorMapSwizzle: {str(name): code for code, name in SWIZZLES.items()} | {"NONE": 0},
    Interleave: {"none": 0, "NONE": 0, "16B": 1, "32B": 2},
    L2Promotion: {"none": 0, "64B": 1, "128B": 2, "256B": 3},
    OobFill: {"zeros": 0, "nan": 1, "none": 0},
}
_ENUMS: tuple[tuple[str, type[enum.IntEnum]], ...] = (
    ("data_type", TensorMapDataType),
    ("interleave", Interleave),
    ("swizzle", TensorMapSwizzle),
    ("l2_promotion", L2Promotion),
    ("oob_fill", OobFill),
)
_IM2COL = ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorMap:
    """A tensor map. Dimension 0 is the contiguous one; strides are bytes, of dimensions 1 …; every argument has the driver's name.

    Make one with `TensorMap.tiled`, `TensorMap.im2col` or `TensorMap.from_bytes`. `bytes(tm)` are the 128 bytes the driver would have
    produced (measured on an H200 with driver 580: traces encode_tiled, encode_im2col). A tiled map has no corners, an im2col map no
    `box_dim`.
    """

    data_type: TensorMapDataType
    global_address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...] = ()
    pixel_box_lower_corner: tuple[int, ...] = ()
    pixel_box_upper_corner: tuple[int, ...] = ()
    channels_per_pixel: int = 0
    pixels_per_column: int = 0
    element_strides: tuple[int, ...]
    interleave: Interleave
    swizzle: TensorMapSwizzle
    l2_promotion: L2Promotion
    oob_fill: OobFill
    unknown_bits: int = 0  # of 1024: where `from_bytes` found something else than the encoder writes

    @classmethod
    def tiled(
        cls,
        *,
        data_type: Any,
        global_address: int,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        box_dim: Sequence[int],
        element_strides: Sequence[int] | None = None,
        interleave: Any = "none",
        swizzle: Any = "none",
        l2_promotion: Any = "none",
        oob_fill: Any = "zeros",
        arch: str | None = None,
    ) -> TensorMap:
        """The map cuTensorMapEncodeTiled makes of these arguments; TensorMapError where it refuses them.

        `arch` is the architecture the map is judged for; with None it must be legal on one of them. Enums are taken as names, as the
        driver's codes, and as members of cuda.bindings' enums.

        >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,),
        ...                      box_dim=(64, 8), swizzle="128B")
        >>> len(bytes(tm)), tm.swizzle.name
        (128, 'SWIZZLE_128B')
        """
        shape = {"box_dim": _list("box_dim", box_dim)}
        enums = (data_type, interleave, swizzle, l2_promotion, oob_fill)
        return cls._judged(shape, enums, arch, global_address, global_dim, global_strides, element_strides)

    @classmethod
    def im2col(
        cls,
        *,
        data_type: Any,
        global_address: int,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        pixel_box_lower_corner: Sequence[int],
        pixel_box_upper_corner: Sequence[int],
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: Sequence[int] | None = None,
        interleave: Any = "none",
        swizzle: Any = "none",
        l2_promotion: Any = "none",
        oob_fill: Any = "zeros",
        arch: str | None = None,
    ) -> TensorMap:
        """The map cuTensorMapEncodeIm2col makes of these arguments; dimensions are C, W[, H[, D]], N, corners W first.

        >>> tm = TensorMap.im2col(data_type="f16", global_address=0x10000, global_dim=(64, 8, 8, 2), global_strides=(128, 1024, 8192),
        ...                       pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1), channels_per_pixel=64,
        ...                       pixels_per_column=32, swizzle="128B")
        >>> TensorMap.from_bytes(bytes(tm)) == tm
        True
        """
        shape = {
            "pixel_box_lower_corner": _list("pixel_box_lower_corner", pixel_box_lower_corner),
            "pixel_box_upper_corner": _list("pixel_box_upper_corner", pixel_box_upper_corner),
            "channels_per_pixel": whole("channels_per_pixel", channels_per_pixel),
            "pixels_per_column": whole("pixels_per_column", pixels_per_column),
        }
        enums = (data_type, interleave, swizzle, l2_promotion, oob_fill)
        return cls._judged(shape, enums, arch, global_address, global_dim, global_strides, element_strides)

    @classmethod
    def _judged(
        cls,
        shape: dict[str, Any],
        enums: tuple[Any, ...],
        arch: str | None,
        global_address: Any,
        global_dim: Any,
        global_strides: Any,
        element_strides: Any,
    ) -> TensorMap:
        if arch is not None:
            architecture(arch)
        dims = _list("global_dim", global_dim)
        given: dict[str, Any] = {
            **shape,
            "global_address": whole("global_address", global_address),
            "global_dim": dims,
            "global_strides": _list("global_strides", global_strides),
            "element_strides": (1,) * len(dims) if element_strides is None else _list("element_strides", element_strides),
        }
        unknown: list[Violation] = []
        for (name, kind), value in zip(_ENUMS, enums, strict=True):
            given[name] = _member(name, kind, value, unknown)
        broken = unknown + violations(Arguments(arch=arch, im2col="box_dim" not in shape, **given))
        if broken:
            raise TensorMapError(broken)
        made = cls(**given)
        made.__dict__["_broken_on"] = {arch: (), None: ()}  # just judged
        return made

    @classmethod
    def from_bytes(cls, raw: Any) -> TensorMap:
        """The map of 128 bytes from a dump or a debugger, or of a `CUtensorMap` of cuda.bindings. `bytes` of it are the same again."""
        word = int.from_bytes(_raw_bytes(raw), "little")
        value = TENSOR_MAP.decode(word)
        rank = value["rank"]
        types = [d for d in DATA_TYPES.values() if (d.format_code, int(d.to_tf32)) == (value["format"], value["to_tf32"])]
        if not 1 <= rank <= LIMITS.max_rank or not types or value["interleave"] not in set(Interleave) or (value["im2col"] and rank < 3):
            what = "im2col " if value["im2col"] else ""
            raise TensorMapError(
                [f"the 128 bytes hold no tensor map: {what}rank {rank}, format code {value['format']}, interleave {value['interleave']}"]
            )
        shape: dict[str, Any] = {"box_dim": tuple(value[f"box{i}"] for i in range(rank))}
        if value["im2col"]:
            packed = sum((value[f"box{k + 1}"] - 1) << 8 * k for k in range(4))
            shape = {
                "pixel_box_lower_corner": unpack_corner(packed & 0xFFFF, rank),
                "pixel_box_upper_corner": unpack_corner(packed >> 16, rank),
                "channels_per_pixel": value["box0"],
                "pixels_per_column": value["pixels"] + 1,
            }
        made = cls(
            **shape,
            data_type=types[0].code,
            global_address=value["global_address"],
            global_dim=tuple(value[f"dim{i}"] for i in range(rank)),
            global_strides=tuple(value[f"stride{i}_low"] << 4 | value[f"stride{i}_high"] << 36 for i in range(rank - 1)),
            element_strides=tuple(value[f"element_stride{i}"] for i in range(rank)),
            interleave=Interleave(value["interleave"]),
            swizzle=_swizzle_of(value["swizzle_low"], value["atomicity"]),
            l2_promotion=L2Promotion(value["l2_promotion"]),
            oob_fill=OobFill(value["nan_fill"]),
        )
        return dataclasses.replace(made, unknown_bits=word ^ made._word())

    @property
    def rank(self) -> int:
        """Number of dimensions, 1 to 5."""
        return len(self.global_dim)

    @property
    def is_im2col(self) -> bool:
        """Made by cuTensorMapEncodeIm2col?"""
        return bool(self.channels_per_pixel)

    @property
    def broken_rules(self) -> tuple[str, ...]:
        """Rules of the encode call that the map breaks: none but for maps from `from_bytes` that no driver makes."""
        return self.broken_on(None)

    def broken_on(self, arch: str | None) -> tuple[str, ...]:
        """Rules that the map breaks on an architecture; with None those of all of them."""
        known: dict[str | None, tuple[str, ...]] = self.__dict__.setdefault("_broken_on", {})
        if arch not in known:
            given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "unknown_bits"}
            known[arch] = tuple(violations(Arguments(arch=arch, im2col=self.is_im2col, **given)))
        return known[arch]

    @functools.cached_property
    def unknown_fields(self) -> tuple[str, ...]:
        """Names of the fields whose bits are not what the encoder writes for these arguments."""
        return tuple(name for name, field in TENSOR_MAP.fields.items() if field.raw(self.unknown_bits))

    def __post_init__(self) -> None:
        for name, kind in _ENUMS:
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} = {shown(getattr(self, name))}: make a map with TensorMap.tiled, .im2col or .from_bytes")

    @property
    def type_row(self) -> DataType:
        """The row of the element type."""
        return DATA_TYPES[self.data_type]

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """The row of the swizzle mode."""
        return MODES[SWIZZLES[self.swizzle]]

    def __bytes__(self) -> bytes:
        return (self._word() ^ self.unknown_bits).to_bytes(128, "little")

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if self.unknown_bits:
            return f"TensorMap.from_bytes(bytes.fromhex('{bytes(self).hex()}'))"
        ours = {kind: {int(code): text for text, code in reversed(_SHORT[kind].items())} for _, kind in _ENUMS}
        shown = []
        for name, value in given.items():
            if name == "unknown_bits" or (value in ((), 0) and name in ("box_dim", *_IM2COL)):
                continue
            text = getattr(value, "name", None)
            shown.append(f"{name}={text if text is None else ours[type(value)].get(int(value), text)!r}" if text else f"{name}={value!r}")
        return f"TensorMap.{'im2col' if self.is_im2col else 'tiled'}({', '.join(shown)})"

    def _word(self) -> int:
        row, mode = self.type_row, self.swizzle_mode
        if self.is_im2col:
            elements = self.channels_per_pixel * self.pixels_per_column
            corners = pack_corner(self.pixel_box_lower_corner, self.rank) | pack_corner(self.pixel_box_upper_corner, self.rank) << 16
            shape = {"im2col": 1, "box0": self.channels_per_pixel, "pixels": self.pixels_per_column - 1}
            shape |= {f"box{k + 1}": (corners >> 8 * k & 0xFF) + 1 for k in range(4)}
        else:
            elements = math.prod(box // step for box, step in zip(self.box_dim, self.element_strides, strict=True))
            shape = {f"box{i}": box for i, box in enumerate(self.box_dim)}
        values = {
            **shape,
            "global_address": self.global_address,
            "rank": self.rank,
            "format": row.format_code,
            "interleave": self.interleave,
            "swizzle_low": SWIZZLE_BITS[self.swizzle][0],
            "nan_fill": self.oob_fill,
            "to_tf32": int(row.to_tf32),
            "l2_promotion": self.l2_promotion,
            "atomicity": SWIZZLE_BITS[self.swizzle][1],
            "box_bytes": row.bits * elements // 8 & 0xFFFFFFFF,
            "swizzle_period": 8 * mode.width if mode.mask else mode.period,
        }
        # Fields of dimensions past the rank hold 0 bits, which is the value 1 where n - 1 is stored.
        for i in range(self.rank):
            values |= {f"dim{i}": self.global_dim[i], f"element_stride{i}": self.element_strides[i]}
        for i, stride in enumerate(self.global_strides):
            values |= {f"stride{i}_low": stride >> 4 & 0xFFFFFFFF, f"stride{i}_high": stride >> 36}
        return TENSOR_MAP.encode(**values)


def _list(name: str, values: Any) -> tuple[int, ...]:
    return wholes(name, values, wanted="one whole number a dimension, dimension 0 (contiguous) first")


def _swizzle_of(low: int, atomicity: int) -> TensorMapSwizzle:
    by_bits = {bits: code for code, bits in SWIZZLE_BITS.items()}
    return by_bits.get((low, atomicity), by_bits[low, 0])


def _member(name: str, kind: type[E], value: Any, unknown: list[Violation]) -> E | None:
    """The enum member of a name, a code or a foreign enum's member; None and a violation when there is none."""
    number: int | None = None
    if isinstance(value, str):
        text = value
        for prefix in _PREFIXES:
            text = text.removeprefix(prefix)
        named = _SHORT[kind].get(text, _SHORT[kind].get(value))
        if named is None and text in kind.__members__:
            named = int(kind[text])
        number = named
    elif is_whole(value):
        number = whole(name, value)
    elif kind is TensorMapDataType and (getattr(value, "name", None) or getattr(value, "__name__", None)):
        number = _SHORT[kind].get(element_format(value).name)
    else:
        raise InputError(f"{name} = {shown(value)}: needs a name, a driver code or an enum member")
    if number is not None and number in set(kind):
        return kind(number)
    listed = ", ".join(f"{member.name} = {int(member)}" for member in kind)
    unknown.append(Violation(f"{name} = {shown(value)}: no such code (known: {listed})", "enum_code"))
    return None


def _raw_bytes(raw: Any) -> bytes:
    if hasattr(raw, "getPtr"):  # cuda.bindings' CUtensorMap has no buffer protocol
        import ctypes

        return ctypes.string_at(int(raw.getPtr()), 128)
    try:
        data = bytes(memoryview(raw))
    except TypeError:
        raise InputError(f"a tensor map is 128 bytes or an object that holds them, not {type(raw).__name__}") from None
    if len(data) != 128:
        raise InputError(f"a tensor map is 128 bytes, not {len(data)}")
    return data
