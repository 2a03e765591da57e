"""Which bits of a result can depend on uninitialised bits, for what the other operands hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.core.arithmetic.integers import INDEXED, PERMUTE_MODES, permute
from smemsim.core.ptx.module import Immediate, Instruction, Operand, Register, simd_selectors
from smemsim.run.register_types import bits_of, storage

__all__ = [
    "TABLES", "are_bytes_cut", "changing", "is_compared", "is_highest_known", "parts_of", "parts_of_video", "picked_bits", "spread", "trailing_zeros", "value_of",
]  # fmt: skip


TABLES = {"and": 0xC0, "not": 0x0F, "or": 0xFC, "xor": 0x3C}  # as lop3 has them: bit 4 a + 2 b + c is the result
_ONES = 0xFF


def changing(table: int, values: Sequence[np.ndarray], doubtful: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The bits of up to three words of each thread that change the result of a table of `lop3`. There is one array (n,)
    for each word, with these bits set.

    A bit counts if it changes the result for the present values of the other words, or for any value of their
    `doubtful` part. A `doubtful` part has rows (parts, n), of bytes or of bits.

    >>> word, known = np.array([0], np.uint32), np.zeros((4, 1), bool)
    >>> a, _ = changing(TABLES["and"], [word, np.array([0xFF00], np.uint32)], [~known, known])
    >>> hex(a[0])
    '0xff00'
    """
    kind = values[0].dtype
    unknown = [spread(marks, kind) for marks in doubtful]
    found = []
    for own in range(len(values)):
        others = [n for n in range(len(values)) if n != own]
        bits = np.zeros(len(values[0]), kind)
        for wanted in itertools.product((0, 1), repeat=len(others)):
            at = sum(4 >> n for n, bit in zip(others, wanted, strict=True) if bit)
            if table >> at & 1 == table >> (at + (4 >> own)) & 1:
                continue
            can_be = np.full(len(values[0]), ~kind.type(0), kind)
            for n, bit in zip(others, wanted, strict=True):
                can_be &= (values[n] if bit else ~values[n]) | unknown[n]
            bits |= can_be
        found.append(bits)
    return found


