"""The dot product compiled: the steps of `dot`, N results side by side."""

from __future__ import annotations

import numpy as np

from smemsim.arithmetic import dot as _dot
from smemsim.compiling.loop import compiled

__all__ = [
    "decode_all",
    "encode_all",
    "exponent_all",
    "float_sums",
    "float_tiles",
    "grouped_tiles",
    "integer_tiles",
    "look_up",
    "nothing_cut",
    "upper_halves",
]


NOTHING, DOUBLE_FRACTION, NO_SPECIALS, ONLY_NAN, IEEE = _dot.NOTHING, _dot.DOUBLE_FRACTION, _dot.NO_SPECIALS, _dot.ONLY_NAN, _dot.IEEE
two_to, larger, cut = compiled(_dot.two_to), compiled(_dot.larger), compiled(_dot.cut)
decode, exponent = compiled(_dot.decode), compiled(_dot.exponent)
convert, plus_zero = compiled(_dot.convert), compiled(_dot.plus_zero)


@compiled
def decode_all(bits, exponent_bits, fraction_bits, specials, values):  # type: ignore[no-untyped-def]
    """Values of raw bits; both flat."""
    for i in range(len(bits)):
        values[i] = decode(np.int64(bits[i]), exponent_bits, fraction_bits, specials)


@compiled
def exponent_all(values, smallest, exponents):  # type: ignore[no-untyped-def]
    """Exponents of values; both flat."""
    for i in range(len(values)):
        exponents[i] = exponent(values[i], smallest)


@compiled
def upper_halves(bits, smallest, values, exponents):  # type: ignore[no-untyped-def]
    """Values and exponents of the upper halves of float32, bf16; all flat."""
    for i in range(len(bits)):
        value = np.float64(np.uint32(np.uint32(bits[i]) << np.uint32(16)).view(np.float32))
        values[i] = value
        exponents[i] = exponent(value, smallest)


@compiled
def look_up(table, bits, out):  # type: ignore[no-untyped-def]
    """Entries of a table; both flat."""
    for i in range(len(bits)):
        out[i] = table[bits[i]]


@compiled
def encode_all(values, exponent_bits, fraction_bits, largest, overflow, nan, codes):  # type: ignore[no-untyped-def]
    """Raw bits of values, to nearest even; all flat."""
    for i in range(len(values)):
        codes[i] = convert(values[i], exponent_bits, fraction_bits, True, largest, overflow, nan)


@compiled
def _start(c, c_scale, smallest, least, start, largest):  # type: ignore[no-untyped-def]
    """Values and exponents of a row of C; its zeros have the exponent `least`."""
    for n in range(len(c)):
        start[n] = np.float64(c[n]) * c_scale
        largest[n] = larger(exponent(start[n], smallest), least)


@compiled
def _finish(total, largest, kept_bits, result, d):  # type: ignore[no-untyped-def]
    """The bits of a row of D, of sums in units of 2^(largest - kept_bits)."""
    exponent_bits, fraction_bits, to_nearest, most, overflow, nan, kept = result
    sign = 1 << (exponent_bits + fraction_bits)
    for n in range(len(d)):
        code = convert(total[n] * two_to(largest[n] - kept_bits), exponent_bits, fraction_bits, to_nearest, most, overflow, nan)
        d[n] = plus_zero(code & kept if code != nan else code, sign)


# What float32 and int32 hold: products of operands with few bits, cut off in units that are neither too small nor too large
NARROW_UNIT, NARROW_EXPONENT = 126, 120  # the largest power of two that may be a unit, and the largest exponent of a term
F32 = (8, 23)  # bits of its exponent and fraction


@compiled
def _narrow(values, exponents, narrow):  # type: ignore[no-untyped-def]
    """Values (rows, columns) as float32; says whether they are the same, finite, and below 2^(exponent + 1)."""
    is_same = True
    for row in range(len(values)):
        for n in range(values.shape[1]):
            value = values[row, n]
            narrow[row, n] = value
            is_same &= (abs(value) < two_to(larger(np.int64(exponents[row, n]), -1000) + 1)) & (np.float64(narrow[row, n]) == value)
    return is_same


