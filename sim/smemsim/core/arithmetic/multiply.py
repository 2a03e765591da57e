"""The one door to the arithmetic of matrix instructions: raw bits of A, B and C in, raw bits of D out."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.core.arithmetic import loops
from smemsim.core.arithmetic.dot import NOTHING
from smemsim.core.arithmetic.values import accumulator, columns, numbers
from smemsim.core.spec.assumptions import assumed, in_force
from smemsim.core.spec.formats import SCALE_BIAS, element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_arithmetic import ARITHMETIC, LARGEST_ZERO_EXPONENT, LEAST_KEPT_BITS, NAN, MmaArithmetic, arithmetic_of
from smemsim.core.spec.tcgen05 import KINDS

# powers of two, of a product of scale factors: times two numbers of 8 bits (2^16 each) and a sum of 2^8, far below half
# the least f32 (2^-150)
NEGLIGIBLE = -200
HUGE = 1000  # an exponent that no product of scale factors has

__all__ = ["Factors", "Options", "Sums", "add_tiles", "certain", "is_added_in_place", "multiply", "multiply_tiles", "row_of"]


@dataclasses.dataclass(frozen=True)
class Factors:
    """Scale factors of A (…, M, factors) and B (…, N, factors): raw bits of `dtype`, each for `k_per_factor` elements
    of K (logical ones).
    """

    a: np.ndarray
    b: np.ndarray
    dtype: str
    k_per_factor: int

    def of(self, a: np.ndarray, b: np.ndarray) -> Factors:
        """These factors' type and block with other raw bits."""
        return Factors(a, b, self.dtype, self.k_per_factor)

    def negligible(self) -> tuple[np.ndarray, np.ndarray]:
        """The elements of A (M, K) and B (N, K) that cannot change an f32 sum. Numbers may have any 8 bits or fewer.

        >>> a, b = np.array([[0, 126]], np.uint8), np.array([[0, 0]], np.uint8)
        >>> Factors(a, b, "ue8m0", 2).negligible()[0].tolist(), Factors(a, b, "ue4m3", 2).negligible()[0].tolist()
        ([[True, True, False, False]], [[True, True, True, True]])
        """
        a, b = (_exponents(bits, self.dtype) for bits in (self.a, self.b))
        found = a + b.max(axis=0) < NEGLIGIBLE, b + a.max(axis=0) < NEGLIGIBLE
        return found[0].repeat(self.k_per_factor, axis=1), found[1].repeat(self.k_per_factor, axis=1)


