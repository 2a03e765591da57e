"""Which bytes of a result can depend on bytes that nobody has written, where the other operands hold what they hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.program.registers import bits_of, storage
from smemsim.ptx.module import Immediate, Instruction, Operand, Register, simd_selectors

__all__ = ["TABLES", "changing", "parts_of_video", "trailing_zeros", "value_of"]


TABLES = {"and": 0xC0, "not": 0x0F, "or": 0xFC, "xor": 0x3C}  # as lop3 has them: bit 4 a + 2 b + c is the result
_ONES = 0xFF


def changing(table: int, values: Sequence[np.ndarray], doubtful: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Which bytes of up to three words of each thread change the result of a table of `lop3`, (bytes, n) for each word: of a word the bytes some bit of which does so
    for what the other words hold, or may hold where they are `doubtful` (bytes, n).

    >>> word, known = np.array([0], np.uint32), np.zeros((4, 1), bool)
    >>> a, _ = changing(TABLES["and"], [word, np.array([0xFF00], np.uint32)], [~known, known])
    >>> a.ravel().tolist()
    [False, True, False, False]
    """
    kind = values[0].dtype
    unknown = [_spread(marks, kind) for marks in doubtful]
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
        found.append(bits.view(np.uint8).reshape(len(bits), -1).T != 0)
    return found


def _spread(marks: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """Words of which all bits are set of bytes (bytes, n) that are marked."""
    bytes_ = np.where(marks.T, np.uint8(_ONES), np.uint8(0))
    return np.ascontiguousarray(bytes_).view(kind)[:, 0]


def trailing_zeros(values: np.ndarray) -> np.ndarray:
    """How many of a factor's lowest bits are 0: so many of the product are, whatever the other one is; all of them where it is 0."""
    values = values.astype(np.uint64)
    lowest = values & (~values + np.uint64(1))
    found: np.ndarray = np.where(values == 0, 64, np.log2(np.maximum(lowest, 1).astype(np.float64))).astype(np.int64)
    return found


def parts_of_video(i: Instruction) -> list[tuple[slice, list[tuple[int, slice]]]]:
    """Of a video instruction the parts of its result, in bytes, and of which bytes of which source each comes."""
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
    """The bytes of a register that ".b2" or ".h1" behind it names."""
    part = operand.part if isinstance(operand, Register) else ""
    size = {"b": 1, "h": 2, "": 4}[part[:1]]
    begin = size * int(part[1:] or 0)
    return slice(begin, begin + size)


def value_of(operand: Operand, registers: Sequence[np.ndarray], threads: np.ndarray, kind: str) -> np.ndarray | None:
    """What an operand holds in each of the threads, as raw bits of a type; None where that is not known here."""
    to = storage(kind)
    if isinstance(operand, Register):
        found: np.ndarray = registers[operand.slot][threads].astype(to)
        return found
    if not isinstance(operand, Immediate) or operand.kind != "int":
        return None
    return np.full(len(threads), operand.value % (1 << bits_of(kind)), to)