@compiled
def _align(a_exponent, b_exponent, index, largest):  # type: ignore[no-untyped-def]
    """The exponents of a row of C, `largest`, become those of all terms: a row of A (S,), B (K, N), the K of A's elements. S is a multiple of 4: four
    terms at a time spare most of the traffic of partial results."""
    for s in range(0, len(a_exponent), 4):
        k0, k1, k2, k3 = index[s], index[s + 1], index[s + 2], index[s + 3]
        a0, a1, a2, a3 = a_exponent[s], a_exponent[s + 1], a_exponent[s + 2], a_exponent[s + 3]
        for n in range(len(largest)):
            # int16, so that 32 of them go into a register
            first = larger(np.int16(a0 + b_exponent[k0, n]), np.int16(a1 + b_exponent[k1, n]))
            second = larger(np.int16(a2 + b_exponent[k2, n]), np.int16(a3 + b_exponent[k3, n]))
            largest[n] = larger(largest[n], larger(first, second))


@compiled
def _is_near(largest, start, least):  # type: ignore[no-untyped-def]
    """Are the exponents of a row, and its values of C, neither too small nor too large for `_narrow_sum`?"""
    low, high, is_small = largest[0], largest[0], True
    for n in range(len(largest)):
        low, high = min(low, largest[n]), max(high, largest[n])
    for n in range(len(start)):
        is_small &= abs(start[n]) < 2.0 ** (NARROW_EXPONENT + 1)
    return low >= least and high <= NARROW_EXPONENT and is_small


@compiled
def _sum(a, b, index, start, unit, total):  # type: ignore[no-untyped-def]
    """`fused` of a row of D in its units: a row of A (S,), B (K, N), the K of A's elements, the values of C."""
    for n in range(len(total)):
        total[n] = cut(start[n], unit[n])
    for s in range(0, len(a), 4):
        k0, k1, k2, k3 = index[s], index[s + 1], index[s + 2], index[s + 3]
        a0, a1, a2, a3 = a[s], a[s + 1], a[s + 2], a[s + 3]
        for n in range(len(total)):
            first = cut(a0 * b[k0, n], unit[n]) + cut(a1 * b[k1, n], unit[n])
            second = cut(a2 * b[k2, n], unit[n]) + cut(a3 * b[k3, n], unit[n])
            total[n] += first + second


@compiled
def _narrow_sum(a, b, index, start, unit, total, narrow_unit, parts):  # type: ignore[no-untyped-def]
    """The same of A and B in float32, of which a register holds twice as many. Products are exact there, but for some below 2^-126, of which nothing is left
    in these units; a multiple by a power of two is exact; and what is cut off, and its sum, is an int32."""
    for n in range(len(total)):
        parts[n], narrow_unit[n] = 0, unit[n]
    for s in range(0, len(a), 4):
        k0, k1, k2, k3 = index[s], index[s + 1], index[s + 2], index[s + 3]
        a0, a1, a2, a3 = a[s], a[s + 1], a[s + 2], a[s + 3]
        for n in range(len(total)):
            scale = narrow_unit[n]
            first = np.int32(a0 * b[k0, n] * scale) + np.int32(a1 * b[k1, n] * scale)
            second = np.int32(a2 * b[k2, n] * scale) + np.int32(a3 * b[k3, n] * scale)
            parts[n] += np.int32(first + second)
    for n in range(len(total)):
        total[n] = cut(start[n], unit[n]) + np.float64(parts[n])


@compiled
def _finish_f32(total, largest, kept_bits, kept, d):  # type: ignore[no-untyped-def]
    """`_finish` of sums that are zero or normal numbers of float32, cut off to it: a float64 has the same bits, and more behind them."""
    for n in range(len(d)):
        word = np.float64(total[n] * two_to(largest[n] - kept_bits)).view(np.int64)
        code = ((word & 0x7FFFFFFFFFFFFFFF) >> 29) - (896 << 23)
        d[n] = (code | (word >> 32 & 0x80000000)) & kept if total[n] != 0 else 0


