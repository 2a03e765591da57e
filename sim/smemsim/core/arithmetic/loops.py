"""The dot product compiled: the steps of `dot`, N results side by side."""

from __future__ import annotations

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.arithmetic import dot as _dot

__all__ = [
    "decode_all",
    "encode_all",
    "exponent_all",
    "float_sums",
    "grouped_tiles",
    "integer_tiles",
    "look_up",
    "nothing_cut",
    "numbers_of_halves",
    "numbers_of_words",
    "transposed",
]


NOTHING, DOUBLE_FRACTION, NO_SPECIALS, ONLY_NAN, IEEE = _dot.NOTHING, _dot.DOUBLE_FRACTION, _dot.NO_SPECIALS, _dot.ONLY_NAN, _dot.IEEE
two_to, larger, cut = compiled(_dot.two_to), compiled(_dot.larger), compiled(_dot.cut)
decode, exponent = compiled(_dot.decode), compiled(_dot.exponent)
convert, plus_zero = compiled(_dot.convert), compiled(_dot.plus_zero)


@compiled(reads="bits")
def decode_all(bits, exponent_bits, fraction_bits, specials, values):  # type: ignore[no-untyped-def]
    """Values of raw bits; both flat."""
    for i in range(len(bits)):
        values[i] = decode(np.int64(bits[i]), exponent_bits, fraction_bits, specials)


@compiled
def exponent_all(values, smallest, exponents):  # type: ignore[no-untyped-def]
    """Exponents of values; both flat."""
    for i in range(len(values)):
        exponents[i] = exponent(values[i], smallest)


INFINITE, NO_SIGN = 0x7F800000, 0x7FFFFFFF  # words of float32: infinity, and what is left without the sign
SPECIAL = 128  # the exponent of float32 that infinities and NaNs have


@compiled
def _exponent_of_word(word, smallest, special):  # type: ignore[no-untyped-def]
    """`exponent` of a float32 by its word, in whole numbers alone; infinities and NaNs have `special`."""
    size = np.int32(word & NO_SIGN)
    found = larger(np.int32((size >> 23) - 127), np.int32(smallest))
    found = np.int32(special) if size >= INFINITE else found
    return np.int32(NOTHING) if size == 0 else found


@compiled(reads="bits")
def numbers_of_words(bits, shift, mask, smallest, values, exponents):  # type: ignore[no-untyped-def]
    """Values and exponents of float32, or of its upper parts, bf16 and tf32; all flat."""
    for i in range(len(bits)):
        word = np.uint32(np.uint32(bits[i]) << np.uint32(shift)) & np.uint32(mask)
        values[i] = np.uint32(word).view(np.float32)
        exponents[i] = _exponent_of_word(np.int32(word), smallest, NOTHING)


@compiled(reads="bits")
def numbers_of_halves(bits, smallest, values, exponents):  # type: ignore[no-untyped-def]
    """Values and exponents of f16; all flat."""
    for i in range(len(bits)):
        word = np.int32(bits[i])
        size = np.int32(np.int32(word & 0x7FFF) << 13)
        scaled = np.float32(size.view(np.float32) * np.float32(2.0**112))  # 127 - 15: also of subnormals
        plain = np.int32(size | INFINITE) if size >= 0x7C00 << 13 else scaled.view(np.int32)
        exponents[i] = _exponent_of_word(plain, smallest, NOTHING)
        values[i] = np.int32(plain | np.int32(np.int32(word >> 15) << 31)).view(np.float32)


@compiled(reads="bits")
def transposed(bits, out):  # type: ignore[no-untyped-def]
    """The rows of some matrices as columns: (some, rows, columns), (some, columns, rows)."""
    for one in range(len(bits)):
        for row in range(bits.shape[1]):
            for column in range(bits.shape[2]):
                out[one, column, row] = bits[one, row, column]


@compiled(reads="bits")
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


