"""Descriptors drawn and classified in compiled loops, by the package's own formulas.

The array `archs` (int64, architectures x 28) has lowest bit, mask and shift of the six fields that `FIELDS` of `smem`
names, then the columns of `Column`. The columns of `modes` (int64, architectures x codes x 8) are those of `Mode`. The
columns of `operands` (int64, n x 6) are those of `Operand`.

If the behaviour of hardware is not known, `unknown` (bool, operands x codes x 2 x 8) is set. If LBO and SBO are used,
`used` (bool, operands x codes x 2) is set.
"""

from __future__ import annotations

import enum

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.layout.loops import absolute_chunk, k_major_chunk, mn_major_chunk, swizzle
from smemsim.core.spec.swizzles import MODES

__all__ = ["MOST_CHUNKS", "MOST_LINES", "Column", "Flag", "Mode", "Operand", "count_classes", "drawn_words", "flags_of_words"]


MOST_LINES, MOST_CHUNKS = 512, 64  # of one operand
SLOTS = 4096  # of the table in which equal addresses meet; twice as many as an operand has chunks


class Column(enum.IntEnum):
    """Columns of `archs` after the fields."""

    FIXED_MASK = 18
    FIXED = 19
    NEXT_CODE_BIT = 20  # bit 61, which is no part of wgmma's layout code; -1 where it is
    ABSOLUTE = 21  # is there an absolute mode?
    BEGIN = 22
    END = 23
    CODES = 24


class Mode(enum.IntEnum):
    """Columns of `modes`."""

    VALID = 0
    WIDTH = 1
    MASK = 2
    SHIFT = 3
    K_ROWS = 4
    IS_ATOM = 5
    NAMESAKE = 6  # width of the packed swizzle that has this code on the other generation; 0 for none


class Operand(enum.IntEnum):
    """Columns of `operands`."""

    ARCH = 0
    K_MAJOR = 1
    LINES = 2
    CHUNKS = 3


class Flag(enum.IntFlag):
    """A bit for each finding that a descriptor with an operand can have."""

    INVALID = 1
    UNKNOWN = 2
    BIT_61_ZERO = 1 << 2
    BIT_61 = 1 << 3
    ATOM = 1 << 4
    NAMESAKE = 1 << 5
    OTHER_SWIZZLE = 1 << 6
    FIXED = 1 << 7
    ABSOLUTE = 1 << 8
    BASE_IDLE = 1 << 9
    BASE_PHASE = 1 << 10
    BASE_WRONG = 1 << 11
    BYTES = 1 << 12
    BYTES_LUCK = 1 << 13
    FAULTS = 1 << 14
    ZEROS = 1 << 15
    LBO_ADDRESS = 1 << 16
    BELOW = 1 << 17
    ALIASES = 1 << 18
    UNUSED = 1 << 19
    TORN = 1 << 20  # sums of a line's and a chunk's part are not the formula's, or the XOR leaves its line: never


_FIXED_MASK, _FIXED, _NEXT, _ABSOLUTE, _BEGIN, _END, _CODES = (int(c) for c in Column)
_VALID, _WIDTH, _MASK, _SHIFT, _K_ROWS, _ATOM, _NAMESAKE = (int(c) for c in Mode)
_ARCH, _K_MAJOR, _LINES, _CHUNKS = (int(c) for c in Operand)
_INVALID, _UNKNOWN, _61_ZERO, _61, _ATOM_NOTE, _NAMED, _OTHER, _FIXED_BITS, _ABS, _IDLE, _PHASE, _WRONG, _BYTES, _LUCKY, _FAULTS, _ZEROS, _LBO, \
    _BELOW, _ALIASES, _UNUSED, _TORN = (int(f) for f in Flag)  # fmt: skip
# SBO of 8 packed rows of each swizzle of both generations
PACKED = tuple(8 * m.width for m in MODES.values() if m.wgmma_code)


