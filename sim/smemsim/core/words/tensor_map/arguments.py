"""Arguments of the encode calls as people give them: lists of whole numbers, enums by name, code or foreign member."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar

from smemsim.base.arguments import is_whole, shown, suggestion, whole, wholes
from smemsim.base.errors import InputError
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.swizzles import MODES, SwizzleMode
from smemsim.core.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLES,
    DataType,
    Im2colWideMode,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
)

__all__ = ["ENUMS", "LISTS", "SHORT_NAMES", "Arguments", "members", "numbers"]


E = TypeVar("E", bound=enum.IntEnum)
ENUMS: dict[str, type[enum.IntEnum]] = {
    "data_type": TensorMapDataType,
    "interleave": Interleave,
    "swizzle": TensorMapSwizzle,
    "l2_promotion": L2Promotion,
    "oob_fill": OobFill,
    "mode": Im2colWideMode,
}
LISTS = ("global_dim", "global_strides", "box_dim", "pixel_box_lower_corner", "pixel_box_upper_corner", "element_strides")
# The names that smemsim prints, besides the driver's own.
SHORT_NAMES: dict[type[enum.IntEnum], dict[str, int]] = {
    TensorMapDataType: {name: row.code for row in DATA_TYPES.values() for name in row.names},
    TensorMapSwizzle: {str(name): code for code, name in SWIZZLES.items()},
    Interleave: {"none": 0, "16B": 1, "32B": 2},
    L2Promotion: {"none": 0, "64B": 1, "128B": 2, "256B": 3},
    OobFill: {"zeros": 0, "nan": 1, "none": 0},
    Im2colWideMode: {"W": 0, "W128": 1},
}
_DRIVER = "CU_TENSOR_MAP_"
_PREFIXES: dict[type[enum.IntEnum], str] = {
    TensorMapDataType: "DATA_TYPE_",
    TensorMapSwizzle: "SWIZZLE_",
    Interleave: "INTERLEAVE_",
    L2Promotion: "L2_PROMOTION_",
    OobFill: "FLOAT_OOB_FILL_",
    Im2colWideMode: "IM2COL_WIDE_MODE_",
}


def _accepted(kind: type[E]) -> dict[str | int, E]:
    """Every exact string and code that means a member: the header's name with and without its prefixes, the short
    names, the codes.
    """
    prefix = _PREFIXES[kind]
    plain = {m.name.removeprefix(prefix): m for m in kind} | {name: kind(code) for name, code in SHORT_NAMES[kind].items()}
    forms: dict[str | int, E] = {before + name: m for name, m in plain.items() for before in ("", prefix, _DRIVER + prefix)}
    return forms | {m.name: m for m in kind} | {int(m): m for m in kind}


_ACCEPTED: dict[str, dict[str | int, Any]] = {name: _accepted(kind) for name, kind in ENUMS.items()}


Call = Literal["tiled", "im2col", "im2col_wide"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of an encode call. Each of the three calls has its own fields; the others are empty.

    While arguments are checked, an enum with an unknown code is None, and `unknown_codes` has the sentence.
    """

    data_type: TensorMapDataType
    global_address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...] = ()
    pixel_box_lower_corner: tuple[int, ...] = ()
    pixel_box_upper_corner: tuple[int, ...] = ()
    pixel_box_lower_corner_width: int = 0
    pixel_box_upper_corner_width: int = 0
    channels_per_pixel: int = 0
    pixels_per_column: int = 0
    element_strides: tuple[int, ...]
    interleave: Interleave
    mode: Im2colWideMode | None = None
    swizzle: TensorMapSwizzle
    l2_promotion: L2Promotion
    oob_fill: OobFill
    unknown_codes: ClassVar[Sequence[str]] = ()

    @property
    def rank(self) -> int:
        """Number of dimensions, 1 to 5."""
        return len(self.global_dim)

    @property
    def call(self) -> Call:
        """The encode call that makes such a map: "tiled", "im2col" or "im2col_wide"."""
        return "tiled" if self.box_dim else "im2col" if self.mode is None else "im2col_wide"

    @property
    def is_im2col(self) -> bool:
        """True if cuTensorMapEncodeIm2col or cuTensorMapEncodeIm2colWide makes such a map."""
        return not self.box_dim

    @property
    def is_im2col_wide(self) -> bool:
        """True if cuTensorMapEncodeIm2colWide makes such a map."""
        return self.mode is not None

    @property
    def wide_mode(self) -> str:
        """ "W" or "W128". "" for maps of other calls."""
        return "" if self.mode is None else self.mode.name

    @property
    def pixel_box(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The lower and the upper corner of an im2col map, W first. A wide map has corners along W only. On Hopper its
        other corners are 0.
        """
        if self.mode is None:
            return self.pixel_box_lower_corner, self.pixel_box_upper_corner
        zeros = (0,) * max(len(self.global_dim) - 3, 0)
        return (self.pixel_box_lower_corner_width, *zeros), (self.pixel_box_upper_corner_width, *zeros)

    @functools.cached_property
    def type_row(self) -> DataType:
        """The row of the element type."""
        return DATA_TYPES[self.data_type]

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """The row of the swizzle mode."""
        return MODES[SWIZZLES[self.swizzle]]


def numbers(name: str, values: Any) -> tuple[int, ...]:
    """A list of whole numbers as a tuple.

    >>> numbers("box_dim", [64, 8])
    (64, 8)
    """
    # Plain integers of a sensible size are the usual case; everything else takes the long way.
    if (type(values) is tuple or type(values) is list) and len(values) <= LIMITS.max_rank:
        for value in values:
            if type(value) is not int or not _LEAST < value < _MOST:
                break
        else:
            return tuple(values)
    return wholes(name, values, wanted="one whole number a dimension, dimension 0 (contiguous) first")


_LEAST, _MOST = -(1 << 64), 1 << 64


def members(given: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Put the enum members that `values` mean into `given`; the sentences of those that mean none."""
    unknown: list[str] = []
    for name, value in values.items():
        found = _ACCEPTED[name].get(value) if type(value) is str or type(value) is int else None
        given[name] = member(name, value, unknown) if found is None else found
    return unknown


def member(name: str, value: Any, unknown: list[str]) -> Any:
    """The enum member of a name, a code or a foreign enum's member; None, and a sentence in `unknown`, when there is
    none.
    """
    kind = ENUMS[name]
    if type(value) is kind:
        return value
    number: str | int | None = None
    if isinstance(value, str):
        number = str(value)
    elif is_whole(value):
        number = whole(name, value)
    elif kind is TensorMapDataType and (getattr(value, "name", None) or getattr(value, "__name__", None)):
        number = element_format(value).name
    else:
        raise InputError(f"{name} = {shown(value)}: needs a name, a driver code or an enum member")
    if number in _ACCEPTED[name]:
        return _ACCEPTED[name][number]
    unknown.append(_no_such(name, value, number))
    return None


# What people write for the types that the driver and smemsim call otherwise.
_ALIASES = {
    "bfloat16": "bf16", "half": "f16", "fp16": "f16", "bfloat": "bf16", "nv_bfloat16": "bf16", "float": "f32", "fp32": "f32", "double": "f64", "fp64": "f64",
    "int": "s32", "i8": "s8", "int8": "s8", "i16": "s16", "int16": "s16", "i32": "s32", "i64": "s64", "fp8": "e4m3", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "fp4": "e2m1", "off": "none", "false": "none", "zero": "zeros",
}  # fmt: skip


def _no_such(name: str, value: Any, number: str | int) -> str:
    """Why a name or a code is not a member: the members, and the closest one.

    >>> _no_such("interleave", 16, 16)
    "interleave = 16: no such code (did you mean '16B'? known: none = INTERLEAVE_NONE = 0, 16B = INTERLEAVE_16B = 1, 32B = INTERLEAVE_32B = 2)"
    """
    kind = ENUMS[name]
    driver = [m for m in kind if m is not TensorMapSwizzle.SWIZZLE_96B]
    short = {int(m): "/".join(text for text, code in SHORT_NAMES[kind].items() if int(code) == int(m) and text != m.name) for m in driver}
    listed = ", ".join(" = ".join(filter(None, (short[int(m)], m.name, str(int(m))))) for m in driver)
    names = [*SHORT_NAMES[kind], *(m.name for m in kind), *(m.name.removeprefix(_PREFIXES[kind]) for m in kind)]
    forms = {form.lower(): form for form in reversed(names) if not form.endswith("96B")}
    written = str(number).lower()
    alias = None if isinstance(number, int) else _ALIASES.get(written.rpartition(".")[2])
    meant = alias or forms.get(written) or forms.get(written + "b") or _nearest(written, forms)
    guess = f"did you mean {meant!r}? " if meant else ""
    return f"{name} = {shown(value)}: no such code ({guess}known: {listed})"


def _nearest(written: str, forms: dict[str, str]) -> str | None:
    """
    >>> _nearest("swizle_64b", {"swizzle_64b": "SWIZZLE_64B"})
    'SWIZZLE_64B'
    """
    near = suggestion(written, forms)
    return next((form for low, form in forms.items() if near and repr(low) in near), None)