@compiled
def _align(a_exponent, b_exponent, index, largest):  # type: ignore[no-untyped-def]
    """The exponents of a row of C, `largest`, become those of all terms: a row of A (S,), B (K, N), the K of A's
    elements. S is a multiple of 4: four terms at a time spare most of the traffic of partial results.
    """
    for s in range(0, len(a_exponent), 4):
        k0, k1, k2, k3 = index[s], index[s + 1], index[s + 2], index[s + 3]
        a0, a1, a2, a3 = a_exponent[s], a_exponent[s + 1], a_exponent[s + 2], a_exponent[s + 3]
        for n in range(len(largest)):
            # int16, so that 32 of them go into a register
            first = larger(np.int16(a0 + b_exponent[k0, n]), np.int16(a1 + b_exponent[k1, n]))
            second = larger(np.int16(a2 + b_exponent[k2, n]), np.int16(a3 + b_exponent[k3, n]))
            largest[n] = larger(largest[n], larger(first, second))


@compiled
def _sum(a, b, index, start, unit, total):  # type: ignore[no-untyped-def]
    """`fused` of a row of D in its units: a row of A (S,), B (K, N), the K of A's elements, the values of C."""
    for n in range(len(total)):
        total[n] = cut(start[n], unit[n])
    for s in range(0, len(a), 4):
        k0, k1, k2, k3 = index[s], index[s + 1], index[s + 2], index[s + 3]
        a0, a1, a2, a3 = np.float64(a[s]), np.float64(a[s + 1]), np.float64(a[s + 2]), np.float64(a[s + 3])
        for n in range(len(total)):
            first = cut(a0 * b[k0, n], unit[n]) + cut(a1 * b[k1, n], unit[n])
            second = cut(a2 * b[k2, n], unit[n]) + cut(a3 * b[k3, n], unit[n])
            total[n] += first + second


# ---- The same in float32 and int32: a register holds twice as many. Products of operands with few bits are exact in
# float32, except for some below 2^-126. A scale by a power of two avoids those. The bits that are cut off, and their
# sum, are an int32. Rows for which this does not hold use the loops above. Everything is flat and indexed by places
# (uintp): a slice costs as much as a dozen terms. int32 is kept throughout.


NARROW_UNIT, NARROW_SUM = 126, 127  # the largest power of two that may be a unit, and one that sums stay below
NO_TERM = NOTHING // 2  # exponents below are those of zeros, also added to others
# results that are made of such sums: bits of exponent and fraction, and are they the nearest ones
F32, F16 = (8, 23, False), (5, 10, True)
TERMS = 8  # that are added at once: their sums stay in registers
NARROW_BITS = 25  # with so many bits kept, and two more of a product, the sum of TERMS is an int32
# from row to row of B as it lies here; a number that the compiler knows, so that it need not ask whether rows overlap
PITCH = 256
PAGE = 4096  # bytes: places of loads and stores are compared by their lower 12 bits
R1, R2, R3, R4, R5, R6, R7 = (np.uintp(PITCH * n) for n in range(1, TERMS))


@compiled
def _scratch(depth):  # type: ignore[no-untyped-def]
    """Room for B, its exponents, and of a row: largest exponents, units and sums.

    Each begins a cache line: a register of 64 bytes that lies in two lines is loaded twice. A load waits for an earlier
    store if the lower 12 bits of their addresses are equal. So a row lies half a `PITCH` away from B, in those bits.
    """
    room = np.zeros(depth * PITCH * 6 + 5 * PAGE, np.uint8)
    begin = -room.ctypes.data % PAGE
    of_b = room[begin : begin + depth * PITCH * 4].view(np.float32)
    begin += depth * PITCH * 4
    each_of_b = room[begin : begin + depth * PITCH * 2].view(np.int16)
    each_of_b[:] = NOTHING
    begin += (depth * PITCH * 2 + PAGE - 1) // PAGE * PAGE
    largest = room[begin + PITCH : begin + PITCH * 3].view(np.int16)
    unit = room[begin + PITCH * 6 : begin + PITCH * 10].view(np.float32)
    total = room[begin + PITCH * 10 : begin + PITCH * 14].view(np.int32)
    return of_b, each_of_b, largest, unit, total


