"""`cvt` to and from packed types: two 16-bit floats, and floats of 8, 6 and 4 bits in pairs (PTX ISA 9.7.9.21).

Of two operands the first goes to the upper half. Floats of 6 bits lie in bytes, those of 4 bits in a byte by twos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.arithmetic import results, rounding
from smemsim.arithmetic.compiled import ufunc
from smemsim.arithmetic.values import decoded
from smemsim.gpu.alu.floats import numbers, signature
from smemsim.gpu.alu.forms import Elementwise, Form, step
from smemsim.gpu.registry import Step, unmodelled
from smemsim.ptx.module import Instruction
from smemsim.spec.formats import element_format

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker

__all__ = ["codes_of", "convert", "knows"]

_HALVES = ("f16x2", "bf16x2")
_SMALL = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
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


def convert(i: Instruction, c: Linker, form: Form, to: str, source: str) -> Step:
    """Any of them; which target has which is told in `spec.targets`."""
    if to.endswith("x4") or source.endswith("x4") or "rs" in form.left:
        raise unmodelled(i, "where stochastic rounding takes its bits from is not known")
    if to == _FIXED:
        raise unmodelled(i, "what becomes of NaN in a fixed-point number is not known")
    if to == _SCALES:
        return _to_scales(i, c, form, source)
    if to in _HALVES and source != "f32":
        return _widened(i, c, form, to, source)
    mode, finite, relu = form.one_of("rn", "rz"), form.has("satfinite"), form.has("relu")
    form.done(operands=(3,) if source == "f32" else (2,))
    if mode is None or (mode == "rz" and (to not in _HALVES or source != "f32")):
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


def _widened(i: Instruction, c: Linker, form: Form, to: str, source: str) -> Step:
    """Pairs of small floats, of scales or of fixed-point numbers as halves; with `.scaled::n2::ue8m0` each times a scale of its own.

    To f16x2 as an H200 computes it; to bf16x2 from PTX ISA 9.2 on (ptxas 13.4.59 assembles them), in the same way: inferred. That a scale
    multiplies is what CuTe DSL relies on, which makes integers of s2f6 with the scale 2^6 (`cvt_i8x2_to_bf16x2`).
    """
    mode, finite, relu, scaled = form.one_of("rn"), form.has("satfinite"), form.has("relu"), form.has(_SCALED)
    form.done(operands=(3,) if scaled else (2,))
    if mode is None:
        raise unmodelled(i, "its rounding does not go with the types")
    if source in _HALVES or (to == "f16x2" and source not in _SMALL):
        raise unmodelled(i)
    if (finite or scaled) and to == "f16x2":
        raise unmodelled(i, ".satfinite and .scaled are for .bf16x2")
    if (finite or relu or scaled) and source == _SCALES:
        raise unmodelled(i, ".satfinite, .relu and .scaled are not for .ue8m0x2")
    code, wide = codes_of(to.removesuffix("x2"), rounding.NEAREST, finite=finite), 4 if source == "e2m1x2" else 8

    def widen(a: Any, *scales: Any) -> Any:
        halves = []
        for n in range(2):
            x = _numbers(np.asarray(a).astype(np.uint32) >> np.uint32(n * wide), source)
            for scale in scales:
                x = x * _numbers(np.asarray(scale).astype(np.uint32) >> np.uint32(8 * n), _SCALES)
            halves.append(code(np.where(x <= 0, 0, x) if relu else x) & 0xFFFF)
        return (halves[1] << 16 | halves[0]).astype(np.uint32)

    reads = [c.read(i.operands[1], "b16" if source == _FIXED else source), *(c.read(operand, _SCALES) for operand in i.operands[2:])]
    return step(c.write(i.operands[0], to), reads, widen)


def _numbers(words: Any, kind: str) -> Any:
    """float64 numbers of the low bits of words, elements of a packed type; s2f6 has a sign, an integer bit and six of the fraction, in two's complement."""
    low = np.atleast_1d(words)
    if kind == _FIXED:
        return low.astype(np.uint8).view(np.int8) / 64.0
    fmt = element_format(kind.removesuffix("x2"))
    return decoded(low & np.uint32((1 << fmt.bits) - 1), fmt)


def _halves_of_f32(i: Instruction, c: Linker, to: str) -> Step:
    """The conversions of every epilogue, without a detour: the same results as those of `rounding.converted`."""
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


def _to_scales(i: Instruction, c: Linker, form: Form, source: str) -> Step:
    """`ue8m0`: the exponent of the magnitude, the next one with .rp; NaN, and without .satfinite what is too large, is 0xFF."""
    mode, finite = form.one_of("rz", "rp"), form.has("satfinite")
    form.done(operands=(3,) if source == "f32" else (2,))
    if mode is None or source not in ("f32", "bf16x2"):
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
