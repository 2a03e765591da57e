"""Loops whose end a compiler has written before their begin, put into the order of execution.

    bra.uni HEAD                     bra.uni HEAD
    LATCH: ...                       HEAD: ...
    HEAD: ...                          @p bra LATCH
      @p bra LATCH            ->       ...
      ...                              bra.uni LATCH
      bra.uni LATCH                  LATCH: ...
                                     bra.uni HEAD

Threads at the lowest block run first (`run/engine/scheduler.py`). In the written order, threads that branch would be
at the barrier of LATCH before the others, which join them there otherwise. Triton writes the loop of its products by
tcgen05 in this way. The program's effect is the same: threads fall into HEAD from LATCH only, and nowhere else into
or out of the moved part.
"""

from __future__ import annotations

from smemsim.core.ptx.module import Instruction, Label
from smemsim.run.lower.inline import Inlined

__all__ = ["in_order"]


_LEAVE = ("bra", "brx", "exit", "ret", "trap")


def in_order(inlined: Inlined) -> None:
    """Move the ends of such loops after the last jump to them."""
    if inlined.frames or any(i.op == "brx" for i in inlined.body):
        return  # routines are entered and left by places
    jumps = _jumps(inlined)
    for name in sorted(inlined.labels, key=lambda label: -inlined.labels[label]):
        move = _move(inlined, inlined.labels[name], jumps)
        if move is not None:
            _moved(inlined, *move)
            jumps = _jumps(inlined)


def _goes_on(i: Instruction) -> bool:
    """Do some threads go on after it?"""
    return i.op not in _LEAVE or i.guard is not None


def _target(inlined: Inlined, i: Instruction) -> int | None:
    """The target of a branch."""
    label = i.operands[0] if i.op == "bra" else None
    return inlined.labels.get(label.name) if isinstance(label, Label) else None


def _jumps(inlined: Inlined) -> dict[int | None, list[int]]:
    """The branches to each place, in order."""
    found: dict[int | None, list[int]] = {}
    for n, i in enumerate(inlined.body):
        if i.op == "bra":
            found.setdefault(_target(inlined, i), []).append(n)
    return found


def _move(inlined: Inlined, latch: int, to: dict[int | None, list[int]]) -> tuple[int, int, int] | None:
    """(begin of LATCH, begin of HEAD, the last jump to LATCH) if a loop is written so; `to` has the branches to each
    place.
    """
    body = inlined.body
    if not 0 < latch < len(body) or _goes_on(body[latch - 1]):
        return None
    head = _target(inlined, body[latch - 1])
    if head is None or not latch < head < len(body) or not _goes_on(body[head - 1]):
        return None
    jumps = to.get(latch, [])
    if len(jumps) < 2 or jumps[0] < head or _goes_on(body[jumps[-1]]):
        return None
    return latch, head, jumps[-1]


def _moved(inlined: Inlined, latch: int, head: int, last: int) -> None:
    """Move LATCH after that jump, and let it jump to HEAD."""
    body = inlined.body
    jump, end = body[latch - 1], body[head - 1]
    back = Instruction(jump.op, jump.modifiers, jump.operands, None, end.line, end.location, jump.text)
    inlined.body = [*body[:latch], *body[head : last + 1], *body[latch:head], back, *body[last + 1 :]]
    ahead, behind = last + 1 - head, head - latch

    def now(at: int) -> int:
        if latch <= at < head:
            return at + ahead
        if head <= at <= last:
            return at - behind
        return at + 1 if at > last else at

    inlined.labels = {name: now(at) for name, at in inlined.labels.items()}