@compiled
def _copy(values, exponents, begin, count, to, each_to, at):  # type: ignore[no-untyped-def]
    """Numbers, from a place on, as float32 to a place. Is each finite there, and the same?"""
    is_same, begin, at = True, np.uintp(begin), np.uintp(at)
    for n in range(count):
        value = values[begin + np.uintp(n)]
        to[at + np.uintp(n)], each_to[at + np.uintp(n)] = value, exponents[begin + np.uintp(n)]
        is_same &= (np.float64(np.float32(value)) == value) & (value - value == 0)
    return is_same


@compiled
def _pack_a(a, a_exponent, begin, index, depth, to, each_to):  # type: ignore[no-untyped-def]
    """A (M, S), which begins at a place, as float32 at its K, with zeros in between. Is
    each finite, and alone there?
    """
    to[:], each_to[:], is_narrow = 0, NOTHING, True
    for m in range(len(index)):
        for s in range(index.shape[1]):
            at, value, each = m * depth + index[m, s], a[begin], a_exponent[begin]
            begin += 1
            if value != 0:
                is_narrow &= (to[at] == 0) & (np.float64(np.float32(value)) == value) & (value - value == 0)
                to[at], each_to[at] = value, each
    return is_narrow


@compiled
def _is_dense(index, depth):  # type: ignore[no-untyped-def]
    """Does each row of A have all K in their order?"""
    is_so = index.shape[1] == depth
    for m in range(len(index)):
        for s in range(index.shape[1]):
            is_so &= index[m, s] == s
    return is_so


@compiled
def _pack_b(b, b_exponent, begin, pitch, count, width, to, each_to):  # type: ignore[no-untyped-def]
    """So many rows of columns of B, which begin at a place, as float32. Is each finite?"""
    is_narrow = True
    for k in range(count):
        is_narrow &= _copy(b, b_exponent, begin + k * pitch, width, to, each_to, k * PITCH)
    return is_narrow


@compiled
def _narrow_start(c, c_at, width, smallest, largest):  # type: ignore[no-untyped-def]
    """Exponents of a row of C, float32."""
    c_at = np.uintp(c_at)
    for n in range(width):
        largest[n] = _exponent_of_word(np.float32(c[c_at + np.uintp(n)]).view(np.int32), smallest, SPECIAL)


@compiled
def _eight(a, at):  # type: ignore[no-untyped-def]
    """Eight elements from a place on."""
    return a[at], a[at + 1], a[at + 2], a[at + 3], a[at + 4], a[at + 5], a[at + 6], a[at + 7]


@compiled
def _narrow_align(a, at, b, b_at, width, largest):  # type: ignore[no-untyped-def]
    """`_align` of eight terms of a row of A and a column of B, which begin at places."""
    a0, a1, a2, a3, a4, a5, a6, a7 = _eight(a, at)
    b_at = np.uintp(b_at)
    for n in range(width):
        k = b_at + np.uintp(n)
        first = larger(np.int16(a0 + b[k]), np.int16(a1 + b[k + R1]))
        second = larger(np.int16(a2 + b[k + R2]), np.int16(a3 + b[k + R3]))
        third = larger(np.int16(a4 + b[k + R4]), np.int16(a5 + b[k + R5]))
        fourth = larger(np.int16(a6 + b[k + R6]), np.int16(a7 + b[k + R7]))
        largest[n] = larger(largest[n], larger(larger(first, second), larger(third, fourth)))


@compiled
def _units(largest, width, kept_bits, zero_exponent, unit):  # type: ignore[no-untyped-def]
    """The units of a row, float32, of its largest exponents. Are all within what float32 has? Where all terms are zeros
    any unit will do.
    """
    least, highest = kept_bits - NARROW_UNIT, np.int32(NARROW_SUM - 31 + kept_bits)  # a sum has at most 31 bits
    is_near = True
    floor, lowest = np.int32(NO_TERM if zero_exponent >= least else least), np.int32(larger(least, zero_exponent))
    top = np.int32(127 + kept_bits)
    for n in range(width):
        each = np.int32(largest[n])
        is_near &= bool((each <= highest) & ((each >= floor) | (each < NO_TERM)))
        unit[n] = np.int32(np.int32(top - larger(each, lowest)) << np.int32(23)).view(np.float32)
    return is_near


