"""Waits at mbarriers in a program: what follows them."""

from __future__ import annotations

from typing import Any

from smemsim.core.ptx.module import Instruction
from smemsim.run.lower.cfg import following

__all__ = ["before_loads", "is_wait"]


def before_loads(i: Instruction, x: Any) -> bool:
    """Do loads that complete on an mbarrier, or stores, follow this wait before the next wait and the next read? It
    is then a producer's wait for a free stage.
    """
    blocks = x.program.blocks
    begin = next(((n, k + 1) for n, block in enumerate(blocks) for k, other in enumerate(block.instructions) if other is i), None)
    ways, been = [begin] if begin is not None else [], set[int]()
    while ways:
        n, first = ways.pop()
        for other in blocks[n].instructions[first:] if n < len(blocks) else ():
            if is_wait(other) or other.op in ("wgmma", "ldmatrix", "tcgen05") or (other.op == "ld" and "shared" in other.modifiers):
                break
            if (other.op == "cp" and "mbarrier::complete_tx::bytes" in other.modifiers) or (
                other.op == "st" and "shared" in other.modifiers
            ):
                return True
        else:
            after = [to for to in following(x.program, n) or () if to not in been] if n < len(blocks) else []
            been.update(after)
            ways += [(to, 0) for to in after]
    return False


def is_wait(i: Instruction) -> bool:
    """Is the instruction a wait at an mbarrier?"""
    return i.op == "mbarrier" and i.modifiers[0] in ("try_wait", "test_wait")
