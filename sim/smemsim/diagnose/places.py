"""Where the elements that were multiplied really lie: as other elements of the operand, or as other bytes of shared memory."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from smemsim.addressing.swizzle import swizzle
from smemsim.diagnose.product import Product
from smemsim.diagnose.terms import Effective
from smemsim.spec.formats import element_format
from smemsim.spec.swizzles import MODES, SwizzleMode

__all__ = ["moved_chunks", "moved_elements"]

CHUNK = 16  # bytes that swizzling moves together
MOSTLY = 0.95  # of the changed elements; a line that could not be solved for well may have others
OFFSETS = (*range(1, 9), 12, *range(16, 65, 8), 128)  # rows and k by which operands are usually displaced


def moved_elements(found: Effective) -> str:
    """One rule that says from which other elements of the operand all the changed ones come, as `(row ^ 8, k)`; "" without one."""
    codes, wanted = found.side.flat(), _flat(found)
    row, k = np.nonzero(found.changed)
    new = wanted[row, k]
    if len(new) < 4 or len(np.unique(new)) < 3:
        return ""
    lines, extent = codes.shape
    name = "row" if found.name == "A" else "column"
    of_row = _moves(row, lines, name)
    for (r, in_row, text_row), (c, in_k, text_k) in sorted(
        itertools.product(of_row, _moves(k, extent, "k")), key=lambda pair: (pair[0][2] != name) + (pair[1][2] != "k")
    ):
        inside = in_row & in_k
        if inside.all() and (text_row != name or text_k != "k") and (codes[r, c] == new).mean() >= MOSTLY:
            return f"({text_row}, {text_k})"
    return ""


def _flat(found: Effective) -> np.ndarray:
    return found.side.flat(found.bits)


def _moves(at: np.ndarray, extent: int, name: str) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """(index, is it inside, in words) of every usual displacement of an index."""
    out = [(at, np.ones(at.shape, bool), name)]
    out += [(at ^ x, (at ^ x) < extent, f"{name} ^ {x}") for x in OFFSETS if x < extent]
    for d in (*OFFSETS, *(-x for x in OFFSETS)):
        if abs(d) < extent:
            out.append(((at + d) % extent, (at + d >= 0) & (at + d < extent), f"{name} {'+' if d > 0 else '-'} {abs(d)}"))
    for size in (2, 4, 8, 16, 32, 64):
        if size < extent:
            out.append((at % size, np.ones(at.shape, bool), f"{name} % {size}"))
    return [(np.where(inside, index, 0), inside, text) for index, inside, text in out]


def moved_chunks(product: Product, found: Effective) -> list[str]:
    """Sentences that say at which addresses the changed 16-byte chunks were really read; none where that cannot be seen."""
    fmt = element_format(product.types[0 if found.name == "A" else 1])
    if product.memory is None or found.side.address is None or fmt.bits not in (8, 16, 32):
        return []
    begin, memory = product.memory
    address, wanted = found.side.flat(found.side.address), _flat(found)
    moves: list[Move] = []
    chunks = np.where(address < 0, -1, address // CHUNK)
    touched = np.unique(chunks[found.changed & (chunks >= 0)])
    for chunk in touched.tolist():
        line, k = np.nonzero(chunks == chunk)
        at, first = np.unique(address[line, k], return_index=True)
        if len(at) * fmt.bits == 8 * CHUNK:
            data = wanted[line[first], k[first]].astype(f"<u{fmt.bits // 8}").tobytes()
            places = [begin + x for x in _places(memory, data) if (begin + x) % CHUNK == 0]
            if len(set(data)) > 2 and len(places) == 1:
                moves.append(Move(chunk * CHUNK, places[0], int(line[0]), int(k[0])))
    if 2 * len(moves) < len(touched) or not moves:
        return []
    first_ones = ", ".join(f"{m.read:#x} instead of {m.meant:#x}" for m in moves[:3])
    more = ", …" if len(moves) > 3 else ""
    return [
        f"{len(moves)} of {found.name}'s 16-byte chunks were read elsewhere in shared memory: {first_ones}{more}",
        *_pattern(moves, found.name),
    ]


class Move(NamedTuple):
    """A chunk: where the model reads it, where hardware must have; the first line and k in it."""

    meant: int
    read: int
    line: int
    k: int


def _places(memory: bytes, data: bytes) -> list[int]:
    found: list[int] = []
    at = memory.find(data)
    while at >= 0 and len(found) < 9:
        found.append(at)
        at = memory.find(data, at + 1)
    return found


def _pattern(moves: list[Move], name: str) -> list[str]:
    """What all the moves have in common."""
    what = "rows" if name == "A" else "columns"
    modes = [mode for mode in MODES.values() if mode.wgmma_code is not None or mode.tcgen05_code is not None]
    modes.sort(key=lambda mode: -mode.width if mode.mask else -1000)
    for mode in modes:
        before = f" before the {mode.swizzle} swizzle" if mode.mask else ""
        apart = [_unswizzled(m.read, mode) - _unswizzled(m.meant, mode) for m in moves]
        if len(set(apart)) == 1:
            return [f"each is {_by(apart[0])}{before}: look at the start address, or at how it advances"]
        for size, of, text in ((8, [m.line for m in moves], what), (8, [m.k for m in moves], "of k"), (64, [m.line for m in moves], what)):
            units = [x // size for x in of]
            nonzero = [(a, u) for a, u in zip(apart, units, strict=True) if u]
            if nonzero and len(set(units)) > 1 and all(a * nonzero[0][1] == nonzero[0][0] * u for a, u in zip(apart, units, strict=True)):
                by, rest = divmod(nonzero[0][0], nonzero[0][1])
                if rest == 0:
                    return [f"every {size} {text} it is another {_by(by)}{before}: look at SBO and LBO"]
    for one, other in itertools.product(modes, modes):
        for base in range(8 if other.mask else 1):
            apart = [_unswizzled(m.read, other, base) - _unswizzled(m.meant, one) for m in moves]
            if len(set(apart)) == 1:
                if one is other:
                    return [f"that is a base offset which is {base} more"]
                return [f"that is swizzle {other.swizzle} where the model has {one.swizzle}{f', with base offset {base}' if base else ''}"]
    return []


def _by(apart: int) -> str:
    return f"{abs(apart)} bytes {'further' if apart > 0 else 'back'}"


def _unswizzled(address: int, mode: SwizzleMode, base: int = 0) -> int:
    return swizzle(address, base, mode.mask, mode.shift)