@compiled
def _eight_terms(row, b, at, unit):  # type: ignore[no-untyped-def]
    """The sum of eight terms in units: of elements of a row of A, and a column of B from a place on."""
    a0, a1, a2, a3, a4, a5, a6, a7 = row
    first = np.int32(a0 * b[at] * unit) + np.int32(a1 * b[at + R1] * unit)
    second = np.int32(a2 * b[at + R2] * unit) + np.int32(a3 * b[at + R3] * unit)
    third = np.int32(a4 * b[at + R4] * unit) + np.int32(a5 * b[at + R5] * unit)
    fourth = np.int32(a6 * b[at + R6] * unit) + np.int32(a7 * b[at + R7] * unit)
    return np.int32(np.int32(first + second) + np.int32(third + fourth))


@compiled
def _narrow_first(a, at, b, width, unit, c, c_at, adds, total):  # type: ignore[no-untyped-def]
    """A row of C in units, if it counts, and the first eight terms of a row of A. These always fit into int32: C has at
    most NARROW_BITS + 1 bits, and each term one more.
    """
    row, c_at = _eight(a, at), np.uintp(c_at)
    for n in range(width):
        more = _eight_terms(row, b, np.uintp(n), unit[n])
        total[n] = np.int32(more + np.int32(c[c_at + np.uintp(n)] * unit[n])) if adds else more


@compiled
def _narrow_sum(a, at, b, b_at, width, unit, total):  # type: ignore[no-untyped-def]
    """Add eight terms of a row of A and a column of B, which begin at places. Does each sum fit?"""
    row, b_at, over = _eight(a, at), np.uintp(b_at), np.int32(0)
    for n in range(width):
        before, more = total[n], _eight_terms(row, b, b_at + np.uintp(n), unit[n])
        after = np.int32(before + more)
        over = np.int32(over | (before ^ after) & (more ^ after))
        total[n] = after
    return over >= 0


@compiled
def _finish_f32(total, unit, width, kept, d, d_at):  # type: ignore[no-untyped-def]
    """The bits of a row of D of sums in units: normal numbers of float32, cut off to it, or +0."""
    d_at = np.uintp(d_at)
    for n in range(width):
        size = np.uint32(-total[n] if total[n] < 0 else total[n])
        nearest = np.float32(size)
        code = np.int32(nearest.view(np.int32) - np.int32(np.uint32(nearest) > size) + (127 << 23) - np.float32(unit[n]).view(np.int32))
        code = np.int32(code | (np.int32(total[n]) & ~NO_SIGN)) & np.int32(kept)
        d[d_at + np.uintp(n)] = np.uint32(code) if size != 0 else np.uint32(0)


@compiled
def _finish_f16(total, unit, width, d, d_at):  # type: ignore[no-untyped-def]
    """The same of the nearest f16, ties to even. A float32 on the way has its last bit set where bits are cut off: f16
    rounds it as it rounds the sum.
    """
    d_at = np.uintp(d_at)
    for n in range(width):
        size = np.uint32(-total[n] if total[n] < 0 else total[n])
        nearest = np.float32(size)
        back = np.uint32(nearest)
        odd = np.int32(nearest.view(np.int32) - np.int32(back > size)) | np.int32(back != size)
        word = np.int32(odd + (127 << 23) - np.float32(unit[n]).view(np.int32))
        # The exponent's bias is 127 in the one and 15 in the other; 13 bits of the fraction are rounded away. Beside 1
        # / 2 the last bit of a float32 is 2^-24.
        normal = np.int32(np.int32(word + 0xFFF + np.int32(np.int32(word >> 13) & 1)) >> 13) - (112 << 10)
        small = np.float32(word.view(np.float32) + np.float32(0.5)).view(np.int32) - (126 << 23)
        code = np.int32(normal if word >= 113 << 23 else small)
        code = np.int32(code if code <= 0x7BFF else 0x7C00)
        code = np.int32(code if size != 0 else 0)
        d[d_at + np.uintp(n)] = np.uint16(np.int32(code | 0x8000 if (total[n] < 0) & (code != 0) else code))


