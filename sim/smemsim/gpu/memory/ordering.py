"""What .relaxed, .acquire, .release, .volatile and scopes of an access mean for the watch (PTX ISA 8).

Values are never late here: every store is seen at once. What remains is who may rely on it: a release pattern on an address is what an acquire
pattern on the same address synchronises with. A relaxed or volatile access counts as such a pattern when the program has a fence.
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

__all__ = ["SCOPES", "SEMANTICS", "Ordering", "has_fence", "ordering"]

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
    """`strong`: of the accesses that make no race among themselves."""

    strong: bool
    acquires: bool
    releases: bool

    def acquire(self, x: Wave, piece: Piece) -> None:
        """The threads of a piece have seen what was released at their addresses."""
        for threads, what in _by_address(x, piece):
            x.watch.acquire(x, threads, what)

    def release(self, x: Wave, piece: Piece) -> None:
        """The threads of a piece release what they have seen at their addresses."""
        for threads, what in _by_address(x, piece):
            x.watch.release(x, threads, what)
            x.watch.complete(what)


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
    fences = semantics in ("relaxed", "volatile") and has_fence(c)
    return Ordering(
        semantics != "weak",
        semantics in ("acquire", "acq_rel") or fences,
        semantics in ("release", "acq_rel") or fences,
    )


def has_fence(c: Linker) -> bool:
    """Has the program a fence, behind which a relaxed arrival counts as a release?"""
    return any(i.op == "membar" or (i.op == "fence" and i.modifiers[0] in ("sc", "acq_rel", "acquire", "release")) for i in c.inlined.body)
