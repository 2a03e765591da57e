"""The stretches of a body within which ptxas takes products into sums, and its loops.

A stretch ends where a branch ends or begins, and at instructions that ptxas makes a branch or a call of: guarded ones that write memory or arrive
somewhere, fences, divisions and roots that are no approximations. Read off the machine code of ptxas 13.0 for each of these instructions between a
product and its sum: *compiled*. A label that nothing jumps to ends nothing, nor does a barrier. ptxas unrolls loops whose end an integer comparison
decides, wholly where that is with a constant; then there are fewer stretches than are written.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from smemsim.ptx.module import Immediate, Instruction, Label, Register

if TYPE_CHECKING:
    from smemsim.gpu.linking.inline import Inlined

__all__ = ["Segments"]

_LEAVE = {"bra", "brx", "call", "ret", "exit", "trap"}
_ENDS = {"brkpt", "fence", "griddepcontrol.launch_dependents", "membar", "pmevent", "setmaxnreg"} | {
    f"tcgen05.{what}" for what in ("alloc", "dealloc", "relinquish_alloc_permit")
}
_NOT_OF_FENCE = ("proxy", "mbarrier_init")  # fence.proxy.* and fence.mbarrier_init end nothing
_WRITES = {
    "atom", "bar", "barrier", "cp", "discard", "fence", "mbarrier", "multimem", "prefetch", "red", "st", "stmatrix", "tcgen05", "tensormap",
}  # fmt: skip
_CALLED = {"div", "rcp", "sqrt"}
_INTEGERS = {"s32", "u32", "b32", "s64", "u64", "b64", "s16", "u16", "b16"}
_WIDE = {"s16", "u16", "s64", "u64"}


def _ends(i: Instruction) -> bool:
    """Does ptxas make more than one basic block of this instruction?"""
    words = set(i.modifiers)
    if i.op == "fence" and any(w.startswith(_NOT_OF_FENCE) for w in i.modifiers):
        return i.guard is not None
    if {i.op, ".".join((i.op, *i.modifiers[:1]))} & _ENDS or (i.guard is not None and i.op in _WRITES):
        return True
    if i.op == "rsqrt":
        return "f64" in words and "ftz" not in words
    if i.op in ("div", "rem") and words & _WIDE:
        return True
    return i.op in _CALLED and not words & {"approx", "full"} and bool(words & {"f32", "f64"})


class Segments:
    """The stretches of a body by their first instructions, and the loops that ptxas may unroll as (first, last) instruction."""

    def __init__(self, inlined: Inlined) -> None:
        body = inlined.body
        self.size = len(body)
        self.next: dict[int, list[int]] = {}  # of instructions that leave: where they may go
        loops: set[tuple[int, int]] = set()
        starts = {0, *(at for name, at in inlined.labels.items() if "#" in name)}  # of functions, inlined or not
        for n, i in enumerate(body):
            if i.op in _LEAVE:
                to = [inlined.labels[name] for name in _targets(i, inlined)]
                stays = i.guard is not None or i.op == "call"
                if i.op == "bra" and to == [n + 1]:
                    continue
                self.next[n] = [*to, *([n + 1] if stays else [])]
                starts |= {n + 1, *to}
                loops |= {(t, n) for t in to if t <= n and _comparison(body, t, n) != "other"}
            elif _ends(i):
                starts.add(n + 1)
        self.starts = sorted(s for s in starts if s < self.size)
        self.loops = sorted(loops)
        self.whole = [loop for loop in self.loops if _comparison(body, *loop) == "constant"]

    def of(self, at: int) -> int:
        """The first instruction of the stretch."""
        return self.starts[bisect.bisect_right(self.starts, at) - 1]

    def end(self, at: int) -> int:
        """The first instruction behind the stretch."""
        k = bisect.bisect_right(self.starts, at)
        return self.starts[k] if k < len(self.starts) else self.size

    def after(self, at: int) -> list[int]:
        """The stretches that may follow the one of `at`."""
        end = self.end(at)
        return [n for n in self.next.get(end - 1, [end]) if n < self.size]

    def unrolled(self, at: int, use: int) -> bool:
        """May the way from a value to its use be in one stretch once loops are unrolled?"""
        if use <= at:
            return any(first <= use and at <= last for first, last in self.loops)
        return any(at < first <= use or at <= last < use for first, last in self.whole)


def _comparison(body: list[Instruction], first: int, last: int) -> str:
    """What decides whether a loop goes on: an integer comparison with a "constant" or a "count", or something "other"; unknown counts as a constant."""
    guard = body[last].guard
    if guard is None:
        return "constant"
    for i in reversed(body[first:last]):
        if i.operands and isinstance(i.operands[0], Register) and i.operands[0].slot == guard.slot:
            if i.op != "setp" or not _INTEGERS & set(i.modifiers):
                return "other"
            return "constant" if any(isinstance(x, Immediate) for x in i.operands) else "count"
    return "constant"


def _targets(i: Instruction, inlined: Inlined) -> list[str]:
    named = [x.name for x in i.operands if isinstance(x, Label)]
    found = [name for one in named for name in inlined.targets.get(one, (one,))]
    return [name for name in found if name in inlined.labels]
