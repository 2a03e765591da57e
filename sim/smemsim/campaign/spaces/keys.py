"""Swizzle keys by a table without XOR.

The pattern of 2n units over 2n lines is the pattern of n, next to it the same moved by n, and below it the same with
the halves exchanged. For 128B:

    0 1 2 3 4 5 6 7 / 1 0 3 2 5 4 7 6 / 2 3 0 1 6 7 4 5 / ...

The CUDA programming guide draws it like this. A unit is 16, 32 or 64 bytes that move together.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.campaign.space import Case, ChunkResult, Space, Tally
from smemsim.core.layout.loops import k_major_chunk, swizzle
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.swizzles import MODES, SwizzleMode

__all__ = ["SPACE", "addresses", "halves", "placed_by_table", "walked"]


# ---- The operand's formula and the XOR, compiled, over all rows and chunks.


@compiled
def addresses(start, lbo, sbo, base_offset, width, mask, shift, out):  # type: ignore[no-untyped-def]
    """out[row, chunk] of a K-major operand."""
    for row in range(out.shape[0]):
        for chunk in range(out.shape[1]):
            out[row, chunk] = swizzle(k_major_chunk(start, lbo, sbo, width, row, chunk), base_offset, mask, shift)


# ---- `keys`: every swizzle, base offset, start phase, row and chunk: the XOR formula against tables of exchanged
# halves, which know no XOR


BASES, PHASES, ROWS, CHUNKS = 8, 64, 256, 8
LINE = 128  # bytes; the XOR stays inside
ORIGIN, FAR = 0x10000, 0x2400  # where phase 0 begins: a multiple of every period; what LBO is where it is used
PER_CHUNK = PHASES * ROWS * CHUNKS


@functools.cache
def halves(size: int) -> tuple[tuple[int, ...], ...]:
    """The unit at each place of each line: `size` lines of `size` units. The size is a power of two.

    >>> halves(4)
    ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))
    """
    if size == 1:
        return ((0,),)
    half = halves(size // 2)
    moved = tuple(tuple(unit + size // 2 for unit in line) for line in half)
    return (
        *(left + right for left, right in zip(half, moved, strict=True)),
        *(right + left for left, right in zip(half, moved, strict=True)),
    )


def placed_by_table(address: Any, base_offset: int, mode: SwizzleMode) -> Any:
    """The place of the byte at a linear address, by the table; numbers or int64 arrays.

    >>> from smemsim.core.spec.swizzles import MODES, Swizzle
    >>> int(placed_by_table(128, 0, MODES[Swizzle.B128]))
    144
    """
    table, unit, count = np.array(halves(mode.mask + 1), np.int64), 1 << mode.shift, mode.mask + 1
    line, inside = address // LINE, address % LINE
    at = inside // unit
    return line * LINE + (at // count * count + table[(line - base_offset) % count, at % count]) * unit + inside % unit


def walked(mode: SwizzleMode, start: int) -> np.ndarray:
    """int64 (rows, chunks): linear addresses of a dense K-major operand, by walking: to the next row, to the next 16
    bytes, past the width by LBO.
    """
    columns, at = [], 0
    for _ in range(CHUNKS):
        columns.append(at)
        at += CHUNK
        if at % FAR == mode.width:
            at += FAR - mode.width
    return np.asarray(start + np.arange(ROWS)[:, None] * mode.width + np.array(columns), np.int64)


def _both(mode: SwizzleMode, base: int, phase: int) -> tuple[np.ndarray, np.ndarray]:
    """(by the table, by the formulas) of every row and chunk."""

    start = ORIGIN + CHUNK * phase
    got = np.empty((ROWS, CHUNKS), np.int64)
    addresses(start, FAR, 8 * mode.width, base, mode.width, mode.mask, mode.shift, got)
    return np.asarray(placed_by_table(walked(mode, start), base, mode)), got


def case(seed: int, chunk: int, number: int) -> Case:
    """One address."""
    del seed
    mode, base = list(MODES.values())[chunk // BASES % len(MODES)], chunk % BASES
    phase, row, column = number // (ROWS * CHUNKS) % PHASES, number // CHUNKS % ROWS, number % CHUNKS
    want, got = (int(x[row, column]) for x in _both(mode, base, phase))
    shown = {"swizzle": str(mode.swizzle), "base_offset": base, "start": hex(ORIGIN + CHUNK * phase), "row": row, "chunk": column,
             "by_table": hex(want), "by_formula": hex(got)}  # fmt: skip
    what = "" if want == got else f"the table puts it at {want:#x}, the formula at {got:#x}"
    key = (got ^ int(walked(mode, ORIGIN + CHUNK * phase)[row, column])) >> mode.shift
    return Case(f"{mode.swizzle} wrong: another address" if what else f"{mode.swizzle} moved by {key}", shown, what)


def run(seed: int, chunk: int) -> ChunkResult:
    """All phases, rows and chunks of one swizzle and one base offset."""
    mode, base = list(MODES.values())[chunk // BASES], chunk % BASES
    tally = Tally("keys", 0, chunk)
    for phase in range(PHASES):
        want, got = _both(mode, base, phase)
        keys = np.bincount(((got ^ walked(mode, ORIGIN + CHUNK * phase)) >> mode.shift).ravel()[(want == got).ravel()])
        for key in np.flatnonzero(keys).tolist():
            tally.classes[f"{mode.swizzle} moved by {key}"] += int(keys[key])
        wrong = np.flatnonzero((want != got).ravel())
        if len(wrong):
            tally.classes[f"{mode.swizzle} wrong: another address"] += len(wrong)
            number = phase * ROWS * CHUNKS + int(wrong[0])
            one = case(seed, chunk, number)
            tally.trouble(one.of, one.wrong, one.shown, number)
    return tally.result()


SPACE = Space("keys", "every swizzle, base offset, start phase, row and chunk: the XOR formula against tables of the pattern", run, PER_CHUNK, case,
              chunks=len(MODES) * BASES)  # fmt: skip
