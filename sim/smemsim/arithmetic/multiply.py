"""The one door to the arithmetic of matrix instructions: raw bits of A, B and C in, raw bits of D out.

Where a bit-exact model of the instruction exists, it is used; everywhere else sums are exact and converted once, with a mask of the
elements that cannot depend on how silicon rounds.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from smemsim.arguments import choice
from smemsim.errors import InputError, Unmodelled
from smemsim.spec.formats import FORMATS, SCALE_BIAS, SCALE_MAGNITUDE, ElementFormat, element_format
from smemsim.spec.mma_arithmetic import (
    HOPPER_FP8_KEPT_BITS,
    HOPPER_FP8_KEPT_FRACTION,
    KEPT_BITS,
    KEPT_FRACTION,
    TO_NEAREST,
    WGMMA_BF16_F32,
    ZERO_EXPONENT,
)

__all__ = ["Factors", "has_specials", "multiply", "nothing_special"]


@dataclasses.dataclass(frozen=True)
class Factors:
    """Scale factors of A (M, factors) and B (N, factors): raw bits of `dtype`, each for `k_per_factor` elements of K (logical ones)."""

    a: np.ndarray
    b: np.ndarray
    dtype: str
    k_per_factor: int


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    *,
    instruction: str,
    a_type: str,
    b_type: str,
    d_type: str,
    index: np.ndarray | None = None,
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    factors: Factors | None = None,
    scale_c: int = 0,
    adds_c: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """D = A * B + C * 2^-scale_c of one instruction, and where its bits are certain: (raw bits of `d_type`, bool), both (M, N).

    `a` (M, S) and `b` (N, K) are raw element bits, `c` (M, N) raw bits of `d_type`; `instruction` "wgmma" or "tcgen05". `index` (M, S) has
    the K that each element of a sparse A meets; without it S is K. `adds_c` False says that no C is added, not even +0. Integers wrap, or clamp with `saturate`; b1 counts common bits of words.

    Raises Unmodelled for infinities and NaNs, InputError for shapes that do not fit. Certain are elements that no datapath known to us can
    compute otherwise: no term has bits that it drops beside the largest one or beside a zero, and the sum needs no rounding. All elements of
    dense wgmma bf16 with f32 are (measured: trace reference_gemm).

    >>> one = np.full((8, 16), 0x3F80, np.uint16)
    >>> d, certain = multiply(one, one, np.zeros((8, 8), np.uint32), instruction="tcgen05", a_type="bf16", b_type="bf16", d_type="f32")
    >>> hex(d[0, 0]), bool(certain.all())
    ('0x41800000', True)
    """
    from smemsim.arithmetic import exact_loops, loops

    choice("instruction", instruction, ("wgmma", "tcgen05"), "'wgmma' or 'tcgen05'")
    formats = [element_format(t) for t in (a_type, b_type, d_type)]
    if a.ndim != 2 or b.ndim != 2 or c.shape != (len(a), len(b)) or (index is None and a.shape[1] != b.shape[1]):
        raise InputError(f"a {a.shape}, b {b.shape}, c {c.shape}: needs (M, K), (N, K) and (M, N)")
    where = np.broadcast_to(np.arange(a.shape[1]), a.shape) if index is None else index
    if not formats[0].is_float:
        return _integers(a, b, c, where, formats, saturate)
    for name, bits, fmt in (("A", a, formats[0]), ("B", b, formats[1]), ("C", c, formats[2])):
        nothing_special(name, bits, fmt)
    d, certain = np.empty(c.shape, np.uint32), np.ones(c.shape, bool)
    row = WGMMA_BF16_F32
    measured = (instruction, a_type, b_type, d_type) == ("wgmma", "bf16", "bf16", "f32") and index is None and a.shape[1] == row.terms
    if measured and not scale_c:
        signs = [np.int64(0x8000 if flip else 0) for flip in (negate_a, negate_b)]
        constants = (row.exponent_bits, row.fraction_bits, row.kept_bits, row.zero_exponent)
        loops.mma_tile(a.astype(np.int64) ^ signs[0], b.astype(np.int64) ^ signs[1], c.astype(np.int64), *constants, d)
        return d, certain
    split = [_parts(x, fmt) for x, fmt in zip((a, b, c), formats, strict=True)]
    for parts, flip in zip(split, (negate_a, negate_b), strict=False):
        if flip:
            np.negative(parts[0], out=parts[0])
    if factors is not None:
        _scale(split[0], factors.a, factors, where)
        _scale(split[1], factors.b, factors, np.broadcast_to(np.arange(b.shape[1]), b.shape))
    split[2] = (split[2][0], split[2][1] - scale_c, split[2][2] - scale_c)
    result, narrow = formats[2], instruction == "wgmma" and formats[0].bits == 8
    kept, fraction = (HOPPER_FP8_KEPT_BITS, HOPPER_FP8_KEPT_FRACTION) if narrow else (KEPT_BITS, KEPT_FRACTION)
    to_nearest = result.name in TO_NEAREST
    exact_loops.float_tile(
        split[0],
        split[1],
        split[2],
        np.ascontiguousarray(where),
        kept,
        ZERO_EXPONENT,
        result.exponent_bits,
        result.fraction_bits,
        to_nearest,
        d,
        certain,
    )
    if instruction != "wgmma":  # of which it is measured that zero is +0; what tcgen05 makes of nothing but -0 is not known
        nothing = (d & ~np.uint32(1 << result.bits - 1) == 0) & ((c == 1 << result.bits - 1) | (not adds_c))
        certain &= ~_negative_zeros(nothing, (a, b), formats, where, negate_a != negate_b)
    if scale_c:  # what becomes of a C that is too small once it is divided is in no document
        certain &= (split[2][0] == 0) | (split[2][1] >= 2 - (1 << result.exponent_bits - 1) - result.fraction_bits)
    if fraction < result.fraction_bits:
        certain &= d & ((1 << result.fraction_bits - fraction) - 1) == 0
    return d.astype(np.uint16 if result.bits == 16 else np.uint32), certain


def _negative_zeros(
    found: np.ndarray, operands: tuple[np.ndarray, ...], formats: list[ElementFormat], index: np.ndarray, flip: bool
) -> np.ndarray:
    """Where, among the elements `found`, every product is a negative zero."""
    m, n = np.nonzero(found)
    k = index[m]
    zeros, signs = [], []
    for values, fmt in zip((operands[0][m], operands[1][n[:, None], k]), formats, strict=False):
        zeros.append(values >> fmt.dropped_bits & ((1 << fmt.exponent_bits + fmt.fraction_bits) - 1) == 0)
        signs.append(values >> (fmt.bits - 1) & 1 == 1)
    negative = ((zeros[0] | zeros[1]) & ((signs[0] != signs[1]) != flip)).all(axis=1)
    out = np.zeros(found.shape, bool)
    out[m[negative], n[negative]] = True
    return out


def has_specials(bits: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    """Where raw bits are infinities or NaNs."""
    magnitude = bits >> fmt.dropped_bits & ((1 << fmt.exponent_bits + fmt.fraction_bits) - 1)
    if fmt.specials == "ieee":
        found: np.ndarray = magnitude >= ((1 << fmt.exponent_bits) - 1) << fmt.fraction_bits
    elif fmt.specials == "nan":
        found = magnitude == (1 << fmt.exponent_bits + fmt.fraction_bits) - 1
    else:
        found = np.zeros(bits.shape, bool)
    return found


def nothing_special(name: str, bits: np.ndarray, fmt: ElementFormat) -> None:
    """Raise Unmodelled if an operand holds an infinity or a NaN."""
    found = has_specials(bits, fmt)
    if found.any():
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(found)), found.shape))
        value = int(bits[at])
        raise Unmodelled(
            f"{name}[{', '.join(map(str, at))}] = {value:#x} is an infinity or a NaN of {fmt.name}: its arithmetic is not modelled in this version"
        )


Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _parts(bits: np.ndarray, fmt: ElementFormat) -> Parts:
    from smemsim.arithmetic import exact_loops

    raw = bits.astype(np.int64) >> fmt.dropped_bits
    numbers, powers, exponents = exact_loops.parts(raw, fmt.exponent_bits, fmt.fraction_bits)
    return numbers, powers, exponents


def _scale(parts: Parts, bits: np.ndarray, factors: Factors, index: np.ndarray) -> None:
    """Multiply the elements, in place, by the factors of their blocks of K."""
    fmt = element_format(factors.dtype)
    nothing_special("a scale factor", bits, fmt)
    if fmt.fraction_bits:
        numbers, powers, exponents = _parts(bits & SCALE_MAGNITUDE, fmt)
    else:  # a power of two, also for 0
        powers = exponents = bits.astype(np.int64) - SCALE_BIAS
        numbers = np.ones_like(powers)
    block = np.arange(len(bits))[:, None], index // factors.k_per_factor
    parts[0][...] *= numbers[block]
    parts[1][...] += powers[block]
    parts[2][...] += exponents[block]


def _integers(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, index: np.ndarray, formats: list[ElementFormat], saturate: bool
) -> tuple[np.ndarray, np.ndarray]:
    from smemsim.arithmetic import exact_loops

    single_bits = formats[0] is FORMATS["b1"]
    if single_bits:
        operands = [x.astype(np.uint32).astype(np.int64) for x in (a, b)]  # words of 32 elements
    else:
        operands = [
            x.astype(np.uint8).view(np.int8).astype(np.int64) if f.signed else x.astype(np.int64)
            for x, f in zip((a, b), formats, strict=False)
        ]
    total = np.empty(c.shape, np.int64)
    start = c.astype(np.uint32).view(np.int32).astype(np.int64)
    exact_loops.integer_tile(operands[0], operands[1], start, np.ascontiguousarray(index), single_bits, total)
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32), np.ones(c.shape, bool)
