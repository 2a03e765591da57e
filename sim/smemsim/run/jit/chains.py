"""Blocks that begin with `shfl`, `vote` or `redux` of whole warps, with the arithmetic between them, as one function.

Each such instruction begins a block, since lanes may have to wait for others there. If all threads of a wave reach
the first one together, none waits at the next ones. So a chain of such blocks runs as one function; branches over a
few instructions are part of it (`joins.py`). It has no access to memory: what lanes order by meeting is the same
before it and after it. A chain may also begin with such a branch, at the end of any block: its tail.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smemsim.base.errors import SmemsimError
from smemsim.core.ptx.module import Instruction, Label, Register
from smemsim.run.engine.wave import ALL, WARP
from smemsim.run.jit.constants import JOINT, constants, is_joint
from smemsim.run.jit.joins import NO_JOINS, Joins, part
from smemsim.run.jit.segments import MOST, Code, Run, code_of, gives_text, is_access
from smemsim.run.jit.vectors import Uncompiled, Vectors

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Block, Program

__all__ = ["Chain", "chain_of", "tail_of"]


MOST_SKIPPED = 24  # instructions that lanes may branch over: they cost as much as if all lanes executed them


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Instructions of blocks that follow each other: of the last one those up to `left`, counted in its plain steps.
    `numbers` are registers that hold them.
    """

    blocks: tuple[Block, ...]
    left: int
    instructions: tuple[Instruction, ...]
    joins: Joins
    numbers: tuple[tuple[int, int], ...]
    slots: int

    @functools.cached_property
    def joint(self) -> int:
        """How often lanes meet."""
        return sum(i.op in JOINT for i in self.instructions)

    @functools.cached_property
    def meets_at(self) -> Instruction | None:
        """The last instruction at which they do."""
        return next((i for i in reversed(self.instructions) if i.op in JOINT), None)

    @property
    def begins(self) -> int:
        """The first instruction of the last block that is left."""
        return self.left + (self.blocks[-1].gate is not None)

    @property
    def is_worth_it(self) -> bool:
        """Is it more than the one instruction?"""
        return len(self.instructions) > 1

    @property
    def is_tail(self) -> bool:
        """Does it begin with the branch at the end of its first block?"""
        return self.blocks[0].instructions[0] is not self.instructions[0] or self.blocks[0].gate is None

    def code(self, program: Program, *, counted: bool = False) -> Code:
        """The text, for all threads; `counted`: observers count."""
        return code_of(
            program, Run(0, len(self.instructions), self.instructions, (), self.joins, self._starts), masked=False, counted=counted
        )

    @functools.cached_property
    def _starts(self) -> tuple[tuple[int, Block], ...]:
        """The blocks by the place of their first instruction, without the one that a tail is part of."""
        place, found = 0, []
        for n, block in enumerate(self.blocks):
            if n or not self.is_tail:
                found.append((place, block))
            place += len(block.instructions) if n or not self.is_tail else 1
        return tuple(found)

    def may_run(self, x: Wave) -> bool:
        """Are all threads of the wave here, in whole warps, are the registers in their arrays, and does no other part
        read them?
        """
        if (
            x.sel is not ALL
            or x.grid.padded
            or x.stride % WARP
            or x.in_flight is not None
            or x.warp_scheduler is not None
            or x.registers.held & self.slots
        ):
            return False
        if not all((x.r[slot] == number).all() for slot, number in self.numbers):
            return False
        sanitizer = x.checks
        return sanitizer is None or not (sanitizer.taint.concerns(self.slots) or self.slots & sanitizer.held_slots)