def _exponents(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Exponents of powers of two that scale factors are not above: tiny ones of zeros, huge ones of NaNs."""
    fmt = element_format(dtype)
    magnitude = bits.astype(np.int32) & fmt.magnitude
    found = np.where(magnitude == 0, -HUGE, magnitude >> fmt.fraction_bits) if fmt.fraction_bits else magnitude - SCALE_BIAS
    return np.where(magnitude == fmt.magnitude, 2 * HUGE, found)


class Options(NamedTuple):
    """Options of an instruction: -A, -B, C * 2^-scale_c, clamping of s32 results."""

    negate_a: bool = False
    negate_b: bool = False
    scale_c: int = 0
    saturate: bool = False


def row_of(kind: str, a_type: str, b_type: str, d_type: str) -> MmaArithmetic:
    """The arithmetic of an instruction; InputError, with the types it has, if there is none.

    >>> row_of("f8f6f4", "e2m1", "e4m3", "f16").kept_bits
    25
    """
    row = arithmetic_of(kind, a_type, b_type, d_type)
    if row is None:
        known = [f"{'/'.join(r.a_types)} x {'/'.join(r.b_types)} to {r.d_type}" for r in ARITHMETIC if kind in r.kinds]
        rows = (r for r in ARITHMETIC if a_type in r.a_types and b_type in r.b_types and r.d_type == d_type)
        others = dict.fromkeys(
            name for r in rows for name in r.kinds if {kind, name} <= KINDS.keys() and KINDS[kind].block_scaled is KINDS[name].block_scaled
        )
        types = f"a_type = b_type = {a_type}" if a_type == b_type else f"a_type = {a_type}, b_type = {b_type}"
        raise InputError(
            f"{types}, d_type = {d_type}: kind {kind} does not multiply these types, only {', '.join(known)}"
            + (f"; kind = {' or '.join(others)} multiplies them" if others else "")
        )
    if row.grade is Grade.MEASURED:
        other: MmaArithmetic = assumed("wgmma.row", row)
    else:
        other = assumed("arithmetic.row", row)
    return other


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    *,
    kind: str,
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
    """D = A * B + C * 2^-scale_c of one instruction. Returns (raw bits of `d_type`, certain), both (M, N).

    Operands `a` (M, S) and `b` (N, K) are raw element bits. Operand `c` (M, N) is raw bits of `d_type`. The kind is
    "wgmma" or one of tcgen05. The K of each element of a sparse A is `index` (M, S). Without it S is K. With
    `adds_c=False` no C is added, not even +0. Integers wrap, or clamp with `saturate`.

    All elements of wgmma are certain (measured). An element of tcgen05 is certain if no known datapath can compute
    another value. That is so if no datapath drops bits of a term, the sum needs no rounding, and no value is infinite,
    a NaN or a sum of negative zeros.

    Raises InputError for types that the instruction does not have, and for wrong shapes.

    >>> one = np.full((8, 16), 0x3F80, np.uint16)
    >>> d, certain = multiply(one, one, np.zeros((8, 8), np.uint32), kind="f16", a_type="bf16", b_type="bf16", d_type="f32")
    >>> hex(d[0, 0]), bool(certain.all())
    ('0x41800000', True)
    """
    row = row_of(kind, a_type, b_type, d_type)
    if a.ndim != 2 or b.ndim != 2 or c.shape != (len(a), len(b)) or (index is None and a.shape[1] != b.shape[1]):
        raise InputError(f"a {a.shape}, b {b.shape}, c {c.shape}: needs (M, K), (N, K) and (M, N)")
    types, options = (a_type, b_type, d_type), Options(negate_a, negate_b, scale_c, saturate)
    scales = None if factors is None else factors.of(factors.a[None], factors.b[None])
    d = multiply_tiles(a[None], b[None], c[None], row=row, types=types, index=index, options=options, factors=scales)[0]
    return d, certain(a, b, c, d, row=row, types=types, index=index, options=options, factors=factors, adds_c=adds_c)


TILE_WORK = 1 << 16  # elements of D that one compiled call takes on: their terms stay in the second-level cache
THREAD_WORK = 1 << 23  # multiply-adds from which on it pays to start threads


@in_default_state
def multiply_tiles(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    *,
    row: MmaArithmetic,
    types: tuple[str, str, str],
    index: np.ndarray | None = None,
    options: Options = Options(),  # noqa: B008
    factors: Factors | None = None,
) -> np.ndarray:
    """D of many tiles: a (tiles, M, S), b (tiles, N, K), c (tiles, M, N) raw bits whose shapes fit. Large batches use
    every core.
    """
    product = _multiply_tiles if row.grade is Grade.MEASURED else assumed("arithmetic.tiles", _multiply_tiles, row)
    d: np.ndarray = product(a, b, c, row=row, types=types, index=index, options=options, factors=factors)
    return d


def _multiply_tiles(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    *,
    row: MmaArithmetic,
    types: tuple[str, str, str],
    index: np.ndarray | None,
    options: Options,
    factors: Factors | None,
) -> np.ndarray:
    d = np.empty(c.shape, np.uint16 if element_format(types[2]).bits == 16 else np.uint32)

    def some(part: slice) -> None:
        scales = None if factors is None else factors.of(factors.a[part], factors.b[part])
        if row.kept_bits is None:
            d[part] = _integers(a[part], b[part], c[part], types, index, options.saturate)
        else:
            _floats(a[part], b[part], c[part], row, types, index, options, scales, d[part])

    _in_parts(len(d), c.shape[1] * c.shape[2], a.shape[2], some)
    return d


class Sums(NamedTuple):
    """Accumulators that stay in place.

    Tile t adds to the elements of `values` (some, rows, columns; float32 as raw bits) from `where[t]` (which, row,
    column) on, or overwrites them if `adds[t]` is False.
    """

    values: np.ndarray
    where: np.ndarray
    adds: np.ndarray


def is_added_in_place(row: MmaArithmetic, d_type: str) -> bool:
    """Does `add_tiles` have this arithmetic, and is it taken as it is?"""
    is_as_it_is = row.grade is Grade.MEASURED or not in_force()
    return is_as_it_is and row.kept_bits is not None and row.group == 1 and d_type == "f32"


def add_tiles(
    a: np.ndarray, b: np.ndarray, which: tuple[np.ndarray, np.ndarray], sums: Sums, *, row: MmaArithmetic, types: tuple[str, str, str], options: Options
) -> None:  # fmt: skip
    """`multiply_tiles` for accumulators that stay in place.

    Raw bits `a` (some, M, S) and `b` (some, N, K) have each operand once. Tile t uses `which[0][t]` of `a` and
    `which[1][t]` of `b`. Only for arithmetic with `is_added_in_place`, without a scale of C.
    """
    terms = _terms(a, b, sums.values, types, None, options)

    def some(part: slice) -> None:
        _add(terms, (which[0][part], which[1][part]), sums.values, sums.where[part], sums.adds[part], row, types[2])

    # what is done to the operands is done: parts spare nothing
    if len(sums.where) * a.shape[1] * b.shape[1] * a.shape[2] < THREAD_WORK:
        some(slice(None))
    else:
        _in_parts(len(sums.where), a.shape[1] * b.shape[1], a.shape[2], some)


def _add(
    terms: Terms, which: tuple[np.ndarray, np.ndarray], d: np.ndarray, where: np.ndarray, adds: np.ndarray, row: MmaArithmetic, d_type: str
) -> None:  # fmt: skip
    """`loops.float_sums` of terms."""
    of_a, of_b = map(np.ascontiguousarray, which)
    loops.float_sums(
        terms.a, terms.a_exponent, of_a, terms.b, terms.b_exponent, of_b, terms.of, terms.c, terms.c_scale, d, where, adds,
        terms.smallest, row.kept_bits, row.zero_exponent, _result(row, d_type),
    )  # fmt: skip


def _in_parts(tiles: int, size: int, k: int, some: Callable[[slice], None]) -> None:
    """Do something for all tiles of so many results, of K products each: large batches on every core."""
    step = max(1, TILE_WORK // max(1, size))
    parts = [slice(first, first + step) for first in range(0, tiles, step)]
    if len(parts) == 1 or tiles * size * k < THREAD_WORK:
        for part in parts:
            some(part)
    else:
        import concurrent.futures

        with concurrent.futures.ThreadPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()) as pool:
            list(pool.map(some, parts))


class Terms(NamedTuple):
    """The inputs of sums. A (tiles, M, S) and B (tiles, K, N) are values and exponents. C (tiles, M, N) has its factor
    and the exponent of its subnormals. The K of A's elements is `of` (M, S).
    """

    a: np.ndarray
    a_exponent: np.ndarray
    b: np.ndarray
    b_exponent: np.ndarray
    c: np.ndarray
    c_scale: float
    smallest: int
    of: np.ndarray


def _terms(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    types: tuple[str, str, str],
    index: np.ndarray | None,
    options: Options,
    factors: Factors | None = None,
) -> Terms:
    """The operands as numbers: signs changed, C and the elements of A and B scaled, zeros appended to A until S is a
    multiple of 4.
    """
    formats = [element_format(t) for t in types]
    across = columns(b) if factors is None else b
    values, each = map(list, zip(*(numbers(x, fmt) for x, fmt in zip((a, across), formats, strict=False)), strict=True))
    where = _index(a, index)
    if factors is not None:
        of_a = np.arange(a.shape[1])[:, None], where // factors.k_per_factor
        of_b = np.arange(b.shape[1])[:, None], np.arange(b.shape[2])[None] // factors.k_per_factor
        for side, (bits, block) in enumerate(((factors.a, of_a), (factors.b, of_b))):
            scale, scale_exponent = numbers(bits, element_format(factors.dtype))
            values[side] = values[side].astype(np.float64) * scale[:, block[0], block[1]]
            each[side] += scale_exponent[:, block[0], block[1]]
        values[1], each[1] = columns(values[1]), columns(each[1])
    for operand, negate in zip(values, (options.negate_a, options.negate_b), strict=False):
        if negate:
            np.negative(operand, out=operand)
    more = -a.shape[2] % 4
    if more:  # -0 beside a K of its own, where B is +0: neither a sum nor its sign knows of them
        where = np.pad(where, ((0, 0), (0, more)), constant_values=b.shape[2])
        values[0], each[0] = (
            np.pad(x, ((0, 0), (0, 0), (0, more)), constant_values=zero) for x, zero in ((values[0], -0.0), (each[0], NOTHING))
        )
        values[1], each[1] = (np.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (values[1], each[1]))
    smallest = formats[2].smallest_exponent - options.scale_c
    return Terms(values[0], each[0], values[1], each[1], accumulator(c, formats[2]), 2.0**-options.scale_c, smallest, where)


def _index(a: np.ndarray, index: np.ndarray | None) -> np.ndarray:
    return _in_order(*a.shape[1:]) if index is None else np.array(index, np.int64, order="C")


@functools.lru_cache(maxsize=256)
def _in_order(rows: int, stored: int) -> np.ndarray:
    """The K of A's elements in storage order. Read-only."""
    return np.array(np.broadcast_to(np.arange(stored, dtype=np.int64), (rows, stored)), order="C")


def _result(row: MmaArithmetic, d_type: str) -> tuple[int, int, bool, int, int, int, int]:
    """How sums become bits of D: what `dot.convert` takes, and the bits that are kept."""
    to = element_format(d_type)
    kept = ~((1 << to.fraction_bits - row.fraction_bits) - 1)
    return to.exponent_bits, to.fraction_bits, row.to_nearest, to.largest, to.largest + 1, NAN[to.name], kept


def _floats(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    row: MmaArithmetic,
    types: tuple[str, str, str],
    index: np.ndarray | None,
    options: Options,
    factors: Factors | None,
    d: np.ndarray,
) -> None:
    if row.group == 1:
        sums = d
        if d.dtype == np.uint32:  # C is D before: the same types of arrays as of accumulators that stay where they are
            d[:] = c
            c = d
        else:  # results of 16 bits in words: the same machine code
            sums = np.empty(d.shape, np.uint32)
        each, where = np.arange(len(d)), np.zeros((len(d), 3), np.int64)
        where[:, 0] = each
        _add(_terms(a, b, c, types, index, options, factors), (each, each), sums, where, np.ones(len(d), bool), row, types[2])
        if sums is not d:
            d[:] = sums
        return
    if factors is None:
        raise InputError(f"factors = None: {' and '.join(row.kinds)} scale A and B")
    terms = _terms(a, b, c, types, index, options)
    # A group has one factor: with fewer elements to a factor than to a group, each of these is a group.
    groups = max(a.shape[2] // row.group, factors.a.shape[-1])
    block = terms.of[:, :: a.shape[2] // groups] // factors.k_per_factor
    of_a, of_b = (numbers(x, element_format(factors.dtype)) for x in (factors.a, factors.b))
    scale_a, exponent_a = (np.ascontiguousarray(x[:, np.arange(len(block))[:, None], block]) for x in of_a)
    scale_b, exponent_b = (np.ascontiguousarray(x[:, :, block[0]].transpose(0, 2, 1)) for x in of_b)
    scale_a, scale_b = scale_a.astype(np.float64), scale_b.astype(np.float64)
    doubled_a, doubled_b = ((x * 2).astype(np.int16) for x in (terms.a, terms.b))
    operands = (doubled_a, doubled_b, scale_a / 4, exponent_a, scale_b, exponent_b, terms.c, terms.c_scale, terms.smallest, terms.of)
    loops.grouped_tiles(*operands, row.kept_bits, row.zero_exponent, _result(row, types[2]), d)


def certain(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    d: np.ndarray,
    *,
    row: MmaArithmetic,
    types: tuple[str, str, str],
    index: np.ndarray | None = None,
    options: Options = Options(),  # noqa: B008
    factors: Factors | None = None,
    adds_c: bool = True,
) -> np.ndarray:
    """The elements for which no known datapath gives other bits than the result `d` of `multiply`, bool (M, N). If the
    type is measured, these are all.
    """
    if row.grade is Grade.MEASURED or row.kept_bits is None:
        return np.ones(d.shape, bool)
    to, scale_c = element_format(types[2]), options.scale_c
    scales = None if factors is None else factors.of(factors.a[None], factors.b[None])
    terms = _terms(a[None], b[None], c[None], types, index, options, scales)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        terms = terms._replace(a=terms.a.astype(np.float64), b=terms.b.astype(np.float64))
    whole = np.empty((1, *d.shape), bool)
    loops.nothing_cut(*terms, LEAST_KEPT_BITS, LARGEST_ZERO_EXPONENT, to.exponent_bits, to.fraction_bits, whole)
    is_certain = np.asarray(whole[0] & (d & to.magnitude <= to.largest))
    # For wgmma it is measured that zero is +0. The result of tcgen05 for sums of only -0 is not known.
    with np.errstate(invalid="ignore"):  # signalling NaNs
        c = terms.c[0].astype(np.float64) * terms.c_scale
    nothing = (d & to.magnitude == 0) & ((np.signbit(c) & (c == 0)) | (not adds_c))
    is_certain &= ~_negative_zeros(nothing, terms)
    if scale_c:  # what becomes of a C that is too small once it is divided is in no document
        units = c * 2.0 ** (to.fraction_bits - to.smallest_exponent)
        is_certain &= units == np.trunc(units)
    return is_certain


def _negative_zeros(zeros: np.ndarray, terms: Terms) -> np.ndarray:
    """Where, among the elements `zeros`, every product is a negative zero."""
    m, n = np.nonzero(zeros)
    products = terms.a[0, m] * terms.b[0, terms.of[m], n[:, None]]
    negative = ((products == 0) & np.signbit(products)).all(axis=1)
    out = np.zeros(zeros.shape, bool)
    out[m[negative], n[negative]] = True
    return out


def _integers(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], index: np.ndarray | None, saturate: bool
) -> np.ndarray:
    operands = [x.astype(np.uint8).view(np.int8 if element_format(t).signed else np.uint8) for x, t in zip((a, b), types, strict=False)]
    total = np.empty(c.shape, np.int64)
    start = np.ascontiguousarray(c, np.uint32).view(np.int32)
    of_a, of_b = operands[0].astype(np.int16, "C"), columns(operands[1])
    loops.integer_tiles(of_a, of_b, start, _index(a, index), total)
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)
