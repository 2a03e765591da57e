"""Which registers of tcgen05.ld an instruction names behind it: there the warp has waited for the load.

The PTX ISA wants a tcgen05.wait::ld in between (9.7.16.8.1). ptxas lets every instruction wait for the registers that it reads, and the epilogues that
CuTe DSL 4.8 brings along rely on that: they convert and store what they have loaded, and then release the accumulator (compiled).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemsim.gpu.linking.mentions import slots_of
from smemsim.ptx.module import Address, Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Block

__all__ = ["Named"]

_TELLS = ("bar", "barrier", "mbarrier", "atom", "red", "fence", "membar")  # others may go on behind them


class Named:
    """Of the blocks of a program: the registers that are named before others are told anything."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._places = {id(i): (block, n) for block in blocks for n, i in enumerate(block.instructions) if i.op == "tcgen05"}
        self._first: dict[int, int] = {}

    def at_once(self, load: Instruction) -> bool:
        """Is something of what a load brings named in its own block?"""
        block, n = self._places.get(id(load), (None, 0))
        return block is not None and bool(_before_telling(block.instructions[n + 1 :]) & self.registers(load))

    def registers(self, load: Instruction) -> int:
        """The registers that a load brings, as a bit set."""
        brought = tuple(operand for operand in load.operands if not isinstance(operand, Address))
        return _bits(dataclasses.replace(load, operands=brought, guard=None))

    def first(self, block: Block) -> int:
        """The registers that a block names first, as a bit set."""
        if block.index not in self._first:
            own = block.instructions
            brings = bool(own) and own[0].op == "tcgen05" and own[0].modifiers[0] == "ld"  # into registers that nobody has named yet
            self._first[block.index] = _before_telling(own[brings:])
        return self._first[block.index]


def _before_telling(instructions: Sequence[Instruction]) -> int:
    named = 0
    for i in instructions:
        if i.op in _TELLS or (i.op == "tcgen05" and i.modifiers[0].startswith("commit")) or "release" in i.modifiers:
            break
        named |= _bits(i)
    return named


def _bits(i: Instruction) -> int:
    return sum(1 << slot for slot in slots_of(i))