@compiled
def _tile(  # type: ignore[no-untyped-def]
    a, a_exponent, b, b_exponent, index, c, c_scale, adds, d, row, column, smallest, kept_bits, zero_exponent, result
):
    """`fused` and `convert` of a tile: of A (M, S) and B (K, N), of C, nothing where it not `adds`, and into D (rows, columns) from a row and a column on."""
    lanes, least = b.shape[1], kept_bits - NARROW_UNIT
    largest, start, unit, total = np.empty(lanes, np.int16), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    narrow_a, narrow_b = np.empty(a.shape, np.float32), np.empty(b.shape, np.float32)
    narrow_unit, parts, nothing = np.empty(lanes, np.float32), np.empty(lanes, np.int32), np.zeros(lanes, np.float32)
    # A product is less than four times what its exponent says: of so many the sum is an int32.
    is_narrow = a.shape[1] << (kept_bits + 2) <= 1 << 31 and _narrow(a, a_exponent, narrow_a) and _narrow(b, b_exponent, narrow_b)
    is_f32 = result[0] == F32[0] and result[1] == F32[1] and not result[2]
    for m in range(len(a)):
        out = d[row + m, column : column + lanes]
        if adds:
            _start(c[row + m, column : column + lanes], c_scale, smallest, zero_exponent, start, largest)
        else:
            _start(nothing, 1.0, smallest, zero_exponent, start, largest)
        _align(a_exponent[m], b_exponent, index[m], largest)
        for n in range(lanes):
            unit[n] = two_to(kept_bits - largest[n])
        is_near = is_narrow and _is_near(largest, start, least)
        if is_near:
            _narrow_sum(narrow_a[m], narrow_b, index[m], start, unit, total, narrow_unit, parts)
        else:
            _sum(a[m], b, index[m], start, unit, total)
        if is_near and is_f32:
            _finish_f32(total, largest, kept_bits, result[6], out)
        else:
            _finish(total, largest, kept_bits, result, out)


@compiled
def float_tiles(a, a_exponent, b, b_exponent, c, c_scale, smallest, index, kept_bits, zero_exponent, result, d):  # type: ignore[no-untyped-def]
    """`fused` and `convert` of every element of D (tiles, M, N): a (tiles, M, S), b (tiles, K, N), c (tiles, M, N), index (M, S) of K.

    `smallest` is the exponent of C's subnormals, S a multiple of 4.
    """
    for n in range(d.shape[0]):
        _tile(a[n], a_exponent[n], b[n], b_exponent[n], index, c[n], c_scale, True, d[n], 0, 0, smallest, kept_bits, zero_exponent, result)


@compiled
def float_sums(  # type: ignore[no-untyped-def]
    a, a_exponent, which_a, b, b_exponent, which_b, index, c, d, where, adds, smallest, kept_bits, zero_exponent, result
):
    """`float_tiles` of accumulators that stay where they are: `c` and `d` (some, rows, columns) are the same bits. Tile t adds a product of A `which_a[t]`
    (some, M, S) and B `which_b[t]` (some, K, N) to the M x N of D that begin at `where[t]` (which, row, column), or writes it there where `adds[t]` is False."""
    for n in range(len(where)):
        now_a, now_b, now_d = which_a[n], which_b[n], where[n, 0]
        _tile(
            a[now_a], a_exponent[now_a], b[now_b], b_exponent[now_b], index, c[now_d], 1.0, adds[n], d[now_d], where[n, 1], where[n, 2],
            smallest, kept_bits, zero_exponent, result,
        )  # fmt: skip