@compiled
def _narrow_rows(  # type: ignore[no-untyped-def]
    m, rows, operands, depth, room, c, d, d_at, pitch, width, adds, smallest, kept_bits, zero_exponent, result
):
    """Compute rows of D (flat, like C) from the m-th on, `pitch` places apart, in float32 and int32. Returns the first
    row that these types do not hold.
    """
    of_a, each_of_a, of_b, each_of_b = operands
    largest, unit, total = room
    while m < rows:
        at, a_at, is_near = d_at + m * pitch, m * depth, True
        if adds:
            _narrow_start(c, at, width, smallest, largest)
        else:
            largest[:] = NOTHING
        for s in range(0, depth, TERMS):
            _narrow_align(each_of_a, a_at + s, each_of_b, s * PITCH, width, largest)
        if not _units(largest, width, kept_bits, zero_exponent, unit):
            break
        _narrow_first(of_a, a_at, of_b, width, unit, c, at, adds, total)
        for s in range(TERMS, depth, TERMS):
            is_near &= _narrow_sum(of_a, a_at + s, of_b, s * PITCH, width, unit, total)
        if not is_near:
            break
        if result[2]:
            _finish_f16(total, unit, width, d, at)
        else:
            _finish_f32(total, unit, width, result[6], d, at)
        m += 1
    return m


# ---- Tiles


@compiled
def _wide_row(a, a_exponent, b, b_exponent, index, c, c_scale, smallest, kept_bits, zero_exponent, result, d):  # type: ignore[no-untyped-def]
    """A row of D, whatever it is made of."""
    lanes = len(d)
    largest, start, unit, total = np.empty(lanes, np.int16), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    _start(c, c_scale, smallest, zero_exponent, start, largest)
    _align(a_exponent, b_exponent, index, largest)
    for n in range(lanes):
        unit[n] = two_to(kept_bits - largest[n])
    _sum(a, b, index, start, unit, total)
    _finish(total, largest, kept_bits, result, d)


@compiled(reads="which_a which_b")
def float_sums(  # type: ignore[no-untyped-def]
    a, a_exponent, which_a, b, b_exponent, which_b, index, c, c_scale, d, where, adds, smallest, kept_bits, zero_exponent, result
):
    """`fused` and `convert` of tiles, in float32.

    The accumulators before and after are `c` and `d` (some, rows, columns). They may share memory. Tile t multiplies A
    `which_a[t]` (some, M, S) and B `which_b[t]` (some, K, N). It adds the product to the M x N elements from `where[t]`
    (which, row, column) on, or overwrites them if `adds[t]` is False. The K of A's elements is `index` (M, S), with S a
    multiple of 4. The exponent of C's subnormals is `smallest`.
    """
    rows, stored, k, columns = a.shape[1], a.shape[2], b.shape[1], b.shape[2]
    depth, form = (k + TERMS - 1) // TERMS * TERMS, (result[0], result[1], result[2])
    is_f32, is_f16, is_dense = form == F32, form == F16, _is_dense(index, depth)
    has_form = (is_f32 or is_f16) and c_scale == 1 and kept_bits <= NARROW_BITS
    of_a, each_of_a = np.empty(rows * depth, np.float32), np.empty(rows * depth, np.int16)
    of_b, each_of_b, largest, unit, total = _scratch(depth)
    operands, room = (of_a, each_of_a, of_b, each_of_b), (largest, unit, total)
    flat_a, flat_a_exponent, flat_b, flat_b_exponent = a.reshape(-1), a_exponent.reshape(-1), b.reshape(-1), b_exponent.reshape(-1)
    flat_c, flat_d, nothing = c.reshape(-1), d.reshape(-1), np.zeros(columns, np.float32)
    last_a, last_b, last_first, is_narrow_a, is_narrow_b = -1, -1, -1, False, False
    for t in range(len(where)):
        now_a, now_b = which_a[t], which_b[t]
        if has_form and now_a != last_a:
            begin, last_a = now_a * rows * stored, now_a
            if is_dense:
                is_narrow_a = _copy(flat_a, flat_a_exponent, begin, rows * stored, of_a, each_of_a, 0)
            else:
                is_narrow_a = _pack_a(flat_a, flat_a_exponent, begin, index, depth, of_a, each_of_a)
        for first in range(0, columns, PITCH):
            width = min(PITCH, columns - first)
            if has_form and (now_b != last_b or first != last_first):
                last_b, last_first = now_b, first
                is_narrow_b = _pack_b(flat_b, flat_b_exponent, now_b * k * columns + first, columns, k, width, of_b, each_of_b)
            begin, m = (where[t, 0] * d.shape[1] + where[t, 1]) * d.shape[2] + where[t, 2] + first, 0
            while m < rows:
                if is_narrow_a and is_narrow_b:
                    m = _narrow_rows(
                        m, rows, operands, depth, room, flat_c, flat_d, begin, d.shape[2], width, adds[t], smallest, kept_bits, zero_exponent, result
                    )  # fmt: skip
                if m < rows:
                    at, end = begin + m * d.shape[2], first + width
                    start = flat_c[at : at + width] if adds[t] else nothing[:width]
                    _wide_row(
                        a[now_a, m], a_exponent[now_a, m], b[now_b, :, first:end], b_exponent[now_b, :, first:end], index[m], start, c_scale, smallest,
                        kept_bits, zero_exponent, result, flat_d[at : at + width],
                    )  # fmt: skip
                    m += 1


