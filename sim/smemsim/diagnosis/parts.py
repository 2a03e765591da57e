"""Elements of a tile, and the instructions that read them, in words."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["element_name", "part_name"]


def part_name(block: int, step: int, blocks: int, steps: int) -> str:
    """One of the matrix instructions that read an operand: its block of rows, if there are several, and its K step.

    >>> part_name(0, 3, 1, 4), part_name(1, 3, 2, 4)
    ('K step 3', 'row block 1, K step 3')
    """
    return f"row block {block}, " * (blocks > 1) + f"K step {step}"


def element_name(at: Sequence[int], shape: Sequence[int]) -> str:
    """The row and k in the whole tile of element (block, step, row, k), in words.

    >>> element_name((0, 0, 3, 8), (1, 1, 64, 16)), element_name((1, 2, 3, 8), (2, 4, 64, 16))
    ('row 3, k 8', 'row 67, k 40 (row block 1, K step 2)')
    """
    (block, step, row, k), (blocks, steps, rows, width) = at, shape
    part = f" ({part_name(block, step, blocks, steps)})" if blocks * steps > 1 else ""
    return f"row {block * rows + row}, k {step * width + k}{part}"
