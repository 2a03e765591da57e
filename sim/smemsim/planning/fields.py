"""What LBO and SBO of a plan walk: found by moving each field and looking which elements move with it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.planning.arrangement import Arrangement
from smemsim.spec.smem_descriptor import REACH, START

__all__ = ["Field", "fields_of"]


@dataclasses.dataclass(frozen=True)
class Field:
    """One of LBO and SBO: bytes, as encoded, does the instruction use it, what it walks, and the first element of each of its first steps
    with the shared address: (row, k, address), of at most three, the first one being the operand's first element."""

    name: str
    bytes: int
    encoded: int
    used: bool
    walks: str
    places: tuple[tuple[int, int, int], ...]

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {**dataclasses.asdict(self), "places": [{"row": r, "k": k, "address": a} for r, k, a in self.places]}


def fields_of(tile: Arrangement) -> tuple[Field, Field]:
    """(LBO, SBO) of the first instruction."""
    base, operand = tile.descriptor(), tile.instruction
    given: dict[str, Any] = {
        "arch": tile.wish.machine.name,
        "dtype": tile.wish.fmt,
        "major": tile.wish.major,
        "rows": operand.rows,
        "k": operand.k,
    }
    given["packing"] = operand.packing
    addresses = operand_addresses(base, **given)
    unit = 1 << START.shift
    found = []
    for name, short in (("leading_byte_offset", "LBO"), ("stride_byte_offset", "SBO")):
        fields = {n: getattr(base, n) for n in ("start_address", "leading_byte_offset", "stride_byte_offset")}
        value = fields[name]
        fields[name] = value + unit if value < REACH // 2 else value - unit
        moved = operand_addresses(SmemDescriptor(arch=base.arch, swizzle=base.swizzle, **fields), **given) != addresses
        places: tuple[tuple[int, int, int], ...] = ()
        walks = "not used by this instruction"
        if moved.any():
            row, k = _first(moved)
            walks = f"to the next {row} rows ({tile.wish.axis.upper()})" if row else f"to the next {k} of K"
            steps = [(row * i, k * i) for i in range(3)]
            places = tuple((r, c, int(addresses[r, c])) for r, c in steps if r < operand.rows and c < operand.k)
        found.append(Field(short, value, value // unit, bool(moved.any()), walks, places))
    return found[0], found[1]


def _first(moved: np.ndarray) -> tuple[int, int]:
    """The first row or the first K that moves while the other index is 0."""
    rows, columns = np.nonzero(moved[:, 0])[0], np.nonzero(moved[0])[0]
    if len(rows) and not moved[0].any():
        return int(rows[0]), 0
    if len(columns):
        return 0, int(columns[0])
    return int(rows[0]), 0
