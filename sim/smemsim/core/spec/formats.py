"""Element formats by name. Widths are in bits and never taken from a numpy dtype:
`float4_e2m1fn` claims a whole byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError

__all__ = ["FORMATS", "SCALE_BIAS", "SCALE_MAGNITUDE", "ElementFormat", "element_format"]


class ElementFormat(NamedTuple):
    """One element type: its name in the PTX ISA, its bits, its names in numpy and ml_dtypes, and the meaning of its
    bits.

    Floats have `exponent_bits` and `fraction_bits`. Their bias is 2^(exponent_bits - 1) - 1. A tf32 is the upper 19
    bits of its word. Their `specials` are "ieee" (infinities and NaNs), "nan" (only a NaN, with all bits of the
    magnitude set) or "". Integers have `signed`.
    """

    name: str
    bits: int
    numpy_names: tuple[str, ...] = ()
    exponent_bits: int = 0
    fraction_bits: int = 0
    specials: str = ""
    signed: bool = True

    @property
    def is_float(self) -> bool:
        """Does it have an exponent?"""
        return self.exponent_bits > 0

    @property
    def dropped_bits(self) -> int:
        """Low bits of the word that are no part of the number: 13 of tf32."""
        return self.bits - int(self.signed) - self.exponent_bits - self.fraction_bits if self.is_float else 0

    @property
    def magnitude(self) -> int:
        """Exponent and fraction, all ones, without the sign and without dropped bits."""
        return (1 << self.exponent_bits + self.fraction_bits) - 1

    @property
    def has_numbers_alone(self) -> bool:
        """Is each of its words a number, neither infinite nor a NaN? Times zero it is zero then."""
        return not self.specials

    @property
    def largest(self) -> int:
        """The largest finite number, without dropped bits."""
        below = {"ieee": 1 << self.fraction_bits, "nan": 1}.get(self.specials, 0)
        return self.magnitude - below

    @property
    def smallest_exponent(self) -> int:
        """Exponent of the smallest normal number, which subnormals have too."""
        return 1 + int(self.fraction_bits > 0) - (1 << self.exponent_bits - 1)

    def elements_per_chunk(self, packing: str = "packed") -> int:
        """Elements of one 16-byte chunk of shared memory: 128 / bits, or 16 for the padded sub-byte containers.

        6-bit types are always padded (PTX ISA 9.1 §9.7.16.10.4): 12 bytes of data, then 4 of padding.

        >>> FORMATS["e2m1"].elements_per_chunk(), FORMATS["e2m1"].elements_per_chunk("padded"), FORMATS["e3m2"].elements_per_chunk()
        (32, 16, 16)
        """
        if self.bits == 6 or (self.bits == 4 and packing == "padded"):
            return 16
        return 128 // self.bits


# fmt: off
FORMATS: dict[str, ElementFormat] = {f.name: f for f in (
    ElementFormat("f64",   64, ("float64",), 11, 52, "ieee"),
    ElementFormat("f32",   32, ("float32",), 8, 23, "ieee"),
    ElementFormat("tf32",  32, (), 8, 10, "ieee"),
    ElementFormat("f16",   16, ("float16",), 5, 10, "ieee"),
    ElementFormat("bf16",  16, ("bfloat16",), 8, 7, "ieee"),
    ElementFormat("e4m3",   8, ("float8_e4m3fn",), 4, 3, "nan"),
    ElementFormat("e5m2",   8, ("float8_e5m2",), 5, 2, "ieee"),
    ElementFormat("ue8m0",  8, ("float8_e8m0fnu",), 8, 0, "nan", signed=False),  # 2^(bits - 127): 0 is 2^-127
    ElementFormat("ue4m3",  8, (), 4, 3, "nan"),  # bit 7 is ignored
    ElementFormat("e3m2",   6, ("float6_e3m2fn",), 3, 2),
    ElementFormat("e2m3",   6, ("float6_e2m3fn",), 2, 3),
    ElementFormat("e2m1",   4, ("float4_e2m1fn",), 2, 1),
    ElementFormat("s8",     8, ("int8",)),
    ElementFormat("u8",     8, ("uint8",), signed=False),
    ElementFormat("s16",   16, ("int16",)),
    ElementFormat("u16",   16, ("uint16",), signed=False),
    ElementFormat("s32",   32, ("int32",)),
    ElementFormat("u32",   32, ("uint32",), signed=False),
    ElementFormat("s64",   64, ("int64",)),
    ElementFormat("u64",   64, ("uint64",), signed=False),
    ElementFormat("b1",     1, (), signed=False),
)}
# fmt: on

SCALE_BIAS = 127  # ue8m0 is 2^(bits - 127), 0 included; OCP MX specification
SCALE_MAGNITUDE = 0x7F  # ue4m3 has no sign: bit 7 is ignored; PTX ISA 9.1 §9.7.16.10.7

_ALIASES = {alias: f for f in FORMATS.values() for alias in (f.name, *f.numpy_names)}


def element_format(dtype: Any) -> ElementFormat:
    """The format of a name, or of a dtype of numpy or ml_dtypes. Raises InputError for unknown ones.

    >>> element_format("bf16").bits
    16
    >>> element_format("bf17")
    Traceback (most recent call last):
    smemsim.base.errors.InputError: dtype = 'bf17': not an element type; known are f64 f32 tf32 f16 bf16 e4m3 e5m2 ue8m0 ue4m3 e3m2 e2m3 \
e2m1 s8 u8 s16 u16 s32 u32 s64 u64 b1; did you mean 'bf16'?
    """
    if isinstance(dtype, ElementFormat):
        return dtype
    if type(dtype) is str and (known := _ALIASES.get(dtype)) is not None:
        return known
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if isinstance(name, str) and name.lower() in _ALIASES:
        return _ALIASES[name.lower()]
    raise InputError(f"dtype = {shown(dtype)}: not an element type; known are {' '.join(FORMATS)}{suggestion(name, _ALIASES)}")
