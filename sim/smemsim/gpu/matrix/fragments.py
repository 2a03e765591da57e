"""What instructions of whole warps have in common: the registers of a fragment, and threads that are all there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smemsim.errors import InputError
from smemsim.gpu.registry import unmodelled
from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction, Operand, Vector

if TYPE_CHECKING:
    from smemsim.gpu.wave import Wave

__all__ = ["items", "whole_warps"]


def items(operand: Operand, count: int, name: str) -> tuple[Operand, ...]:
    """The registers of a fragment, of a vector or alone; InputError unless they are so many."""
    found = operand.items if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise InputError(f"{name} has {len(found)} registers, this shape needs {count}")
    return found


def whole_warps(i: Instruction, x: Wave, source: str) -> bool:
    """Go on with warps whose threads are all here; Unmodelled where some never can be."""
    if not x.gather():
        return False
    if x.n % WARP:
        raise unmodelled(i, f"in a warp with fewer than 32 threads, or with some that have exited (undefined: {source})")
    return True
