"""Remarks about the metadata of sparse matrix instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.wgmma import METADATA_1_2

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["find_undefined"]


def find_undefined(x: Wave, i: Instruction, undefined: np.ndarray, nibbles: np.ndarray, group: int) -> None:
    """R508, a remark, if metadata of some groups of `group` elements of K is undefined. Both arrays are (instructions,
    M, groups).
    """
    if not undefined.any():
        return
    n, row, of_row = np.argwhere(undefined)[0].tolist()
    found = int(nibbles[n, row, of_row])
    first, second = found & 3, found >> 2
    if group == 2:
        why = f"of tf32 only {' and '.join(f'{value:#06b}' for value in sorted(METADATA_1_2))} are defined"
    elif first == second:
        why = f"both elements are number {first} of the group, which is undefined"
    else:
        why = f".sp::ordered_metadata needs ascending numbers, and these are {first} and {second}"
    x.launch.find(
        "R508", i, f"the sparse metadata of row {row} of A, k {group * of_row} to {group * (of_row + 1) - 1}, is {found:#06b}",
        "name the places of the two elements in ascending order: 0b0100 is places 0 and 1, 0b1110 is places 2 and 3",
        halves=(Half("metadata", i.name, i),), why=why, because="PTX ISA 9.1 §9.7.14.6, 9.7.15.6.1", milder=Severity.NOTE, operation="metadata",
    )  # fmt: skip
