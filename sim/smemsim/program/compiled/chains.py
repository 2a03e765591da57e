"""Blocks that begin with `shfl`, `vote` or `redux` of whole warps, with the arithmetic between them, as one function.

Each such instruction begins a block, since lanes may have to wait for others there. Where all threads of a wave come to the first one together nobody waits at the
next ones, so that a chain of such blocks runs as one. It has no access to memory: what lanes order by meeting is the same before it and behind it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smemsim.errors import SmemsimError
from smemsim.program.compiled.lanes import is_joint
from smemsim.program.compiled.segments import MOST, Code, Run, code_of, gives_text, is_access
from smemsim.program.compiled.vectors import Uncompiled, Vectors
from smemsim.program.wave import ALL, WARP

if TYPE_CHECKING:
    from smemsim.program.linking.program import Block, Program
    from smemsim.program.wave import Wave
    from smemsim.ptx.module import Instruction

__all__ = ["Chain", "chain_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Instructions of blocks that follow each other: of the last one those up to `left`, counted in its plain steps; with `joint` meetings of lanes."""

    blocks: tuple[Block, ...]
    left: int
    instructions: tuple[Instruction, ...]
    slots: int

    @property
    def joint(self) -> int:
        """How often lanes meet."""
        return len(self.blocks)

    @property
    def is_worth_it(self) -> bool:
        """Is it more than the one instruction?"""
        return len(self.instructions) > 1

    def code(self, program: Program) -> Code:
        """The text, for all threads."""
        return code_of(program, Run(0, len(self.instructions), self.instructions, ()), masked=False)

    def may_run(self, x: Wave) -> bool:
        """Are all threads of the wave here, in whole warps, are the registers in their arrays, and has nobody else to look at them?"""
        if x.sel is not ALL or x.padded or x.stride % WARP or x.late is not None or x.turns is not None or x.held & self.slots:
            return False
        watch = x.watch
        return watch is None or not (
            watch.unwritten.concerns(self.slots)
            or self.slots & (watch.registers.in_flight | watch.registers.of_sums)
            or self.slots & watch.tensor.loading
        )


def chain_of(program: Program, block: Block) -> Chain | None:
    """The chain that begins with a block; None where it begins with something else, or where nothing is gained."""
    if program.inlined.frames or block.gate is None or not is_joint(block.instructions[0]):
        return None
    v = Vectors(program.registers, program.wide)
    blocks: list[Block] = []
    taken: list[Instruction] = []
    left = 0
    for one in _following(program, block):
        own = one.instructions[: 1 + len(one.steps)]
        count = _compiled(program, v, own, MOST - len(taken))
        if not count:
            break
        blocks.append(one)
        taken += own[:count]
        left = count - 1
        if count < len(own):
            break
    chain = Chain(tuple(blocks), left, tuple(taken), _union(blocks))
    return chain if blocks and chain.is_worth_it else None


def _following(program: Program, block: Block) -> Iterator[Block]:
    """The block, and those that threads come to from nowhere but the one before."""
    targets = {id(program.inlined.body[n]) for n in program.inlined.labels.values() if n < len(program.inlined.body)}
    yield block
    for one in program.blocks[block.index + 1 :]:
        if block.end is not None or one.gate is None or not is_joint(one.instructions[0]) or id(one.instructions[0]) in targets:
            return
        yield one
        block = one


def _compiled(program: Program, v: Vectors, instructions: Sequence[Instruction], most: int) -> int:
    """How many of the instructions the function can go on with."""
    for count, i in enumerate(instructions):
        try:
            if count >= most or is_access(i):
                return count
            gives_text(program, v, i)
        except (Uncompiled, SmemsimError):
            return count
    return len(instructions)


def _union(blocks: Sequence[Block]) -> int:
    slots: Any = 0
    for block in blocks:
        slots |= block.slots
    return int(slots)
