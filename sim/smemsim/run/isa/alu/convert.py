"""cvt: conversions of single and of packed values.

The first of two operands becomes the upper half. Floats of 6 bits use a byte each, those of 4 bits share a byte in
pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.compiling.loop import elementwise as ufunc
from smemsim.base.errors import InputError
from smemsim.core.arithmetic import results, rounding
from smemsim.core.arithmetic.values import decoded
from smemsim.core.ptx.module import Instruction, Vector
from smemsim.core.spec.float_types import FLOAT_TYPES, FloatType
from smemsim.core.spec.formats import element_format
from smemsim.run.isa.alu.floats import finish, numbers, signature
from smemsim.run.isa.alu.forms import Elementwise, elementwise, step
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registers import dtype_of
from smemsim.run.isa.registry import Step, implements, limit, unmodelled

if TYPE_CHECKING:
    from smemsim.run.lower.program import Linker

__all__ = ["codes_of", "convert", "knows"]


# ---- `cvt` to and from packed types: two 16-bit floats, and floats of 8, 6 and 4 bits in pairs (PTX ISA 9.1 §9.7.9.21)


_HALVES = ("f16x2", "bf16x2")
_SMALL = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
_FOURS = ("e4m3x4", "e5m2x4", "e2m1x4")
_SCALES, _FIXED, _SCALED = "ue8m0x2", "s2f6x2", "scaled::n2::ue8m0"
_MODES = {"rn": rounding.NEAREST, "rz": rounding.TO_ZERO, "rp": rounding.TO_PLUS_INFINITY}
# What a NaN becomes: the format's only one, of types without NaN the largest number.
_NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x3FFFF, "e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}


def knows(to: str, source: str) -> bool:
    """Is this conversion one of packed types?"""
    return any(kind in (*_HALVES, *_SMALL, _SCALES, _FIXED) or kind.endswith("x4") for kind in (to, source))


def codes_of(name: str, mode: int, *, finite: bool) -> Elementwise:
    """Codes of float64 numbers in a format, without its dropped bits; with `finite` nothing becomes infinite."""
    own = element_format(name)
    f = ufunc(rounding.converted, signature("int64", ("float64", 1), ("int64", 7)))
    beyond = own.largest if finite else own.largest + 1
    limits = (own.exponent_bits, own.fraction_bits, own.largest, beyond, beyond, _NANS[name], mode)
    return lambda a: f(a, *limits)


def convert(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """Build a `cvt` between packed types. Which target has which conversion is in `spec.targets`."""
    if to.endswith("x4") or source.endswith("x4") or "rs" in form.left:
        return _stochastic(i, c, form, to, source)
    if to == _FIXED:
        raise limit(i, "what becomes of NaN in a fixed-point number is not known")
    if to == _SCALES:
        return _to_scales(i, c, form, source)
    if to in _HALVES and source != "f32":
        return _widened(i, c, form, to, source)
    mode, finite, relu = form.one_of(("rn", "rz")), form.has("satfinite"), form.has("relu")
    form.end(operands=(3,) if source == "f32" else (2,))
    if not mode or (mode == "rz" and (to not in _HALVES or source != "f32")):
        raise unmodelled(i, "its rounding does not go with the types")
    if to in _SMALL and not finite:
        raise unmodelled(i, "it needs .satfinite")
    if source not in (*_HALVES, "f32"):
        raise unmodelled(i)
    if source == "f32" and mode == "rn" and not (finite or relu) and to in _HALVES:
        return _halves_of_f32(i, c, to)
    name = to.removesuffix("x2")
    code = codes_of(name, _MODES[mode], finite=finite)
    bits = element_format(name).bits if name == "e2m1" else 16 if to in _HALVES else 8

    kept = (1 << element_format(name).bits) - 1

    def narrow(x: Any) -> Any:
        return code(np.where(x <= 0, 0, x) if relu else x) & kept

    raw = np.dtype(f"u{bits // 4}") if bits > 4 else np.dtype(np.uint8)
    if source == "f32":
        reads = [c.read(operand, source) for operand in i.operands[1:]]
        return step(c.write(i.operands[0], to), reads, lambda a, b: (narrow(a) << bits | narrow(b)).astype(raw))
    as_numbers, part = numbers(source.removesuffix("x2")), np.dtype(np.uint16)

    def halves(a: Any) -> Any:
        codes = narrow(as_numbers(np.ascontiguousarray(a)[..., None].view(part)))
        return (codes[..., 1] << bits | codes[..., 0]).astype(raw)

    return step(c.write(i.operands[0], to), [c.read(i.operands[1], source)], halves)


def _stochastic(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """`cvt.rs{.relu}.satfinite` of four f32: 16 random bits are added to the highest of those that are dropped, and
    the sum is cut.

    Compiled: TIRx-harness 0.1.2.post2, microtests/test_ptx_cvt_narrow.py, compares it with a B200, and has what that
    gave.
    """
    if to not in _FOURS or source != "f32" or not form.has("rs"):
        raise (limit if "rs" in i.modifiers else unmodelled)(i, "where stochastic rounding takes its bits from is not known")
    finite, relu = form.has("satfinite"), form.has("relu")
    form.end(operands=(3,))
    if not finite:
        raise unmodelled(i, "it needs .satfinite")
    name = to.removesuffix("x4")
    width, write = element_format(name).bits, c.write(i.operands[0], "b16" if name == "e2m1" else "b32")
    vector = i.operands[1]
    if not isinstance(vector, Vector) or len(vector.items) != 4:
        raise InputError("the second operand: needs a vector of four registers")
    reads = [c.read(item, "b32") for item in (*vector.items, i.operands[2])]
    raw = np.dtype(f"u{width // 2}")

    def narrow(*words: Any) -> Any:
        out: Any = 0
        for word, random in zip(words[:4], random_bits(words[4], width), strict=True):
            out = out << width | stochastic_code(word, random, name, relu=relu)
        return np.asarray(out).astype(raw)

    return step(write, reads, narrow)


def random_bits(word: Any, width: int) -> tuple[Any, Any, Any, Any]:
    """The 16 random bits of each of the four elements, of `width` bits. Two elements share a half of the word, or, of 4
    bits, every second byte, the first in reverse.

    >>> [hex(bits) for bits in random_bits(0x12348001, 8)], [hex(bits) for bits in random_bits(0x12348001, 4)]
    (['0x2c48', '0x1234', '0x8001', '0x8001'], ['0x148', '0x1280', '0x802c', '0x3401'])
    """
    word = np.asarray(word).astype(np.int64)
    byte = [word >> 8 * n & 0xFF for n in range(4)]
    high, low = (byte[3] << 8 | byte[2], byte[1] << 8 | byte[0]) if width == 8 else (byte[3] << 8 | byte[1], byte[2] << 8 | byte[0])
    return _backwards(high), high, _backwards(low), low


def _backwards(bits: Any) -> Any:
    return sum((bits >> n & 1) << 15 - n for n in range(16))


def stochastic_code(word: Any, random: Any, name: str, *, relu: bool = False) -> Any:
    """The code of an f32's bits in a small format, with 16 random bits; what is too large is the largest, and keeps
    its sign.

    >>> [int(stochastic_code(0x3F900000, random, "e4m3")) for random in (0, 0x7FFF, 0x8000)], int(stochastic_code(0x3F880000, 0x8000, "e4m3"))
    ([57, 57, 57], 57)
    """
    f, word = element_format(name), np.asarray(word).astype(np.int64)
    exponent, fraction = word >> 23 & 0xFF, word & 0x7FFFFF
    of_f = exponent - 127 + (1 << f.exponent_bits - 1) - 1  # its exponent field in the format
    shift = 23 - f.fraction_bits + np.clip(1 - of_f, 0, 40)
    kept = fraction | np.where(of_f > 0, 0, 1 << 23)
    code = (np.maximum(of_f, 0) << f.fraction_bits) + (kept + (random << shift - 16) >> shift)
    code = np.where(exponent == 0, 0, np.minimum(code, f.largest))
    signed = code | (word >> 31 & 1) << f.bits - 1
    signed = np.where((word >> 31 & 1 != 0) & relu, 0, signed)
    return np.where((exponent == 0xFF) & (fraction != 0), _NANS[name], signed)


def _widened(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """Pairs of small floats, of scales or of fixed-point numbers as halves; with `.scaled::n2::ue8m0` each times a
    scale of its own.

    To f16x2 as an H200 computes it; to bf16x2 from PTX ISA 9.2 on (ptxas 13.4.59 assembles them), in the same way:
    inferred. That a scale multiplies is what CuTe DSL relies on, which makes integers of s2f6 with the scale 2^6
    (`cvt_i8x2_to_bf16x2`).
    """
    mode, finite, relu, scaled = form.one_of(("rn",)), form.has("satfinite"), form.has("relu"), form.has(_SCALED)
    form.end(operands=(3,) if scaled else (2,))
    if not mode:
        raise unmodelled(i, "its rounding does not go with the types")
    if source not in (_SMALL if to == "f16x2" else (*_SMALL, _SCALES, _FIXED)):
        raise unmodelled(i)
    if (finite or scaled) and to == "f16x2":
        raise unmodelled(i, ".satfinite and .scaled are for .bf16x2")
    if (finite or relu or scaled) and source == _SCALES:
        raise unmodelled(i, ".satfinite, .relu and .scaled are not for .ue8m0x2")
    code, wide = codes_of(to.removesuffix("x2"), rounding.NEAREST, finite=finite), 4 if source == "e2m1x2" else 8

    def widen(a: Any, *scales: Any) -> Any:
        halves = []
        for n in range(2):
            numbers = _numbers(np.asarray(a).astype(np.uint32) >> np.uint32(n * wide), source)
            for scale in scales:
                numbers = numbers * _numbers(np.asarray(scale).astype(np.uint32) >> np.uint32(8 * n), _SCALES)
            halves.append(code(np.where(numbers <= 0, 0, numbers) if relu else numbers) & 0xFFFF)
        return (halves[1] << 16 | halves[0]).astype(np.uint32)

    reads = [c.read(i.operands[1], "b16" if source == _FIXED else source), *(c.read(operand, _SCALES) for operand in i.operands[2:])]
    return step(c.write(i.operands[0], to), reads, widen)


def _numbers(words: Any, kind: str) -> Any:
    """float64 numbers of the low bits of words, elements of a packed type; s2f6 has a sign, an integer bit and six of
    the fraction, in two's complement.
    """
    low = np.atleast_1d(words)
    if kind == _FIXED:
        return low.astype(np.uint8).view(np.int8) / 64.0
    fmt = element_format(kind.removesuffix("x2"))
    return decoded(low & np.uint32((1 << fmt.bits) - 1), fmt)


def _halves_of_f32(i: Instruction, c: Linker, to: str) -> Step:
    """Fast paths from f32 to f16x2 and bf16x2, which most epilogues use; the results are those of
    `rounding.converted`.
    """
    write = c.write(i.operands[0], "b32")
    if to == "bf16x2":
        reads = [c.read(operand, "b32") for operand in i.operands[1:]]
        return step(write, reads, ufunc(results.bf16_pair, "uint32(int64,int64)"))
    nan, shift = np.uint16(_NANS["f16"]), np.uint32(16)

    def half(a: Any) -> Any:
        codes = np.asarray(a).astype(np.float16).view(np.uint16)
        unordered = np.isnan(a)
        return np.where(unordered, nan, codes) if unordered.any() else codes

    reads = [c.read(operand, "f32") for operand in i.operands[1:]]
    return step(write, reads, lambda a, b: half(a).astype(np.uint32) << shift | half(b))


def _to_scales(i: Instruction, c: Linker, form: Modifiers, source: str) -> Step:
    """`ue8m0`: the exponent of the magnitude, the next one with .rp; NaN, and without .satfinite what is too large,
    is 0xFF.
    """
    mode, finite = form.one_of(("rz", "rp")), form.has("satfinite")
    form.end(operands=(3,) if source == "f32" else (2,))
    if not mode or source not in ("f32", "bf16x2"):
        raise unmodelled(i)
    up = mode == "rp"

    def scale(word: Any) -> Any:
        magnitude = np.asarray(word).astype(np.int64) & 0x7FFFFFFF
        exponent = magnitude >> 23
        if up:  # 2^-127, which is subnormal, is a scale of its own
            exponent = exponent + ((magnitude & 0x7FFFFF != 0) & (magnitude > 0x400000) & (magnitude < 0x7F800000))
        return np.where((exponent == 0xFF) & (magnitude <= 0x7F800000), 0xFE, exponent) if finite else exponent

    write = c.write(i.operands[0], _SCALES)
    if source == "f32":
        reads = [c.read(operand, "b32") for operand in i.operands[1:]]
        return step(write, reads, lambda a, b: (scale(a) << 8 | scale(b)).astype(np.uint16))
    low, high = np.uint32(16), np.uint32(0xFFFF0000)
    return step(
        write, [c.read(i.operands[1], "b32")], lambda a: (scale(a & high) << 8 | scale(np.asarray(a) << low)).astype(np.uint16)
    )  # fmt: skip


# ---- `cvt` of single values: integers and floats of every width to one another (PTX ISA 9.1 §9.7.9.21)


_TO_INTEGER = {"rni": rounding.NEAREST, "rzi": rounding.TO_ZERO, "rmi": rounding.TO_MINUS_INFINITY, "rpi": rounding.TO_PLUS_INFINITY}
_TO_FLOAT = {
    "rn": rounding.NEAREST, "rz": rounding.TO_ZERO, "rm": rounding.TO_MINUS_INFINITY, "rp": rounding.TO_PLUS_INFINITY,
    "rna": rounding.NEAREST_AWAY,
}  # fmt: skip
_INTEGRAL: dict[str, Callable[[Any], Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_PACK = {f"{sign}{bits}": (sign == "s", bits) for sign in "us" for bits in (2, 4, 8, 16)}


@implements("cvt")
def build_cvt(i: Instruction, c: Linker) -> Step:
    """`cvt`."""
    form = Modifiers(i)
    if form.has("pack"):
        return _pack(i, c, form)
    to, source = form.kinds(2)
    if knows(to, source):
        return convert(i, c, form, to, source)
    if to == "tf32":
        return _to_tf32(i, c, form, source)
    if to in FLOAT_TYPES and source in FLOAT_TYPES:
        return _float_to_float(i, c, form, to, source)
    if source in FLOAT_TYPES and to[0] in "us":
        return _float_to_integer(i, c, form, to, source)
    if to in FLOAT_TYPES and source[0] in "us":
        return _integer_to_float(i, c, form, to, source)
    if to[0] in "us" and source[0] in "us":
        return _integer_to_integer(i, c, form, to, source)
    raise unmodelled(i)


def _range(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _integer_to_integer(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """The low bits, or the nearest number with `.sat`; a wider register is filled by the sign of the result's type."""
    saturate = form.has("sat")
    form.end(operands=(2,))
    target, own = dtype_of(to), dtype_of(source)
    if not saturate:
        return elementwise(c, i.operands[0], to, [(i.operands[1], source)], lambda a: np.asarray(a).astype(target))
    low, high = (min(max(x, _range(source)[0]), _range(source)[1]) for x in _range(to))
    if (low, high) == _range(source):
        raise unmodelled(i, f".sat: every .{source} is one of .{to}")
    least, most = own.type(low), own.type(high)
    return elementwise(c, i.operands[0], to, [(i.operands[1], source)], lambda a: np.clip(a, least, most).astype(target))


