"""`TensorMap`: the arguments of a cuTensorMapEncode call, or the 128 bytes it made, as a value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.finding import Finding, TensorMapError
from smemsim.core.spec.tensor_map import DATA_TYPES, TENSOR_MAP, WIDE_IS_IM2COL, TensorMapSwizzle
from smemsim.core.words.tensor_map.arguments import ENUMS, LISTS, SHORT_NAMES, Arguments, Call, members, numbers
from smemsim.core.words.tensor_map.bits import Encoded, decode_parts, raw_bytes
from smemsim.core.words.tensor_map.problems import problems
from smemsim.core.words.tensor_map.rules import target, violations

__all__ = ["TensorMap"]


_NUMBERS = ("global_address", "pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column")
_OF_CALL: dict[Call, tuple[str, ...]] = {  # the arguments that only one call has
    "tiled": ("box_dim",),
    "im2col": ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column"),
    "im2col_wide": ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column", "mode"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorMap(Encoded, metaclass=OwnMembers):
    """A tensor map. Dimension 0 is contiguous. Strides are bytes, from dimension 1 on. Arguments have the driver's
    names. Make one with `TensorMap.tiled`, `.im2col`, `.im2col_wide`, `.from_bytes` or `.parse`. The 128 bytes that the
    driver would have produced are `bytes(tm)` (measured on an H200 with driver 580: traces encode_tiled, encode_im2col,
    encode_im2col_wide). A tiled map has no corners, an im2col map no `box_dim`. Bits of a map from bytes that the
    driver would not have written are `unknown_bits`. A wide map that was encoded on Hopper has `on_hopper`.

    >>> import smemsim
    >>> tm = smemsim.TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8), swizzle="128B")
    >>> len(bytes(tm)), tm.box_dim, tm.swizzle.name
    (128, (64, 8), 'SWIZZLE_128B')
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "swizzle_mode", "as_im2col", "type_row",
    )  # fmt: skip

    def encode(self) -> bytes:
        """The 128 bytes of the map, as `bytes(tm)`."""
        return bytes(self)

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
        """The map that cuTensorMapEncodeTiled makes of these arguments. Raises TensorMapError if the driver refuses
        them.

        `arch` is the architecture that must accept the map; with None one of them must. Enums are names, the driver's
        codes, or members of cuda.bindings' enums.

        >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,),
        ...                      box_dim=(64, 8), swizzle="128B")
        >>> len(bytes(tm)), tm.swizzle.name
        (128, 'SWIZZLE_128B')
        """
        given = {"box_dim": numbers("box_dim", box_dim)}
        enums = {"data_type": data_type, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion, "oob_fill": oob_fill}
        return cls._judged("tiled", given, enums, arch, global_address, global_dim, global_strides, element_strides)

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
        """The map that cuTensorMapEncodeIm2col makes of these arguments. The dimensions are C, W[, H[, D]], N.
        Corners begin with W.
        """
        given: dict[str, Any] = {
            "pixel_box_lower_corner": numbers("pixel_box_lower_corner", pixel_box_lower_corner),
            "pixel_box_upper_corner": numbers("pixel_box_upper_corner", pixel_box_upper_corner),
            "channels_per_pixel": whole("channels_per_pixel", channels_per_pixel),
            "pixels_per_column": whole("pixels_per_column", pixels_per_column),
        }
        enums = {"data_type": data_type, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion, "oob_fill": oob_fill}
        return cls._judged("im2col", given, enums, arch, global_address, global_dim, global_strides, element_strides)

    @classmethod
    def im2col_wide(
        cls,
        *,
        data_type: Any,
        global_address: int,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        pixel_box_lower_corner_width: int,
        pixel_box_upper_corner_width: int,
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: Sequence[int] | None = None,
        interleave: Any = "none",
        mode: Any = "W",
        swizzle: Any = "128B",
        l2_promotion: Any = "none",
        oob_fill: Any = "zeros",
        arch: str | None = None,
    ) -> TensorMap:
        """The map that cuTensorMapEncodeIm2colWide makes of these arguments, for im2col::w and im2col::w::128 loads of
        sm_100 and later.

        `mode` is "W" or "W128" (always 128 pixels). On Blackwell the rules are documented, and `bytes` raises
        Unmodelled, because the 128 bytes are in no document. With arch="sm_90a" rules and bytes are measured: driver
        580 makes a plain im2col map with corners of 0 along H and D, and ignores the mode.
        """
        given: dict[str, Any] = {
            "pixel_box_lower_corner_width": whole("pixel_box_lower_corner_width", pixel_box_lower_corner_width),
            "pixel_box_upper_corner_width": whole("pixel_box_upper_corner_width", pixel_box_upper_corner_width),
            "channels_per_pixel": whole("channels_per_pixel", channels_per_pixel),
            "pixels_per_column": whole("pixels_per_column", pixels_per_column),
        }
        enums = {"data_type": data_type, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion, "oob_fill": oob_fill}
        return cls._judged("im2col_wide", given, enums | {"mode": mode}, arch, global_address, global_dim, global_strides, element_strides)

    @classmethod
    def _judged(
        cls,
        call: Call,
        given: dict[str, Any],
        enums: dict[str, Any],
        arch: str | None,
        global_address: Any,
        global_dim: Any,
        global_strides: Any,
        element_strides: Any,
    ) -> TensorMap:
        at = target(arch, encode=True)
        given["global_address"] = (
            global_address if type(global_address) is int and global_address >> 64 == 0 else whole("global_address", global_address)
        )
        given["global_dim"] = dims = numbers("global_dim", global_dim)
        given["global_strides"] = numbers("global_strides", global_strides)
        given["element_strides"] = (1,) * len(dims) if element_strides is None else numbers("element_strides", element_strides)
        if unknown := members(given, enums):
            given["unknown_codes"] = unknown
        given["unknown_bits"] = 0
        given["_legal_on"] = at.arch
        if given.get("mode") is not None and at.arch in WIDE_IS_IM2COL:
            given["on_hopper"] = True
        given["type_row"] = DATA_TYPES.get(given["data_type"])  # fills the cached property
        made = cls._of(given)
        if broken := violations(made, call, at):
            raise TensorMapError(broken)
        return made

    @classmethod
    def _of(cls, values: dict[str, Any]) -> TensorMap:
        """A map of values that need no checks; the frozen constructor would take as long as the whole verdict."""
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        return made

    @classmethod
    def from_bytes(cls, raw: Any) -> TensorMap:
        """The map of 128 bytes from a dump or a debugger, or of a `CUtensorMap` of cuda.bindings. `bytes` of the map
        gives the same bytes again.

        Bits that no known encoder writes are kept and named by `unknown_fields`. A wide map that was encoded on Hopper
        comes back as the plain im2col map that it is. TensorMapError where the bytes hold no map at all.
        """
        data = raw if type(raw) is bytes and len(raw) == TENSOR_MAP.parts.size else raw_bytes(raw)
        values = decode_parts(TENSOR_MAP.parts.unpack(data))
        values["_raw"] = data
        return cls._of(values)

    @classmethod
    def parse(cls, text: str, *, arch: str | None = None) -> TensorMap:
        """The map of a pasted text: an encode call in C, C++ or Python, or the 128 bytes as a debugger prints them."""
        from smemsim.core.words.tensor_map.dump import parse_bytes
        from smemsim.core.words.tensor_map.text import parse_call

        if not isinstance(text, str):
            raise InputError(f"text = {shown(text)}: needs the text of an encode call or of 128 bytes; TensorMap.from_bytes takes bytes")
        if called := parse_call(text):
            call, arguments = called
            made: TensorMap = getattr(cls, call)(**arguments | ({"arch": arch} if arch is not None else {}))
            return made
        raw = parse_bytes(text)
        if raw is None:
            raise InputError(
                "the text is neither a call of cuTensorMapEncodeTiled, …Im2col or …Im2colWide (outside comments) nor 128 bytes as a debugger or xxd prints them"
            )
        return cls.from_bytes(raw)

    @property
    def broken_rules(self) -> tuple[str, ...]:
        """The rules of the encode call that the map breaks. Only a map from `from_bytes` can break one."""
        return self.broken_on(None)

    def broken_on(self, arch: str | None) -> tuple[str, ...]:
        """The rules of the encode call that the map breaks on an architecture. With None: on any architecture.

        Maps changed by tensormap.replace may be legal where no encode call makes them: the 96B swizzle on sm_103a is.
        """
        return tuple(f.message for f in self.violations(arch))

    def violations(self, arch: str | None) -> tuple[Finding, ...]:
        """A finding for each rule of the encode call that the map breaks on an architecture (`broken_on`)."""
        # an encode call's verdict, which is stricter
        if "_legal_on" in self.__dict__ and arch in (None, self.__dict__["_legal_on"]):
            return ()
        known: dict[str | None, tuple[Finding, ...]] = self.__dict__.setdefault("_broken_on", {})
        if arch not in known:
            known[arch] = tuple(violations(self, self.call, target(arch, encode=False)))
        return known[arch]

    def problems(self, arch: str | None = None) -> list[Finding]:
        """The findings about a map that the driver accepts: arguments that the documents forbid, and transfers with
        an unexpected effect.

        >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(32, 8),
        ...                      swizzle="128B")
        >>> [str(finding)[:40] for finding in tm.problems()]
        ['T208  note: box_dim[0] = 32 x 16 bit = 6']
        """
        return problems(self, target(arch, encode=False))

    def __post_init__(self) -> None:
        how = "make a map with TensorMap.tiled, .im2col, .im2col_wide or .from_bytes"
        for name, kind in ENUMS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and not (name == "mode" and value is None):
                raise InputError(f"{name} = {shown(value)}: {how}")
        for name in LISTS:
            object.__setattr__(self, name, numbers(name, getattr(self, name)))
        for name in (*_NUMBERS, "unknown_bits"):
            object.__setattr__(self, name, whole(name, getattr(self, name), most_bits=TENSOR_MAP.bits))
        shape = [v for v in violations(self, self.call, target(None, encode=False)) if v.rule in ("rank", "im2col_rank", "corner_entries")]
        if shape:
            raise InputError(f"{'; '.join(f.message for f in shape)}; {how}")

    def __repr__(self) -> str:
        if self.unknown_bits or self.swizzle is TensorMapSwizzle.SWIZZLE_96B:
            return f"TensorMap.from_bytes(bytes.fromhex('{bytes(self).hex()}'))"
        texts = []
        for name, value in self.arguments.items():
            if name in ENUMS:
                names = {int(code): text for text, code in reversed(SHORT_NAMES[ENUMS[name]].items())}
                texts.append(f"{name}={names.get(int(value), value.name)!r}")
            else:
                texts.append(f"{name}={value:#x}" if name == "global_address" else f"{name}={value!r}")
        if self.on_hopper:
            texts.append(f"arch={WIDE_IS_IM2COL[0]!r}")
        return f"TensorMap.{self.call}({', '.join(texts)})"

    @functools.cached_property
    def as_im2col(self) -> TensorMap:
        """The plain im2col map that the driver makes of a wide one on Hopper (trace encode_im2col_wide); Unmodelled for
        others.
        """
        return TensorMap.from_bytes(bytes(self))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the encode call that makes the map, by name, in the driver's order."""
        others = {name for call, names in _OF_CALL.items() if call != self.call for name in names} - set(_OF_CALL[self.call])
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(Arguments) if f.name not in others}
