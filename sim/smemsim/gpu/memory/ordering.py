"""What .relaxed, .acquire, .release, .volatile and scopes of an access mean for the watch (PTX ISA 8).

Values are never late here: every store is seen at once. What remains is who may rely on it: a release pattern on an address is what an acquire
pattern on the same address synchronises with. A relaxed or volatile store is one with a fence in front of it, such a load with one behind it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.memory.spaces import Piece
from smemsim.gpu.registry import unmodelled
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__ = ["SCOPES", "SEMANTICS", "Ordering", "ordering"]

SCOPES = ("cta", "cluster", "gpu", "sys")
SEMANTICS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
# Semantics by operation; ptxas 13.0.88 takes these.
_OF_OPERATION = {
    "ld": ("weak", "relaxed", "acquire", "volatile"),
    "ldu": ("weak",),
    "st": ("weak", "relaxed", "release", "volatile"),
    "red": ("relaxed", "release"),
    "atom": ("relaxed", "acquire", "release", "acq_rel"),
}


@dataclasses.dataclass(frozen=True)
class Ordering:
    """`strong`: of the accesses that make no race among themselves. `reads`, `writes`: others may synchronise with it, by what it is or by a fence."""

    strong: bool
    reads: bool
    writes: bool
    acquires: bool
    releases: bool
    is_atomic: bool

    def acquire(self, x: Wave, piece: Piece) -> None:
        """The threads of a piece have seen what was released at their addresses."""
        for threads, what in _by_address(x, piece):
            x.watch.acquire(x, threads, what, relaxed=not self.acquires)

    def release(self, x: Wave, piece: Piece) -> None:
        """The threads of a piece release what they have seen at their addresses."""
        for threads, what in _by_address(x, piece):
            x.watch.stored(threads, what, relaxed=not self.releases, replaces=not self.is_atomic)


def _by_address(x: Wave, piece: Piece) -> list[tuple[np.ndarray, tuple[str, int, int]]]:
    threads = x.threads if piece.part is None else x.threads[piece.part]
    memory = piece.memory.__array_interface__["data"][0]
    return [(threads[piece.at == at], (piece.space, memory, at)) for at in np.unique(piece.at).tolist()]


def ordering(i: Instruction, c: Linker, rest: list[str], *, atomic: bool = False) -> Ordering:
    """Take the semantics and the scope off a list of modifiers."""
    found = [m for m in rest if m in SEMANTICS]
    scopes = [m for m in rest if m in SCOPES]
    for m in (*found, *scopes):
        rest.remove(m)
    if "mmio" in found:
        found.remove("mmio")
        if not atomic and (found, scopes) != (["relaxed"], ["sys"]):
            raise unmodelled(i, ".mmio needs .relaxed.sys")
    if len(found) > 1 or len(scopes) > 1:
        raise unmodelled(i, f"{' '.join((*found, *scopes))} together")
    semantics = found[0] if found else "relaxed" if atomic else "weak"
    if semantics not in _OF_OPERATION.get(i.op, SEMANTICS):
        raise unmodelled(i, f".{semantics}")
    if not atomic and (semantics in ("weak", "volatile")) == bool(scopes):
        raise unmodelled(i, f".{semantics} {'with' if scopes else 'without'} a scope")
    strong = semantics != "weak"
    acquires, releases = semantics in ("acquire", "acq_rel"), semantics in ("release", "acq_rel")
    fenced = strong and _has_fence(c)
    return Ordering(strong, acquires or fenced, releases or fenced or _replaces(i, c, strong), acquires, releases, atomic)


def _replaces(i: Instruction, c: Linker, strong: bool) -> bool:
    """May a store without .release end what others have released at its address?"""
    return strong and i.op == "st" and any("release" in other.modifiers and other.op == "st" for other in c.inlined.body)


def _has_fence(c: Linker) -> bool:
    """Has the program a fence at all, with which relaxed accesses order?"""
    return any(i.op in ("fence", "membar") and i.modifiers[:1] != ("proxy",) for i in c.inlined.body)