def _flushing(own: FloatType, flush: bool) -> Callable[[Any], Any]:
    """Operands as numbers that numpy knows, subnormal f32 as zeros with `.ftz`."""
    as_numbers = numbers(own.name)
    if not flush or own.name != "f32":
        return as_numbers
    to_zero, least = ufunc(results.flushed, "float32(float32,float32)", "float64(float64,float64)"), np.float32(own.smallest_normal)
    return lambda a: to_zero(a, least)


def _check_bf16(i: Instruction, to: str, source: str, saturate: bool) -> None:
    if saturate and "bf16" in (to, source):
        raise unmodelled(i, ".sat of .bf16")


def _float_to_integer(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """Rounded, clamped to the range. Of NaN it makes 0; with f64 or a 64-bit integer only the highest bit is set (PTX
    ISA 9.1 §9.7.9.21).
    """
    mode, flush = form.one_of(_TO_INTEGER), form.has("ftz")
    saturate = form.has("sat")  # integers are always clamped
    form.end(operands=(2,))
    if not mode:
        raise unmodelled(i, "it needs .rni, .rzi, .rmi or .rpi")
    _check_bf16(i, to, source, saturate)
    if flush and source != "f32":
        raise unmodelled(i, ".ftz is for .f32")
    bits, signed = int(to[1:]), int(to[0] == "s")
    nan = -1 << (bits - 1) if source == "f64" or bits == 64 else 0
    f = ufunc(results.to_integer, signature("int64", ("float64", 1), ("int64", 4)))
    as_numbers, code, target = _flushing(FLOAT_TYPES[source], flush), _TO_INTEGER[mode], dtype_of(to)
    return elementwise(
        c, i.operands[0], to, [(i.operands[1], source)], lambda a: f(as_numbers(a), code, bits, signed, nan).astype(target)
    )  # fmt: skip


def _integer_to_float(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """Rounded once."""
    mode, saturate = form.one_of(_TO_FLOAT), form.has("sat")
    if to == "f32":
        form.has("ftz")  # no integer is subnormal
    form.end(operands=(2,))
    if mode in ("", "rna"):
        raise unmodelled(i, "it needs .rn, .rz, .rm or .rp")
    _check_bf16(i, to, source, saturate)
    own, code = FLOAT_TYPES[to], _TO_FLOAT[mode]
    dtype = {"f32": np.float32, "f64": np.float64}.get(to)
    if code == rounding.NEAREST and dtype is not None and not saturate:
        return elementwise(c, i.operands[0], to, [(i.operands[1], source)], lambda a: np.asarray(a).astype(dtype))
    f = ufunc(rounding.from_integer, signature("int64", ("int64", 7)))
    limits = (own.exponent_bits, own.fraction_bits, own.largest, own.infinity, code)

    def convert(a: Any) -> Any:
        whole = np.asarray(a)
        negative = (whole < 0).astype(np.int64)
        magnitude = whole.astype(np.int64) if whole.dtype.itemsize < 8 else whole.view(np.int64)
        return f(np.where(negative, -magnitude, magnitude), negative, *limits)

    g = finish(own, convert, flush=False, saturate=saturate, relu=False)
    return elementwise(c, i.operands[0], f"b{own.bits}", [(i.operands[1], source)], g)


def to_format(own: FloatType, mode: int, *, finite: bool = False, hands_on_nan: bool = False) -> Elementwise:
    """Codes of float64 numbers; with `finite` (`.satfinite`) what is too large, infinities included, is the largest
    number.
    """
    f = ufunc(rounding.converted, signature("int64", ("float64", 1), ("int64", 7)))
    beyond = own.largest if finite else own.infinity
    limits = (own.exponent_bits, own.fraction_bits, own.largest, beyond, beyond, 0 if hands_on_nan else own.nan, mode)
    return lambda a: f(a, *limits)


def _float_to_float(i: Instruction, c: Linker, form: Modifiers, to: str, source: str) -> Step:
    """Widened exactly, narrowed with one rounding, or rounded to an integer of the same type."""
    integral, mode = form.one_of(_INTEGRAL), form.one_of(("rn", "rz", "rm", "rp"))
    flush, saturate, finite, relu = (form.has(name) for name in ("ftz", "sat", "satfinite", "relu"))
    form.end(operands=(2,))
    own, target = FLOAT_TYPES[source], FLOAT_TYPES[to]
    narrows = target.bits < own.bits or (target.bits == own.bits and to != source)
    needless = bool(mode) and not narrows and (source != "bf16" or to == "bf16")
    missing = not mode and narrows and target.bits < own.bits
    if needless or missing or (integral and to != source):
        raise unmodelled(i, "its rounding does not go with the types")
    if (finite or relu) and (source != "f32" or target.bits != 16 or flush or saturate or mode not in ("rn", "rz")):
        raise unmodelled(i, ".satfinite and .relu are for .f16 and .bf16 of .f32, without .ftz and .sat")
    if flush and "f32" not in (to, source):
        raise unmodelled(i, ".ftz is for .f32")
    _check_bf16(i, to, source, saturate)
    sources = [(i.operands[1], source if own.bits > 16 else f"b{own.bits}")]
    if _copies(to, source) and not (integral or flush or saturate):
        shift = np.uint32(target.bits - own.bits)
        if not shift:
            return elementwise(c, i.operands[0], f"b{own.bits}", [(i.operands[1], f"b{own.bits}")], lambda a: a)
        return elementwise(c, i.operands[0], "b32", sources, lambda a: np.asarray(a).astype(np.uint32) << shift)
    # NaNs keep their upper bits where f64 is at one end, but with .ftz the NaN of f32 comes first.
    hands_on = "f64" in (to, source)
    round_to = to_format(
        target, _TO_FLOAT[mode or "rn"] | (rounding.FLUSH if flush and to == "f32" else 0), finite=finite, hands_on_nan=hands_on
    )
    as_numbers = _flushing(own, flush and to != "f16")  # machine code to f16 has no .ftz (core/spec/errata.py)
    whole = _INTEGRAL[integral] if integral else None
    canonical = np.uint32(FLOAT_TYPES["f32"].nan).view(np.float32)

    def convert(a: Any) -> Any:
        value = as_numbers(a)
        if flush and source == "f32":
            value = np.where(np.isnan(value), canonical, value)
        if whole is not None:
            value = whole(np.asarray(value).astype(np.float64))
        if relu:
            value = np.where(value <= 0, 0, value)
        return round_to(value)

    f = finish(target, convert, flush=False, saturate=saturate, relu=False)
    return elementwise(c, i.operands[0], f"b{target.bits}", [(i.operands[1], source)], f)


def _copies(to: str, source: str) -> bool:
    """Conversions that are no arithmetic: NaNs of every kind stay as they are."""
    return (source, to) in (("f32", "f32"), ("f64", "f64"), ("bf16", "f32"))


def _to_tf32(i: Instruction, c: Linker, form: Modifiers, source: str) -> Step:
    """`cvt.rna.tf32.f32` and its like: 10 bits of fraction, the low 13 bits are zero."""
    mode, finite, relu = form.one_of(("rn", "rz", "rna")), form.has("satfinite"), form.has("relu")
    form.end(operands=(2,))
    if source != "f32" or not mode or (mode == "rna" and relu):
        raise unmodelled(i)
    if mode == "rna":
        f = ufunc(results.tf32_away, signature("int64", ("int64", 2)))
        return elementwise(c, i.operands[0], "b32", [(i.operands[1], "b32")], lambda a: f(a, int(finite)))
    g = codes_of("tf32", _TO_FLOAT[mode], finite=finite)
    dropped = np.int64(13)
    return elementwise(
        c, i.operands[0], "b32", [(i.operands[1], source)], lambda a: g(np.where(a <= 0, np.float32(0), a) if relu else a) << dropped
    )  # fmt: skip


def _pack(i: Instruction, c: Linker, form: Modifiers) -> Step:
    """`cvt.pack.sat`: a above b, clamped; with c, which moves up by their two widths."""
    saturate, narrow = form.has("sat"), form.one_of(_PACK)
    form.has("b32")
    form.end(operands=()) if not form.left else None
    if not narrow or not saturate or form.left not in ([], ["s32"]):
        raise unmodelled(i)
    signed, bits = _PACK[narrow]
    if (bits == 16) != (len(i.operands) == 3):
        raise unmodelled(i, f"{len(i.operands)} operands")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    mask = (1 << bits) - 1

    def clamp(a: Any) -> Any:
        return np.clip(np.asarray(a).astype(np.int64), low, high) & mask

    def pack(a: Any, b: Any, *rest: Any) -> Any:
        both = clamp(a) << bits | clamp(b)
        return both | np.asarray(rest[0]).astype(np.int64) << 2 * bits if rest else both

    sources = list(zip(i.operands[1:], ("s32", "s32", "u32"), strict=False))
    return elementwise(c, i.operands[0], "b32", sources, lambda *a: (pack(*a) & 0xFFFFFFFF).astype(np.uint32))