class _Growing:
    """A chain while blocks are added. It can be cut back to any point at which all lanes are together."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.v = Vectors(program.registers, program.wide)
        self.blocks: list[Block] = []
        self.taken: list[Instruction] = []
        self.sources: list[tuple[int, tuple[int, ...]]] = []
        self.pending: dict[int, list[int]] = {}  # the branches that come to an instruction, by its identity
        self.comers = program.comers
        self.whole = (0, 0, 0)  # where all lanes were together last: blocks, plain steps of the last one, instructions

    def begins_behind(self, block: Block) -> bool:
        """Begin with the branch that a block ends with. Is it one over a few instructions?"""
        self.blocks.append(block)
        self.whole = 1, len(block.steps), 0
        return block.end is not None and block.instructions[-1].guard is not None and self._parts(block)

    def takes(self, block: Block) -> bool:
        """Add a block. Can the chain go on after it?"""
        first = id(block.instructions[0])
        if self.blocks and self.comers.get(first, 0) != len(self.pending.get(first, ())):
            return False  # threads come from elsewhere too: what is in registers then is not known here
        here = self.pending.pop(first, None)
        if here is not None:
            self.sources.append((len(self.taken), tuple(here)))
            for branch in here:
                self.v.path = self.v.join(self.v.path, self.v.parted.pop(branch))
            if not self.pending:
                self.v.path = None
        if block.gate is not None and (self.pending or not is_joint(self.program, block.instructions[0])):
            return False
        self.blocks.append(block)
        has_gate = block.gate is not None
        if not self.pending and not has_gate:
            self.whole = len(self.blocks), 0, len(self.taken)
        own = block.instructions[: has_gate + len(block.steps)]
        for count, i in enumerate(own, 1):
            if not self._takes(i):
                return False
            self.taken.append(i)
            if not self.pending:
                self.whole = len(self.blocks), count - has_gate, len(self.taken)
        return block.end is None or self._parts(block)

    def _takes(self, i: Instruction) -> bool:
        branches = [place for places in self.pending.values() for place in places]
        if (
            len(self.taken) >= MOST
            or is_access(i)
            or id(i) in self.program.copied.instructions
            or (branches and len(self.taken) - min(branches) > MOST_SKIPPED)
        ):
            return False
        try:
            gives_text(self.program, self.v, i)
        except (Uncompiled, SmemsimError):
            return False
        return True

    def _parts(self, block: Block) -> bool:
        """Add the branch at the end of a block, if it goes to an instruction a little further on."""
        i = block.instructions[-1]
        inlined = self.program.inlined
        target = i.operands[0] if i.op == "bra" and len(i.operands) == 1 else None
        if not isinstance(target, Label) or target.name not in inlined.labels or inlined.labels[target.name] >= len(inlined.body):
            return False
        to = inlined.body[inlined.labels[target.name]]
        place = self.program.starts.get(id(to), -1)
        if place <= block.index or self.program.blocks[place].instructions[0] is not to:
            return False
        try:
            part(self.v, len(self.taken), i)
        except (Uncompiled, SmemsimError):
            return False
        self.pending.setdefault(id(to), []).append(len(self.taken))
        self.taken.append(i)
        return True

    def chain(self) -> Chain:
        """The part of the additions up to the point at which all lanes are together."""
        blocks, left, count = self.whole
        instructions = tuple(self.taken[:count])
        sources = tuple((at, places) for at, places in self.sources if at <= count)
        slots: Any = 0
        for block in self.blocks[:blocks]:
            slots |= block.slots
        numbers = _numbers(self.program, instructions)
        return Chain(tuple(self.blocks[:blocks]), left, instructions, Joins(sources) if sources else NO_JOINS, numbers, int(slots))


def chain_of(program: Program, block: Block) -> Chain | None:
    """The chain that begins with a block; None where it begins with something else, or where nothing is gained."""
    if program.inlined.frames or block.gate is None or not is_joint(program, block.instructions[0]):
        return None
    growing = _Growing(program)
    return _grown(growing, program.blocks[block.index :])


def tail_of(program: Program, block: Block) -> Chain | None:
    """The chain that begins with the branch at the end of a block; None where that is none over a few instructions."""
    growing = _Growing(program)
    if program.inlined.frames or not growing.begins_behind(block):
        return None
    return _grown(growing, program.blocks[block.index + 1 :])


def _grown(growing: _Growing, blocks: Sequence[Block]) -> Chain | None:
    """The chain with as many of these blocks as can be; None where nothing is gained."""
    for one in blocks:
        if not growing.takes(one):
            break
    chain = growing.chain()
    return chain if chain.blocks and chain.is_worth_it else None


def _numbers(program: Program, instructions: Sequence[Instruction]) -> tuple[tuple[int, int], ...]:
    """The registers that have to hold a number when the chain begins, as nothing in front gives it to them."""
    known = constants(program)
    given: set[int] = set()
    asked: dict[int, int] = {}
    for i in instructions:
        if i.op in JOINT:
            asked |= {x.slot: known[x.slot] for x in i.operands[2:] if isinstance(x, Register) and x.slot in known and x.slot not in given}
        given |= i.given
    return tuple(asked.items())