@compiled
def mixed(word):  # type: ignore[no-untyped-def]
    """Steele, Lea and Flood's 64-bit finalizer: neighbouring numbers come out unrelated."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def number(key, case, draw):  # type: ignore[no-untyped-def]
    """63 random bits: those of a draw of a case, whatever came before."""
    x = key + np.uint64(case * 16 + draw) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed(x) >> np.uint64(1))


@compiled
def placed(archs, arch, field, value):  # type: ignore[no-untyped-def]
    """Bits of a field, of a value in bytes."""
    low, mask, shift = archs[arch, 3 * field], archs[arch, 3 * field + 1], archs[arch, 3 * field + 2]
    return ((value >> shift) & mask) << low


@compiled
def taken(archs, arch, field, word):  # type: ignore[no-untyped-def]
    """Value of a field, in bytes."""
    return ((word >> archs[arch, 3 * field]) & archs[arch, 3 * field + 1]) << archs[arch, 3 * field + 2]


@compiled
def draw(key, case, archs, modes, operands):  # type: ignore[no-untyped-def]
    """(operand, word): one of four words is any 64 bits, the others are nearly right."""
    operand = number(key, case, 0) % len(operands)
    arch, how = operands[operand, _ARCH], number(key, case, 1)
    anything = np.int64(mixed(key ^ np.uint64(number(key, case, 2))))
    if how % 4 == 0:
        return operand, anything
    code = number(key, case, 3) % archs[arch, _CODES]
    while not modes[arch, code, _VALID]:
        code = (code + 1) % archs[arch, _CODES]
    width, end = modes[arch, code, _WIDTH], archs[arch, _END]
    rows = operands[operand, _LINES]
    step = (1024, 128, 32, 16)[number(key, case, 4) % 4]
    start = number(key, case, 5) % end // step * step
    if how // 4 % 4 == 0:  # near the end of the window
        start = (end - 16 - number(key, case, 5) % 8192) // step * step
    sbo = modes[arch, code, _K_ROWS] * width * (1 + (number(key, case, 6) % 8) * (how // 16 % 4 == 0))
    lbo = (0, 16, rows * width, rows * width, 8 * width, 16 * (number(key, case, 7) % 4096))[number(key, case, 8) % 6]
    if how // 64 % 8 == 0:
        sbo = 16 * (number(key, case, 9) % 4096)
    if how // 512 % 8 == 0:
        sbo *= 16
    if how // 4096 % 8 == 0:
        lbo *= 16
    if how // 32768 % 8 == 0:
        lbo, sbo = sbo, lbo
    base = number(key, case, 10) % 8 if how // (1 << 18) % 4 == 0 else 0
    word = placed(archs, arch, 0, start) | placed(archs, arch, 1, lbo) | placed(archs, arch, 2, sbo) | placed(archs, arch, 3, base)
    word |= placed(archs, arch, 4, code) | archs[arch, _FIXED]
    if how // (1 << 20) % 16 == 0:
        word |= placed(archs, arch, 5, 1)
    if how // (1 << 24) % 4 == 0:
        word ^= np.int64(1) << (number(key, case, 11) % 64)
    return operand, word


@compiled
def reach(start, lbo, sbo, base, absolute, mode, k_major, lines, chunks, of_line, of_chunk, slots, stamps, stamp):  # type: ignore[no-untyped-def]
    """(last byte, what must not lie past the window's end, is some chunk another one's bytes?) of an operand.

    A linear address is a sum of what its line and what its chunk adds. Equal addresses are found in a table of `slots`
    whose entries count where their stamp is this one. Without `slots` they are not looked for.
    """
    width, mask, shift, k_rows = mode[_WIDTH], mode[_MASK], mode[_SHIFT], mode[_K_ROWS]
    for line in range(lines):
        if not k_major:
            of_line[line] = mn_major_chunk(start, lbo, sbo, width, k_rows, 0, line)
        elif absolute:
            of_line[line] = absolute_chunk(start, lbo, sbo, line, 0)
        else:
            of_line[line] = k_major_chunk(start, lbo, sbo, width, line, 0)
    for chunk in range(chunks):
        if not k_major:
            of_chunk[chunk] = mn_major_chunk(start, lbo, sbo, width, k_rows, chunk, 0) - start
        elif absolute:
            of_chunk[chunk] = absolute_chunk(start, lbo, sbo, 0, chunk) - start
        else:
            of_chunk[chunk] = k_major_chunk(start, lbo, sbo, width, 0, chunk) - start
    far, most, alias = 0, 0, False
    for line in range(lines):
        for chunk in range(chunks):
            far = max(far, swizzle(of_line[line] + of_chunk[chunk], base, mask, shift))
    for line in range(0, lines, 8):
        for chunk in range(chunks):
            most = max(most, of_line[line] + of_chunk[chunk] + width)
    if len(slots):
        for line in range(lines):
            for chunk in range(chunks):
                address = swizzle(of_line[line] + of_chunk[chunk], base, mask, shift)
                slot = np.uintp(((address >> 4) * np.int64(2654435761) >> 12) & (SLOTS - 1))
                while stamps[slot] == stamp and slots[slot] != address:
                    slot = (slot + np.uintp(1)) & np.uintp(SLOTS - 1)
                if stamps[slot] == stamp:
                    alias = True
                    break
                stamps[slot], slots[slot] = stamp, address
            if alias:
                break
    return far + 15, most, alias


@compiled
def torn(start, lbo, sbo, base, absolute, mode, k_major, line, chunk, of_line, of_chunk):  # type: ignore[no-untyped-def]
    """Does the formula of one whole chunk differ from the sum, or the XOR leave its
    128-byte line or not undo itself?
    """
    width, mask, shift = mode[_WIDTH], mode[_MASK], mode[_SHIFT]
    if not k_major:
        linear = mn_major_chunk(start, lbo, sbo, width, mode[_K_ROWS], chunk, line)
    elif absolute:
        linear = absolute_chunk(start, lbo, sbo, line, chunk)
    else:
        linear = k_major_chunk(start, lbo, sbo, width, line, chunk)
    address = swizzle(linear, base, mask, shift)
    return linear != of_line[line] + of_chunk[chunk] or address >> 7 != linear >> 7 or swizzle(address, base, mask, shift) != linear


@compiled
def flags(word, operand, archs, modes, operands, unknown, used, of_line, of_chunk, slots, stamps, stamp, spot):  # type: ignore[no-untyped-def]
    """The findings about one descriptor as a set of `Flag` bits; `spot` picks the chunk that is looked at twice."""
    arch, k_major = operands[operand, _ARCH], operands[operand, _K_MAJOR] != 0
    lines, chunks = operands[operand, _LINES], operands[operand, _CHUNKS]
    start, lbo, sbo = taken(archs, arch, 0, word), taken(archs, arch, 1, word), taken(archs, arch, 2, word)
    base, code, absolute = taken(archs, arch, 3, word), taken(archs, arch, 4, word), taken(archs, arch, 5, word) != 0
    mode, begin, end = modes[arch, code], archs[arch, _BEGIN], archs[arch, _END]
    valid, width, mask = mode[_VALID] != 0, mode[_WIDTH], mode[_MASK]
    flags = 0
    if word & archs[arch, _FIXED_MASK] != archs[arch, _FIXED]:
        flags |= _FIXED_BITS
    if absolute and not archs[arch, _ABSOLUTE]:
        flags |= _ABS
    if not valid:
        flags |= _INVALID
    elif archs[arch, _NEXT] >= 0 and (word >> archs[arch, _NEXT]) & 1:
        flags |= _61 if mask else _61_ZERO
    elif mode[_ATOM]:
        flags |= _ATOM_NOTE
    if k_major and mask and sbo != 8 * width:
        for packed in PACKED:
            if sbo == packed:
                flags |= _NAMED if 8 * mode[_NAMESAKE] == packed else _OTHER
    if base and valid:
        if not base & mask:
            flags |= _IDLE
        else:
            flags |= _PHASE if base & mask == (start >> 7) & mask else _WRONG
    nobody_knows = unknown[operand, code, int(absolute), base]
    far, most = start, start + 16
    if nobody_knows:
        flags |= _UNKNOWN
    else:
        far, most, alias = reach(start, lbo, sbo, base, absolute, mode, k_major, lines, chunks, of_line, of_chunk, slots, stamps, stamp)
        if alias:
            flags |= _ALIASES
        if torn(start, lbo, sbo, base, absolute, mode, k_major, spot % lines, (spot >> 16) % chunks, of_line, of_chunk):
            flags |= _TORN
    if most > end:
        flags |= _FAULTS
    elif far >= end:
        flags |= _ZEROS
    if absolute and archs[arch, _ABSOLUTE] and lbo < begin:
        flags |= _LBO
    if 0 < start < begin:
        flags |= _BELOW
    if valid and not absolute:
        for field in range(1, 3):
            value = lbo if field == 1 else sbo
            raw = value >> 4
            if value == 0 or raw % 16:
                continue
            less = start
            if not nobody_knows:
                other = raw if field == 1 else lbo, raw if field == 2 else sbo
                less, _, _ = reach(
                    start, other[0], other[1], base, absolute, mode, k_major, lines, chunks, of_line, of_chunk, slots[:0], stamps, stamp
                )
            if far >= end > less:
                flags |= _BYTES
            elif (value >= 1 << 16 and raw % 128 == 0) or (field == 2 and k_major and mask and raw == 8 * width):
                flags |= _LUCKY
        if (not used[operand, code, 0] and lbo not in (0, 16)) or (not used[operand, code, 1] and sbo not in (0, 16)):
            flags |= _UNUSED
    return flags


@compiled
def flags_of_words(words, of, archs, modes, operands, unknown, used, spots, out):  # type: ignore[no-untyped-def]
    """`flags` of many words with an operand each."""
    of_line, of_chunk = np.empty(MOST_LINES, np.int64), np.empty(MOST_CHUNKS, np.int64)
    slots, stamps = np.zeros(SLOTS, np.int64), np.full(SLOTS, -1, np.int64)
    for i in range(len(words)):
        out[i] = flags(words[i], of[i], archs, modes, operands, unknown, used, of_line, of_chunk, slots, stamps, i, spots[i])


@compiled
def drawn_words(key, cases, archs, modes, operands, words, of, spots):  # type: ignore[no-untyped-def]
    """The words and operands of some cases of a chunk, and where each is looked at twice."""
    for i in range(len(cases)):
        of[i], words[i] = draw(key, cases[i], archs, modes, operands)
        spots[i] = number(key, cases[i], 12)


@compiled
def count_classes(flags_, of, operands, first, classes, counts, firsts):  # type: ignore[no-untyped-def]
    """Count cases by class. The number is counts[architecture, class]. The first case is firsts[architecture, class],
    or -1. The number of the first case is `first`.

    `classes` are masks of flags, the gravest first. A case belongs to the first class with one of its flags, or to the
    last class.
    """
    for i in range(len(flags_)):
        which = 0
        while which < len(classes) and not flags_[i] & classes[which]:
            which += 1
        arch = operands[of[i], _ARCH]
        counts[arch, which] += 1
        if firsts[arch, which] < 0:
            firsts[arch, which] = first + i
