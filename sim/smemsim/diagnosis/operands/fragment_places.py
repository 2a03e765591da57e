"""The origins of the elements of an mma.sync's operands, if their bytes are followed. They are rows and k of one array
at fixed strides, or the same in another order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.ptx.module import Instruction, slots_in
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.diagnosis.recognised import Recognised
from smemsim.run.engine.launch import Launch

__all__ = ["Blocks", "Chunks", "k_order", "other_order", "regular", "told_k_order", "told_order"]

BLOCK = 8  # rows and columns of a matrix of ldmatrix
MOST_CHUNKS = 8  # of a line of a swizzle pattern


class Blocks(NamedTuple):
    """Rows and k are exchanged within each 8 x 8 block, and not from block to block."""


class Chunks(NamedTuple):
    """The 16-byte chunks of each line are exchanged by an XOR. It has a number for each line, from line 0 on. Lines are
    rows, or k if rows are contiguous.
    """

    numbers: tuple[int, ...]
    lines: str


def regular(at: np.ndarray, size: int, launch: Launch) -> Recognised | None:
    """The place of a tile whose elements of `size` bytes come from these addresses (rows, k).

    None unless one of its axes is contiguous, and its lines are a pitch apart.
    """
    steps = _steps(at)
    if steps is None or size not in steps:
        return None
    row, step = steps
    pitch, length = (row, at.shape[1]) if step == size else (step, at.shape[0])
    region = launch.memory.holding(int(at[0, 0]), int(at[0, 0]) + 1)
    if region is None or abs(pitch) < length * size or pitch % size or (int(at[0, 0]) - region.begin) % size:
        return None
    return Recognised(region.begin, len(region.data) // size, size, (int(at[0, 0]) - region.begin) // size, row // size, step // size)


def _steps(at: np.ndarray) -> tuple[int, int] | None:
    """How many bytes further on the next row, and the next k, of all elements is."""
    if (at < 0).any() or min(at.shape) < 2:
        return None
    row, step = int(at[1, 0] - at[0, 0]), int(at[0, 1] - at[0, 0])
    rows, k = at.shape
    is_one = (at == at[0, 0] + np.arange(rows)[:, None] * row + np.arange(k) * step).all()
    return (row, step) if is_one else None


def other_order(at: np.ndarray, size: int) -> Blocks | Chunks | None:
    """The order of elements that are not at fixed strides; None if it is not known, or if they are."""
    if (at < 0).any() or _steps(at) is not None:
        return None
    if size == 1 and not at.shape[1] % 2 and (at[:, 1::2] - at[:, ::2] == 1).all():  # ldmatrix moves two bytes together
        pairs = other_order(at[:, ::2], 2)
        if isinstance(pairs, Blocks):
            return pairs
    rows, k = at.shape
    if size == CHUNK // BLOCK and rows % BLOCK == 0 == k % BLOCK:
        turned = at.reshape(rows // BLOCK, BLOCK, k // BLOCK, BLOCK).transpose(0, 3, 2, 1).reshape(rows, k)
        if (steps := _steps(turned)) is not None and size in steps:
            return Blocks()
    for lines, name in ((at, "row"), (at.T, "k")):
        numbers = _exchanged(lines, size)
        if numbers is not None:
            return Chunks(numbers, name)
    return None


def _exchanged(lines: np.ndarray, size: int) -> tuple[int, ...] | None:
    """By which XOR with bits of the line the chunks are exchanged, for each line until it repeats."""
    each, count = CHUNK // size, len(lines)
    if lines.shape[1] % each or count not in (BLOCK, 2 * BLOCK) or lines.size < 2 * BLOCK * each:
        return None
    parts = lines.reshape(count, -1, each)
    if (np.diff(parts, axis=2) != size).any() or (parts[..., 0] % CHUNK).any():
        return None
    chunks = parts[..., 0] // CHUNK
    near = round(int(chunks[-1, 0] - chunks[0, 0]) / (count - 1))
    for pitch in sorted(range(near - MOST_CHUNKS, near + MOST_CHUNKS + 1), key=lambda one: abs(one - near)):
        inside = chunks - pitch * np.arange(count)[:, None]
        inside = inside - inside.min()
        width = int(inside.max()) + 1
        if width > min(MOST_CHUNKS, abs(pitch)):
            continue
        for first in range(MOST_CHUNKS - width + 1):
            by = (inside + first) ^ (inside[0] + first)
            if (by == by[:, :1]).all() and _is_swizzle(by[:, 0]):
                return tuple(by[: BLOCK if (by[:BLOCK] == by[-BLOCK:]).all() else count, 0].tolist())
    return None


def _is_swizzle(by: np.ndarray) -> bool:
    """Are these the numbers of an XOR with bits of the line, also within 8 lines?"""
    line = np.arange(len(by))
    bits = [np.where(line >> bit & 1, by[1 << bit], 0) for bit in range(len(by).bit_length() - 1)]
    return bool(by[:BLOCK].any() and (by == np.bitwise_xor.reduce(bits)).all())


def k_order(at: np.ndarray) -> tuple[int, ...] | None:
    """In which order a product has the k of an operand, whatever its rows are.

    None if the k of a row are not evenly apart, or if the rows do not have the same k.
    """
    if (at < 0).any() or (at - at[:, :1] != at[:1] - at[0, 0]).any():
        return None
    order = np.argsort(at[0])
    gaps = np.diff(at[0][order])
    return tuple(np.argsort(order).tolist()) if (gaps == gaps[0]).all() and gaps[0] > 0 else None


def told_order(order: Blocks | Chunks, side: str, i: Instruction, launch: Launch) -> Finding:
    """R508 as a remark: an array may be stored in such an order."""
    name, load = side.upper(), _loaded_by(i, side, launch)
    where = load or i
    has_trans = load is not None and "trans" in load.modifiers
    if isinstance(order, Blocks):
        what = f"each 8 x 8 block of {name} is multiplied transposed: rows and k are exchanged within blocks, but not from block to block"
        change = (
            "ldmatrix without .trans" if has_trans else "ldmatrix with .trans" if load is not None else "exchange rows and k of each block"
        )
        change += "; or exchange the second and the third register of A" * (side == "a")
        why = "an array that holds its blocks transposed may look the same"
    else:
        what = f"the 16-byte chunks of {name} are exchanged: chunk c of {order.lines} r is where c ^ x belongs, for r = 0 to {len(order.numbers) - 1} with x = {', '.join(map(str, order.numbers))}"
        change = "the same swizzle where shared memory is read as where it is written"
        why = f"so one product multiplies {'several k of each row' if order.lines == 'row' else 'other rows at each k'}; an array that is stored swizzled may look the same"
    return at_instruction("R508", where, what, change, why=why, milder=Severity.NOTE)


def told_k_order(i: Instruction, launch: Launch) -> Finding:
    """R508 as a remark: A and B of one product have their k in another order."""
    where = _loaded_by(i, "b", launch) or i
    return at_instruction(
        "R508", where, f"the product at {i.at} multiplies the first half of A's k with the second half of B's, and the second half with the first",
        "exchange the registers of B, or those of A", why="an array whose halves of k are exchanged may look the same", milder=Severity.NOTE,
    )  # fmt: skip


def _loaded_by(i: Instruction, side: str, launch: Launch) -> Instruction | None:
    """The last ldmatrix before an mma.sync that gives it an operand."""
    wanted = slots_in(i.operands[1 if side == "a" else 2])
    loads = [other for other in launch.program.inlined.body if other.op == "ldmatrix" and other.given & wanted]
    before = [other for other in loads if other.line < i.line]
    return (before or loads)[-1] if loads else None
