"""Counts in compiled code, for observers that count (`Observer.tallied`): how many lanes a predicate leaves out, and
for how many lanes a block runs.

The numbers are 64-bit entries from `%counts` on. Code without such observers has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemsim.core.ptx.module import Instruction
from smemsim.run.jit.vectors import LANES, Value, Vectors

if TYPE_CHECKING:
    from smemsim.run.lower.program import Block

__all__ = ["Counts"]


class Counts:
    """The entries of one function: `active` are the lanes that run (None: all)."""

    def __init__(self, active: Value | None = None) -> None:
        self.active = active
        self.size = 0
        self.off: list[tuple[Instruction, int]] = []
        self.blocks: list[tuple[Sequence[Instruction], int, int]] = []

    def entry(self) -> int:
        """A new entry."""
        self.size += 1
        return self.size - 1

    def leaves_out(self, v: Vectors, i: Instruction, holds: Value) -> None:
        """Count the lanes that are at an instruction and whose predicate is false."""
        off = v.binary("xor", holds, v.number("i1", 1))
        for here in (self.active, v.path):
            off = off if here is None else v.binary("and", off, here)
        self.off.append((i, self.entry()))
        self._add(v, self.off[-1][1], self.lanes(v, off))

    def enters(self, v: Vectors, block: Block) -> None:
        """Count the lanes of a path, and its warps: the groups of a warp follow each other."""
        assert v.path is not None
        warps, lanes, before = self.entry(), self.entry(), self.entry()
        self.blocks.append((block.instructions, warps, lanes))
        count = self.lanes(v, v.path)
        self._add(v, lanes, count)
        some = v.line(f"zext i1 {v.line(f'icmp ne i64 {count}, 0')} to i64")
        at = self.at(v, before)
        lower = v.line(f"load i64, ptr {at}, align 8")
        v.lines.append(f"  store i64 {some}, ptr {at}, align 8")
        is_lower = v.line(f"icmp eq i64 {v.line(f'and i64 %t, {LANES}')}, 0")
        other = v.line(f"select i1 {is_lower}, i64 0, i64 {lower}")
        self._add(v, warps, v.line(f"and i64 {some}, {v.line(f'xor i64 {other}, 1')}"))

    def runs(self, v: Vectors, block: Block) -> None:
        """Count the lanes of each trip of a loop; its warps are entered by the caller."""
        assert self.active is not None
        warps, lanes = self.entry(), self.entry()
        self.blocks.append((block.instructions, warps, lanes))
        self._add(v, lanes, self.lanes(v, self.active))

    @staticmethod
    def lanes(v: Vectors, which: Value) -> str:
        """How many lanes they are."""
        v.declared.add(f"declare i{LANES} @llvm.ctpop.i{LANES}(i{LANES})")
        bits = v.line(f"bitcast <{LANES} x i1> {which.name} to i{LANES}")
        return v.line(f"zext i{LANES} {v.line(f'call i{LANES} @llvm.ctpop.i{LANES}(i{LANES} {bits})')} to i64")

    @staticmethod
    def at(v: Vectors, entry: int) -> str:
        """A pointer to an entry."""
        return v.line(f"getelementptr i64, ptr %counts, i64 {entry}")

    def _add(self, v: Vectors, entry: int, amount: str) -> None:
        at = self.at(v, entry)
        after = v.line(f"add i64 {v.line(f'load i64, ptr {at}, align 8')}, {amount}")
        v.lines.append(f"  store i64 {after}, ptr {at}, align 8")