def spread(marks: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """Words (n,) of that unsigned type whose bits are set that are marked: rows (parts, n) of bytes or of bits.

    >>> spread(np.array([[True], [False], [False], [True]]), np.dtype(np.uint32)).tolist(), spread(np.eye(8, 1, -3, bool), np.dtype(np.uint8)).tolist()
    ([4278190335], [8])
    """
    is_of_bits = len(marks) == 8 * kind.itemsize
    bytes_ = np.packbits(marks, axis=0, bitorder="little") if is_of_bits else np.where(marks, np.uint8(_ONES), np.uint8(0))
    words: np.ndarray = np.ascontiguousarray(bytes_.T).view(kind)[:, 0]
    return words


def are_bytes_cut(words: np.ndarray) -> bool:
    """Has some byte of these words both bits that are set and bits that are not?"""
    bytes_ = words.view(np.uint8)
    return bool(((bytes_ != 0) & (bytes_ != _ONES)).any())


def parts_of(words: np.ndarray, unit: int) -> np.ndarray:
    """Which bytes (`unit` 8) or bits (1) of words (n,) are not 0: (parts, n)."""
    bytes_: np.ndarray = words.view(np.uint8).reshape(len(words), -1).T
    found: np.ndarray = np.unpackbits(bytes_, axis=0, bitorder="little") != 0 if unit == 1 else bytes_ != 0
    return found


def is_compared(name: str, kind: str, values: Sequence[np.ndarray], unknown: Sequence[np.ndarray]) -> np.ndarray | None:
    """Do the known bits of two integers decide the result of a comparison of `setp`? For each thread; None for other
    comparisons. `values` are raw bits (n,); the bits in `unknown` are not known.

    >>> words = [np.array([0x80, 0x81], np.uint32), np.array([0, 0], np.uint32)]
    >>> is_compared("ne", "b32", words, [np.array([1, 0xFF], np.uint32), np.array([0, 0], np.uint32)]).tolist()
    [True, False]
    """
    a, b = values
    if name in ("eq", "ne"):
        return np.asarray((a ^ b) & ~unknown[0] & ~unknown[1] != 0)
    order = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    if order not in ("lt", "le", "gt", "ge"):
        return None
    flip = a.dtype.type(1 << (bits_of(kind) - 1) if kind.startswith("s") else 0)
    least = [(value ^ flip) & ~bits for value, bits in zip(values, unknown, strict=True)]
    most = [(value ^ flip) | bits for value, bits in zip(values, unknown, strict=True)]
    if order in ("lt", "ge"):
        return np.asarray((most[0] < least[1]) | (least[0] >= most[1]))
    return np.asarray((most[0] <= least[1]) | (least[0] > most[1]))


def is_highest_known(i: Instruction, values: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Do the known bits of a word decide the result of `clz` or `bfind`? For each thread: is there a set known bit
    above all unknown ones?
    """
    top = values.dtype.type(1 << (bits_of(i.modifiers[-1]) - 1))
    signs = np.where(values & top != 0, ~values, values) if i.modifiers[-1].startswith("s") else values
    known = signs & ~unknown
    return np.asarray((known > unknown) & ((unknown & top == 0) if signs is not values else True))


def picked_bits(i: Instruction, width: int, numbers: Sequence[np.ndarray]) -> np.ndarray:
    """For a result that takes bits of its sources by numbers (n,): the source bit of each bit of the result. They are
    rows (width, n) into the bits of all sources, one after the other, least significant first. The row after the last
    one is a constant 0.
    """
    at, (first, *more) = np.arange(width)[:, None], numbers
    if i.op == "prmt":
        return _permuted(i, at, first)
    nothing = np.full(1, width * (2 if i.op in ("bfi", "shf") else 1))
    if i.op == "shl":
        return np.where(at < first, nothing, at - first)
    if i.op == "shf":
        far = first & 31 if "wrap" in i.modifiers else np.minimum(first, 32)
        return at + (32 - far if "l" in i.modifiers else far)
    begin, bits = (first & 0xFF, more[0] & 0xFF) if more else (first, np.full(1, width))
    if i.op == "bfi":
        return np.where((at < begin) | (at >= begin + bits), width + at, at - begin)
    sign = np.where(bits == 0, nothing, np.minimum(begin + bits - 1, width - 1)) if i.modifiers[0].startswith("s") else nothing
    return np.where((at < bits) & (at + begin < width), at + begin, sign)


def _permuted(i: Instruction, at: np.ndarray, selectors: np.ndarray) -> np.ndarray:
    """`picked_bits` of `prmt`."""
    mode = PERMUTE_MODES.get(i.modifiers[-1], INDEXED)
    known, which = np.unique(selectors, return_inverse=True)
    rows = np.zeros((len(at), len(known)), np.int64)
    for n, selector in enumerate(known.tolist()):
        taken = permute(0x03020100, 0x07060504, selector & 0x7777 if mode == INDEXED else selector, mode)
        for bit in range(len(at)):
            is_sign = mode == INDEXED and selector >> bit // 8 * 4 & 8
            rows[bit, n] = 8 * (taken >> bit // 8 * 8 & 7) + (7 if is_sign else bit % 8)
    return rows[:, which.reshape(-1)]


def trailing_zeros(values: np.ndarray) -> np.ndarray:
    """How many of a factor's lowest bits are 0: so many of the product are, whatever the other one is; all of them
    where it is 0.
    """
    values = values.astype(np.uint64)
    lowest = values & (~values + np.uint64(1))
    found: np.ndarray = np.where(values == 0, 64, np.log2(np.maximum(lowest, 1).astype(np.float64))).astype(np.int64)
    return found


def parts_of_video(i: Instruction) -> list[tuple[slice, list[tuple[int, slice]]]]:
    """The parts of the result of a video instruction, in bytes, and the source bytes of each."""
    if i.op[-1] in "24":
        size = 4 // int(i.op[-1])
        each = [slice(n, n + size) for n in range(0, 4, size)]
        if "add" in i.modifiers:
            return [(slice(0, 4), [(source, slice(0, 4)) for source in range(3)])]
        written, *picked = simd_selectors(i)
        own = [[(k // len(each), each[k % len(each)]) for k in (one[n] for one in picked)] for n in range(len(each))]
        return [(part, own[n] if n in written else [(2, part)]) for n, part in enumerate(each)]
    to, *sources = [_selected(operand) for operand in i.operands]
    result = [(to, list(enumerate(sources[:2])))]
    if to == slice(0, 4):
        return [(to, list(enumerate(sources)))]
    return result + [(slice(n, n + 1), [(2, slice(n, n + 1))]) for n in range(4) if not to.start <= n < to.stop]


def _selected(operand: Operand) -> slice:
    """The bytes of a register that a suffix ".b2" or ".h1" names."""
    part = operand.part if isinstance(operand, Register) else ""
    size = {"b": 1, "h": 2, "": 4}[part[:1]]
    begin = size * int(part[1:] or 0)
    return slice(begin, begin + size)


def value_of(operand: Operand, registers: Sequence[np.ndarray], threads: np.ndarray, kind: str) -> np.ndarray | None:
    """The value of an operand in each of the threads, as raw bits of a type. None if that is not known here."""
    to = storage(kind)
    if isinstance(operand, Register):
        found: np.ndarray = registers[operand.slot][threads].astype(to)
        return found
    if not isinstance(operand, Immediate) or operand.kind != "int":
        return None
    return np.full(len(threads), operand.value % (1 << bits_of(kind)), to)
