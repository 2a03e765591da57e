"""`TensorMap`: the arguments of a cuTensorMapEncode call, or the 128 bytes it made, as a value."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any, TypeVar

from smemsim.descriptors.tensor_map_rules import Arguments, tiled_violations
from smemsim.errors import InputError, TensorMapError, Unmodelled
from smemsim.spec.architectures import architecture
from smemsim.spec.swizzles import MODES, SwizzleMode
from smemsim.spec.tensor_map import (
    DATA_TYPES,
    SWIZZLES,
    TENSOR_MAP,
    DataType,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
)

__all__ = ["TensorMap"]

E = TypeVar("E", bound=enum.IntEnum)
_PREFIXES = ("CU_TENSOR_MAP_DATA_TYPE_", "CU_TENSOR_MAP_INTERLEAVE_", "CU_TENSOR_MAP_SWIZZLE_", "CU_TENSOR_MAP_L2_PROMOTION_")
_SHORT: dict[type[enum.IntEnum], dict[str, int]] = {
    TensorMapDataType: {name: row.code for row in DATA_TYPES.values() for name in row.names},
    TensorMapSwizzle: {str(name): code for code, name in SWIZZLES.items()} | {"NONE": 0},
    Interleave: {"none": 0, "16B": 1, "32B": 2, "INTERLEAVE_NONE": 0, "INTERLEAVE_16B": 1, "INTERLEAVE_32B": 2},
    L2Promotion: {"none": 0, "64B": 1, "128B": 2, "256B": 3, "L2_PROMOTION_NONE": 0},
    OobFill: {"zeros": 0, "nan": 1, "none": 0},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorMap:
    """A tensor map. Dimension 0 is the contiguous one; strides are bytes, of dimensions 1 …; every argument has the driver's name.

    Make one with `TensorMap.tiled` or `TensorMap.from_bytes`. `bytes(tm)` are the 128 bytes the driver would have produced (measured
    on an H200 with driver 580: every map of the traces tma_loads and tma_stores).
    """

    data_type: TensorMapDataType
    global_address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: Interleave
    swizzle: TensorMapSwizzle
    l2_promotion: L2Promotion
    oob_fill: OobFill
    unknown_bits: int = dataclasses.field(default=0, repr=False)  # of 1024: where `from_bytes` found something else

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
        if arch is not None:
            architecture(arch)
        dims = _integers("global_dim", global_dim)
        given: dict[str, Any] = {
            "global_address": _integer("global_address", global_address),
            "global_dim": dims,
            "global_strides": _integers("global_strides", global_strides),
            "box_dim": _integers("box_dim", box_dim),
            "element_strides": (1,) * len(dims) if element_strides is None else _integers("element_strides", element_strides),
        }
        unknown: list[str] = []
        for name, kind, value in (
            ("data_type", TensorMapDataType, data_type),
            ("interleave", Interleave, interleave),
            ("swizzle", TensorMapSwizzle, swizzle),
            ("l2_promotion", L2Promotion, l2_promotion),
            ("oob_fill", OobFill, oob_fill),
        ):
            given[name] = _member(name, kind, value, unknown)
        violations = unknown + tiled_violations(Arguments(arch=arch, **given))
        if violations:
            raise TensorMapError(violations)
        return cls(**given)

    @classmethod
    def from_bytes(cls, raw: Any) -> TensorMap:
        """The map of 128 bytes from a dump or a debugger, or of a `CUtensorMap` of cuda.bindings. `bytes` of it are the same again."""
        word = int.from_bytes(_raw_bytes(raw), "little")
        value = TENSOR_MAP.decode(word)
        if value["im2col"]:
            raise Unmodelled("the 128 bytes hold an im2col map, which this version does not read yet")
        rank = value["rank"]
        types = [d for d in DATA_TYPES.values() if (d.format_code, int(d.to_tf32)) == (value["format"], value["to_tf32"])]
        if not 1 <= rank <= 5 or not types or value["interleave"] > 2:
            raise TensorMapError(
                [f"the 128 bytes hold no tensor map: rank {rank}, format code {value['format']}, interleave {value['interleave']}"]
            )
        made = cls(
            data_type=types[0].code,
            global_address=value["global_address"],
            global_dim=tuple(value[f"dim{i}"] for i in range(rank)),
            global_strides=tuple(value[f"stride{i}_low"] << 4 | value[f"stride{i}_high"] << 36 for i in range(rank - 1)),
            box_dim=tuple(value[f"box{i}"] for i in range(rank)),
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
    def type_row(self) -> DataType:
        """The row of the element type."""
        return DATA_TYPES[self.data_type]

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """The row of the swizzle mode."""
        return MODES[SWIZZLES[self.swizzle]]

    def __bytes__(self) -> bytes:
        return (self._word() ^ self.unknown_bits).to_bytes(128, "little")

    def _word(self) -> int:
        row = self.type_row
        itemsize_bits = row.bits
        for box, step in zip(self.box_dim, self.element_strides, strict=True):
            itemsize_bits *= box // step
        atom_shift = self.swizzle_mode.shift
        values = {
            "global_address": self.global_address,
            "rank": self.rank,
            "format": row.format_code,
            "interleave": self.interleave,
            "swizzle_low": min(self.swizzle, 3),
            "nan_fill": self.oob_fill,
            "to_tf32": int(row.to_tf32),
            "l2_promotion": self.l2_promotion,
            "atomicity": {4: 0, 5: 1, 6: 3}[atom_shift] + (self.swizzle is TensorMapSwizzle.SWIZZLE_128B_ATOM_32B_FLIP_8B),
            "box_bytes": itemsize_bits // 8,
            "swizzle_period": 1024 if self.swizzle > 3 else self.swizzle_mode.period,
        }
        # Fields of dimensions past the rank hold 0 bits, which is the value 1 where n - 1 is stored.
        for i in range(self.rank):
            values |= {f"dim{i}": self.global_dim[i], f"box{i}": self.box_dim[i], f"element_stride{i}": self.element_strides[i]}
        for i, stride in enumerate(self.global_strides):
            values |= {f"stride{i}_low": stride >> 4 & 0xFFFFFFFF, f"stride{i}_high": stride >> 36}
        return TENSOR_MAP.encode(**values)


def _swizzle_of(low: int, atomicity: int) -> TensorMapSwizzle:
    return TensorMapSwizzle({1: 4, 2: 5, 3: 6}.get(atomicity, 3) if low == 3 else low)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not (hasattr(value, "__index__") or hasattr(value, "__int__")) or isinstance(value, (str, float)):
        raise InputError(f"{name} = {value!r}: needs a whole number")
    return int(value)


def _integers(name: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InputError(f"{name} = {values!r}: needs one whole number a dimension, dimension 0 (contiguous) first")
    return tuple(_integer(f"{name}[{i}]", v) for i, v in zip(range(7), values, strict=False))  # a rank above 5 is refused anyway


def _member(name: str, kind: type[E], value: Any, unknown: list[str]) -> E | None:
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
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        number = value.__index__()
    elif kind is TensorMapDataType and (getattr(value, "name", None) or getattr(value, "__name__", None)):
        from smemsim.spec.formats import element_format

        number = _SHORT[kind].get(element_format(value).name)
    else:
        raise InputError(f"{name} = {value!r}: needs a name, a driver code or an enum member")
    if number is not None and number in set(kind):
        return kind(number)
    listed = ", ".join(f"{member.name} = {int(member)}" for member in kind)
    unknown.append(f"{name} = {value!r}: no such code (known: {listed})")
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
