"""Values that nobody has written: loaded ahead, and thrown away or used.

Compilers peel iterations off loops and guard what they do, but not always what they read: Triton loads the product of an iteration that a causal mask
leaves out, reduces it, and drops it by `selp`, `@%p` or a branch. Such a value is followed through the registers, until it is dropped or has an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Address, Instruction, Pair, Register, Vector

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Block
    from smemsim.gpu.wave import Wave

__all__ = ["Unused"]

# Operations without an effect but their result, operand 0.
_PURE = frozenset(
    [
        "abs",
        "add",
        "and",
        "bfe",
        "bfi",
        "bfind",
        "brev",
        "clz",
        "cnot",
        "copysign",
        "cos",
        "cvt",
        "div",
        "dp2a",
        "dp4a",
        "ex2",
        "fma",
        "fns",
        "lg2",
        "lop3",
        "mad",
        "mad24",
        "max",
        "min",
        "mov",
        "mul",
        "mul24",
        "neg",
        "not",
        "or",
        "popc",
        "prmt",
        "rcp",
        "redux",
        "rem",
        "rsqrt",
        "sad",
        "selp",
        "set",
        "setp",
        "shf",
        "shfl",
        "shl",
        "shr",
        "sin",
        "slct",
        "sqrt",
        "sub",
        "tanh",
        "testp",
        "vote",
        "xor",
    ]
)
_Found = tuple[Instruction, str, str]  # the load, what is said of it, the repair


class Unused:
    """The registers of each warp that hold what nobody has written."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[set[int], _Found]] = {}
        self.arriving: dict[int, _Found] = {}  # by loads of the block that runs

    def loaded(self, warp: int, i: Instruction, message: str, repair: str) -> None:
        """A warp loads such values: told as R507 once they have an effect."""
        self.arriving[warp] = (i, message, repair)

    def follow(self, x: Wave, block: Block) -> None:
        """The running threads have executed a block."""
        warps = x.threads // WARP
        for warp in np.unique(warps).tolist():
            arriving, (held, found) = self.arriving.pop(warp, None), self.held.pop(warp, (set(), None))
            found = arriving or found
            if found is None:
                continue
            running = x.threads[warps == warp]
            used = self._used(x, block, running, held, found[0] if arriving else None)
            if used:
                i, message, repair = found
                x.launch.find("R507", i, message, repair)
            elif held:
                self.held[warp] = held, found

    def _used(self, x: Wave, block: Block, running: np.ndarray, held: set[int], load: Instruction | None) -> bool:
        """Has a value of the registers `held`, which are brought up to date, an effect?"""
        for i in block.instructions:
            if i is load:
                held.update(slot for operand in i.operands if not isinstance(operand, Address) for slot in _slots(operand))
                continue
            tainted = not held.isdisjoint(_read(i))
            if not tainted and held.isdisjoint(_written(i)):
                continue
            executed = self._value(x, i.guard, running) if i.guard is not None and held.isdisjoint(_slots(i.guard)) else True
            if executed is False:
                continue
            if tainted and i.op not in _PURE:
                return True
            if tainted and not (i.op == "selp" and self._passed_over(x, i, running, held)):
                held.update(_written(i))
            elif i.guard is None and len(running) == WARP:
                held.difference_update(_written(i))
        return False

    def _passed_over(self, x: Wave, i: Instruction, running: np.ndarray, held: set[int]) -> bool:
        """Does a selp take the other operand?"""
        _, first, second, predicate = i.operands
        in_first, in_second = (not held.isdisjoint(_slots(operand)) for operand in (first, second))
        return held.isdisjoint(_slots(predicate)) and in_first is not in_second and self._value(x, predicate, running) is in_second

    def _value(self, x: Wave, predicate: Any, running: np.ndarray) -> bool | None:
        """What a predicate is in all threads that run, None where they differ."""
        values = x.r[predicate.slot][running] ^ predicate.negated if isinstance(predicate, Register) else np.zeros(0, bool)
        return bool(values[0]) if len(values) and (values == values[0]).all() else None


def _slots(operand: Any) -> Iterator[int]:
    if isinstance(operand, Register):
        yield operand.slot
    elif isinstance(operand, Address):
        for part in (operand.base, *(operand.coordinates or ())):
            yield from _slots(part)
    elif isinstance(operand, Pair):
        yield from _slots(operand.first)
        yield from _slots(operand.second)
    elif hasattr(operand, "items"):
        for one in operand.items:
            yield from _slots(one)


def _writes_first(i: Instruction) -> bool:
    """Is operand 0 a result?"""
    return (
        bool(i.operands) and isinstance(i.operands[0], (Register, Pair, Vector)) and (i.op in _PURE or i.op in ("ld", "ldmatrix", "atom"))
    )


def _written(i: Instruction) -> Iterator[int]:
    return _slots(i.operands[0]) if _writes_first(i) else iter(())


def _read(i: Instruction) -> Iterator[int]:
    for operand in (*(i.operands[1:] if _writes_first(i) else i.operands), i.guard):
        yield from _slots(operand)