@compiled
def grouped_tiles(  # type: ignore[no-untyped-def]
    a, b, a_scale, a_scale_exponent, b_scale, b_scale_exponent, c, c_scale, smallest, index, kept_bits, zero_exponent, result, d
):
    """`fused` of `group`s and `convert` of every element; the scales are (tiles, M, groups) and (tiles, groups, N), groups follow one another.

    `a` and `b` are 4-bit elements times 2, int16: whole numbers up to 12, whose products and sums fit too; `a_scale` makes up for it.
    """
    lanes, groups = d.shape[2], a_scale.shape[2]
    size = a.shape[2] // groups
    largest, start, unit, total = np.empty(lanes, np.int16), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    terms, whole, some = np.empty((groups, lanes)), np.empty(lanes, np.int16), np.empty(lanes, np.int16)
    for tile in range(d.shape[0]):
        for m in range(d.shape[1]):
            _start(c[tile, m], c_scale, smallest, zero_exponent, start, largest)
            for group in range(groups):
                whole[:], some[:] = 0, 0
                for s in range(group * size, group * size + size, 4):
                    k0, k1, k2, k3 = index[m, s], index[m, s + 1], index[m, s + 2], index[m, s + 3]
                    a0, a1, a2, a3 = a[tile, m, s], a[tile, m, s + 1], a[tile, m, s + 2], a[tile, m, s + 3]
                    for n in range(lanes):
                        p0, p1 = np.int16(a0 * b[tile, k0, n]), np.int16(a1 * b[tile, k1, n])
                        p2, p3 = np.int16(a2 * b[tile, k2, n]), np.int16(a3 * b[tile, k3, n])
                        whole[n] += np.int16(np.int16(p0 + p1) + np.int16(p2 + p3))
                        some[n] |= p0 | p1 | p2 | p3
                scale, scale_exponent = a_scale[tile, m, group], a_scale_exponent[tile, m, group]
                for n in range(lanes):
                    terms[group, n] = whole[n] * (scale * b_scale[tile, group, n])
                    if some[n] != 0:
                        largest[n] = larger(largest[n], scale_exponent + b_scale_exponent[tile, group, n])
            for n in range(lanes):
                unit[n] = two_to(kept_bits - largest[n])
                total[n] = cut(start[n], unit[n])
            for group in range(groups):
                for n in range(lanes):
                    total[n] += cut(terms[group, n], unit[n])
            _finish(total, largest, kept_bits, result, d[tile, m])


@compiled
def nothing_cut(a, a_exponent, b, b_exponent, c, c_scale, smallest, index, kept_bits, zero_exponent, exponent_bits, fraction_bits, certain):  # type: ignore[no-untyped-def]
    """Where no term, nor the sum, has bits that are cut off in a result of that format; arguments as of `float_tiles`."""
    for tile in range(certain.shape[0]):
        for m in range(certain.shape[1]):
            for n in range(certain.shape[2]):
                start = np.float64(c[tile, m, n]) * c_scale
                largest = larger(exponent(start, smallest), zero_exponent)
                for s in range(a.shape[2]):
                    largest = larger(largest, a_exponent[tile, m, s] + b_exponent[tile, index[m, s], n])
                unit = two_to(kept_bits - largest)
                total = cut(start, unit)
                whole = total == start * unit
                for s in range(a.shape[2]):
                    term = a[tile, m, s] * b[tile, index[m, s], n]
                    whole = whole and cut(term, unit) == term * unit
                    total += cut(term, unit)
                value = total / unit
                last = two_to(fraction_bits - larger(exponent(value, 2 - (1 << (exponent_bits - 1))), zero_exponent))
                certain[tile, m, n] = whole and cut(value, last) == value * last


@compiled
def integer_tiles(a, b, c, index, d):  # type: ignore[no-untyped-def]
    """c plus the sums of products in int64, without rounding; shapes as of `float_tiles`."""
    for tile in range(d.shape[0]):
        for m in range(d.shape[1]):
            for n in range(d.shape[2]):
                d[tile, m, n] = c[tile, m, n]
            for s in range(a.shape[2]):
                factor, row = np.int64(a[tile, m, s]), b[tile, index[m, s]]
                for n in range(d.shape[2]):
                    d[tile, m, n] += factor * row[n]
