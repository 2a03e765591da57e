"""The values of raw element bits, and back: every element type of the tensor core to and from float64."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.core.arithmetic import loops
from smemsim.core.arithmetic.dot import IEEE, NO_SPECIALS, ONLY_NAN, decode
from smemsim.core.spec.formats import SCALE_BIAS, SCALE_MAGNITUDE, ElementFormat, element_format

__all__ = ["accumulator", "as_array", "columns", "decoded", "element_value", "from_float64", "numbers", "raw_bits", "to_float64"]


FLOAT32 = element_format("f32")
SPECIALS = {"": NO_SPECIALS, "nan": ONLY_NAN, "ieee": IEEE}


def as_array(name: str, values: Any) -> np.ndarray:
    """Anything that numpy makes an array of; InputError for rows of several lengths."""
    try:
        return np.asarray(values)
    except ValueError:  # rows of several lengths
        raise InputError(f"{name} = {shown(values)}: not an array, its rows differ in length") from None


def raw_bits(name: str, bits: Any, fmt: ElementFormat) -> np.ndarray:
    """`bits` as an array of unsigned integers; InputError for anything else, and for bits
    that the type does not have.
    """
    array = as_array(name, bits)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "i" and array.size and array.min() < 0):
        raise InputError(f"{name}: an array of {array.dtype}; needs raw element bits of {fmt.name} in unsigned integers")
    if array.size and array.itemsize * 8 > fmt.bits and array.max() >> fmt.bits:
        raise InputError(f"{name} has {int(array.max()):#x}: {fmt.name} has {fmt.bits} bits")
    if array.dtype.kind == "i" or array.itemsize == 8:
        array = array.astype(np.uint32 if fmt.bits <= 32 else np.uint64)
    return array


def decoded(bits: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    """Values of the raw bits of a float type, float64."""
    if (fmt.exponent_bits, fmt.bits) in ((8, 32), (8, 16)):  # f32, and its upper parts bf16 and tf32
        words = bits.astype(np.uint32, copy=False)
        if fmt.bits == 16:
            words = words << np.uint32(16)
        elif fmt.dropped_bits:
            words = words & np.uint32(0xFFFFFFFF << fmt.dropped_bits & 0xFFFFFFFF)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return np.asarray(words, order="C").view(np.float32).astype(np.float64)
    if fmt.bits <= 8:
        return _looked_up(_table(fmt)[0], bits).astype(np.float64)
    return _decoded(bits, fmt)


def _decoded(bits: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    values = np.empty(bits.shape)
    flat = np.ascontiguousarray(bits, np.int64).reshape(-1)
    unsigned = flat & SCALE_MAGNITUDE if fmt.name == "ue4m3" else flat
    loops.decode_all(unsigned, fmt.exponent_bits, fmt.fraction_bits, SPECIALS[fmt.specials], values.reshape(-1))
    return values


@functools.cache
def _table(fmt: ElementFormat) -> tuple[np.ndarray, np.ndarray]:
    """Values and exponents of all codes of a small type."""
    values = _decoded(np.arange(1 << fmt.bits), fmt)
    return values.astype(np.float32), _exponents(values, fmt)


def _looked_up(table: np.ndarray, bits: np.ndarray) -> np.ndarray:
    values = np.empty(bits.shape, table.dtype)
    loops.look_up(table, np.ascontiguousarray(bits, np.uint8).reshape(-1), values.reshape(-1))
    return values


def numbers(bits: np.ndarray, fmt: ElementFormat) -> tuple[np.ndarray, np.ndarray]:
    """Values (float32, which has those of every type of 32 bits and fewer) and exponents (int16, see `dot.exponent`) of
    the raw bits of a float type.
    """
    values, exponents = np.empty(bits.shape, np.float32), np.empty(bits.shape, np.int16)
    # f32, and its upper parts bf16 and tf32
    is_word = fmt.exponent_bits == FLOAT32.exponent_bits and fmt.fraction_bits > 0
    kind = bits.dtype if is_word else np.uint16 if fmt.bits == 16 else np.uint8
    flat, to = np.ascontiguousarray(bits, kind).reshape(-1), (values.reshape(-1), exponents.reshape(-1))
    if is_word:
        loops.numbers_of_words(flat, FLOAT32.bits - fmt.bits, (1 << FLOAT32.bits) - (1 << fmt.dropped_bits), fmt.smallest_exponent, *to)
    elif fmt.bits == 16:
        loops.numbers_of_halves(flat, fmt.smallest_exponent, *to)
    else:
        for table, out in zip(_table(fmt), to, strict=True):
            loops.look_up(table, flat, out)
    return values, exponents


def columns(rows: np.ndarray) -> np.ndarray:
    """Some matrices with rows and columns changed for each other."""
    found = np.empty((len(rows), rows.shape[2], rows.shape[1]), rows.dtype)
    words = f"u{rows.itemsize}"  # what they are worth does not matter
    loops.transposed(np.ascontiguousarray(rows).view(words), found.view(words))
    return found


def accumulator(bits: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    """Values of accumulators, f16 or f32, as float32; f32 without a copy."""
    if fmt.bits == 32:
        return np.ascontiguousarray(bits, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.ascontiguousarray(bits, np.uint16).view(np.float16).astype(np.float32)


def _exponents(values: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    exponents = np.empty(values.shape, np.int16)
    loops.exponent_all(values.reshape(-1), fmt.smallest_exponent, exponents.reshape(-1))
    return exponents


@in_default_state
def to_float64(bits: Any, dtype: Any) -> np.ndarray:
    """The values of raw element bits, as float64 of the same shape. They are exact for every type except s64 and u64.

    - `bits`: unsigned integers, one element an entry, also for 4- and 6-bit types. Arrays of the type itself (numpy,
      ml_dtypes) are accepted, too.
    - tf32 is the whole 32-bit word; its low 13 bits do not count. ue8m0 is 2^(bits - 127). Bit 7 of ue4m3 is ignored.
      Integers are two's complement.

    Raises InputError for other arrays, and for bits that the type does not have.

    >>> from smemsim import to_float64
    >>> import numpy as np
    >>> to_float64(np.array([0x3F80, 0xC0C0, 0x7F80], np.uint16), "bf16").tolist(), to_float64([0, 0x7F, 0xFF], "ue8m0").tolist()
    ([1.0, -6.0, inf], [5.877471754111438e-39, 1.0, nan])
    """
    fmt = element_format(dtype)
    given = as_array("bits", bits)
    if given.dtype.kind in "fiV" and given.dtype.name in fmt.numpy_names:
        return given.astype(np.float64)
    raw = raw_bits("bits", given, fmt)
    if fmt.name == "f64":
        return raw.astype(np.uint64).view(np.float64)
    if fmt.is_float:
        return decoded(raw, fmt)
    if fmt.signed:
        return raw.astype(f"u{max(fmt.bits // 8, 1)}").view(f"i{max(fmt.bits // 8, 1)}").astype(np.float64)
    return raw.astype(np.float64)


@in_default_state
def from_float64(values: Any, dtype: Any) -> np.ndarray:
    """Raw bits of the elements nearest to the values, ties to even: uint8, uint16, uint32 or uint64 of the same shape.

    Too large values become infinity, NaN (e4m3, ue4m3, ue8m0) or the largest number (e3m2, e2m3, e2m1). A tf32 is a
    word whose low 13 bits are 0. Integers are rounded and clamped to the range. A ue8m0 is the nearest power of two,
    the larger of two. It is NaN for 0 and negative numbers.

    The rounding is that of ml_dtypes. Raises InputError for a NaN of a type that has none, and for a negative value of
    ue4m3.

    >>> from smemsim import from_float64
    >>> [hex(x) for x in from_float64([1.0, -6.0, 1e9], "e4m3")], from_float64([1.0, -6.0, 1e9], "e2m1").tolist()
    (['0x38', '0xcc', '0x7f'], [2, 15, 7])
    """
    fmt, array = element_format(dtype), as_array("values", values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"values: an array of {array.dtype}; needs numbers")
    array = np.asarray(array, np.float64, order="C")
    odd = np.isnan(array) if not fmt.specials else np.zeros(array.shape, bool)
    if fmt.name == "ue4m3":
        odd |= np.signbit(array) & (array != 0)
    if odd.any():
        raise InputError(f"values has {array[odd].flat[0]}: {fmt.name} has no {'NaN' if not fmt.specials else 'negative numbers'}")
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[max(8, 1 << (fmt.bits - 1).bit_length())]
    if fmt.name == "f64":
        return array.view(np.uint64)
    if not fmt.is_float:
        low = -(1 << fmt.bits - 1) if fmt.signed else 0
        past = float(low + (1 << fmt.bits))
        clamped = np.clip(np.rint(array), float(low), np.nextafter(past, 0))
        codes = np.asarray(clamped, np.int64 if fmt.signed else np.uint64).astype(kind)
        codes[array >= past] = low + (1 << fmt.bits) - 1
        return codes
    codes = np.empty(array.shape, np.int64)
    if fmt.fraction_bits == 0:
        return _nearest_power(array)
    overflow = fmt.largest + 1 if fmt.specials else fmt.largest
    nan = fmt.magnitude if fmt.specials != "ieee" else fmt.largest + 1 | 1 << fmt.fraction_bits - 1
    loops.encode_all(array.reshape(-1), fmt.exponent_bits, fmt.fraction_bits, fmt.largest, overflow, nan, codes.reshape(-1))
    return (codes << fmt.dropped_bits).astype(kind)


def _nearest_power(values: np.ndarray) -> np.ndarray:
    """ue8m0 of the values."""
    fraction, exponent = np.frexp(np.where(values > 0, values, 1))  # fraction in [0.5, 1)
    code = np.maximum(exponent - 1 + (fraction >= 0.75) + SCALE_BIAS, 0)
    return np.where((values > 0) & np.isfinite(values) & (code < 0xFF), code, 0xFF).astype(np.uint8)


@in_default_state
def element_value(bits: Any, dtype: Any) -> Fraction | float:
    """The exact value of one element; a float for infinities and NaNs. As in `to_float64`.

    Raises InputError for bits that the type does not have.

    >>> from smemsim import element_value
    >>> element_value(0xC0C0, "bf16"), element_value(0x7F, "ue8m0"), element_value(0xF, "e2m1"), element_value(0x7F, "e4m3")
    (Fraction(-6, 1), Fraction(1, 1), Fraction(-6, 1), nan)
    """
    fmt, word = element_format(dtype), whole("bits", bits)
    if not 0 <= word < 1 << fmt.bits:
        raise InputError(f"bits = {word:#x}: {fmt.name} has {fmt.bits} bits")
    if not fmt.is_float:
        return Fraction(word - (1 << fmt.bits) if fmt.signed and word >> (fmt.bits - 1) else word)
    code = (word & SCALE_MAGNITUDE if fmt.name == "ue4m3" else word) >> fmt.dropped_bits
    if fmt.name == "f64":
        value = float(np.uint64(code).view(np.float64))
    else:
        value = float(decode(code, fmt.exponent_bits, fmt.fraction_bits, SPECIALS[fmt.specials]))
    return Fraction(value) if math.isfinite(value) else value