@compiled(reads="c")
def grouped_tiles(  # type: ignore[no-untyped-def]
    a, b, a_scale, a_scale_exponent, b_scale, b_scale_exponent, c, c_scale, smallest, index, kept_bits, zero_exponent, result, d
):
    """`fused` of groups and `convert` of every element. The scales are (tiles, M, groups) and (tiles, groups, N);
    groups follow one another.

    `a` and `b` are 4-bit elements times 2, as int16: whole numbers up to 12. Their products and sums fit in int16, too.
    `a_scale` corrects the factor.
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
    """The elements for which no term, nor the sum, has bits that are cut off in a result of that format. Arguments are
    those of `float_sums`, one tile after the other.
    """
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


@compiled(reads="c")
def integer_tiles(a, b, c, index, d):  # type: ignore[no-untyped-def]
    """c plus the sums of products in int64, without rounding: a (tiles, M, S), b (tiles, K, N), c and d (tiles, M, N),
    index (M, S) of K.

    The products of one instruction, at most 256 of numbers of 8 bits, are an int32.
    """
    lanes, stored = d.shape[2], a.shape[2]
    total = np.empty(lanes, np.int32)
    for tile in range(d.shape[0]):
        for m in range(d.shape[1]):
            total[:] = 0
            for s in range(0, stored - 3, 4):
                k0, k1, k2, k3 = index[m, s], index[m, s + 1], index[m, s + 2], index[m, s + 3]
                a0, a1, a2, a3 = (
                    np.int32(a[tile, m, s]),
                    np.int32(a[tile, m, s + 1]),
                    np.int32(a[tile, m, s + 2]),
                    np.int32(a[tile, m, s + 3]),
                )
                for n in range(lanes):
                    first = np.int32(np.int32(a0 * b[tile, k0, n]) + np.int32(a1 * b[tile, k1, n]))
                    total[n] += np.int32(first + np.int32(np.int32(a2 * b[tile, k2, n]) + np.int32(a3 * b[tile, k3, n])))
            for s in range(stored // 4 * 4, stored):
                for n in range(lanes):
                    total[n] += np.int32(np.int32(a[tile, m, s]) * b[tile, index[m, s], n])
            for n in range(lanes):
                d[tile, m, n] = np.int64(c[tile, m, n]) + total[n]
