"""Orders and scopes of accesses, and fences.

Without a schedule (`late.py`) values are never late: every store is seen at once. What remains is who may rely on it: a release pattern on an address is what an acquire
pattern on the same address synchronises with. A relaxed or volatile store is one with a fence in front of it, such a load with one behind it.
Both must include each other in their scopes, which `run/sanitizer/happens_before.py` looks at.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.run.accesses import Piece
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.lower.dataflow import passes_messages
from smemsim.run.scopes import GPU, level

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["SCOPES", "SEMANTICS", "Ordering", "ordering"]


# ---- What .relaxed, .acquire, .release, .volatile and scopes of an access mean for the watch (PTX ISA 8)


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


Access: TypeAlias = tuple[np.ndarray, tuple[str, int, int]]  # threads, and what they touch: a space, its memory, the place there


@dataclasses.dataclass(frozen=True)
class Ordering:
    """`strong`: of the accesses that make no race among themselves, within the scope whose `level` this is. `reads`, `writes`: others may synchronise with
    it, by what it is or by a fence."""

    strong: bool
    reads: bool
    writes: bool
    acquires: bool
    releases: bool
    is_atomic: bool
    level: int = GPU

    def acquire(self, x: Wave, piece: Piece) -> None:
        """The threads of a piece have seen what was released at their addresses."""
        if self._is_apart(x, piece):
            return
        for alike in _by_warps((threads, what) for threads, what in _by_address(x, piece) if not self._takes_turns(threads, what)):
            x.sanitizer.loaded(alike, relaxed=not self.acquires, scope=self.level)

    def release(self, x: Wave, piece: Piece, which: np.ndarray | None = None) -> None:
        """The threads of a piece, or `which` of them have written, release what they have seen at their addresses.

        Of several warps that do so atomically at one address each has seen those before it, and not those behind it.
        """
        if self._is_apart(x, piece):
            return
        wrote = np.ones(x.total, bool)
        if which is not None:
            wrote[(x.threads if piece.part is None else x.threads[piece.part])[~which]] = False
        given: dict[str, Any] = {"relaxed": not self.releases, "replaces": not self.is_atomic, "scope": self.level}
        apart, turns = [], []
        for threads, what in _by_address(x, piece):
            if self._takes_turns(threads, what):
                turns.append((threads, what))
            else:
                apart.append((threads[wrote[threads]], what))
        # Of lanes that others of their warp have to hear of, each releases by itself.
        are_followed = bool(turns and (x.sanitizer.unreleased.stores or len(x.sanitizer.freed.loads)))
        for some in [each for access in turns for each in _in_turn([access])] if are_followed else _in_turn(turns):
            for alike in some:
                x.sanitizer.loaded(alike, relaxed=not self.acquires, scope=self.level)
                if stored := alike if which is None else [(own[wrote[own]], what) for own, what in alike if wrote[own].any()]:
                    x.sanitizer.stored(stored, **given)
        for alike in _by_warps((threads, what) for threads, what in apart if len(threads)):
            x.sanitizer.stored(alike, **given)

    def _is_apart(self, x: Wave, piece: Piece) -> bool:
        """Does nobody synchronise by an atomic: is it relaxed, and has it nothing to hand on?"""
        if not self.is_atomic or self.acquires or self.releases or piece.space == "local":
            return False
        threads, memory = x.threads if piece.part is None else x.threads[piece.part], piece.memory.__array_interface__["data"][0]
        return not x.sanitizer.hands_on_at(threads, piece.space, memory, piece.at)

    def _takes_turns(self, threads: np.ndarray, what: tuple[str, int, int]) -> bool:
        return what[0] == "global" and self.is_atomic and self.reads and self.writes and threads[0] >> 5 != threads[-1] >> 5


def _by_address(x: Wave, piece: Piece) -> list[Access]:
    if piece.space == "local":
        return []
    threads, at = x.threads if piece.part is None else x.threads[piece.part], piece.at
    memory = piece.memory.__array_interface__["data"][0]
    order = np.argsort(at, kind="stable")
    ascending = at[order]
    begins = np.flatnonzero(np.diff(ascending, prepend=ascending[:1] - 1))
    return [
        (own, (piece.space, memory, place))
        for own, place in zip(np.split(threads[order], begins[1:]), ascending[begins].tolist(), strict=True)
    ]


def _by_warps(accesses: Iterable[Access]) -> Iterable[list[Access]]:
    """Accesses of different addresses by the warps of their threads."""
    alike: dict[tuple[int, ...], list[Access]] = {}
    for access in accesses:
        warps = access[0] >> 5
        alike.setdefault((int(warps[0]),) if warps[0] == warps[-1] else tuple(distinct(warps).tolist()), []).append(access)
    return alike.values()


def _in_turn(accesses: list[Access]) -> Iterable[list[list[Access]]]:
    """Accesses of addresses by several warps each, in turn: addresses at which the same warps come, and none of these elsewhere in between, go together. Of each such
    group what the first warp does at all of them, the second one, and so on. Clocks are of warps: what a warp hears at one of these addresses, it hands on at all."""
    groups: list[list[list[Access]]] = []
    last: dict[int, int] = {}  # by warp: the group in which it came last
    of: dict[tuple[int, ...], int] = {}
    for threads, what in accesses:
        of_threads = (threads >> 5).tolist()
        begins = [0, *(k for k in range(1, len(of_threads)) if of_threads[k] != of_threads[k - 1]), len(of_threads)]
        each = [threads[begin:end] for begin, end in itertools.pairwise(begins)]
        warps = tuple(of_threads[begin] for begin in begins[:-1])
        n = of.get(warps, -1)
        if n < 0 or any(last[warp] != n for warp in warps):
            n = of[warps] = len(groups)
            groups.append([[] for _ in warps])
            last.update(dict.fromkeys(warps, n))
        for alike, own in zip(groups[n], each, strict=True):
            alike.append((own, what))
    return groups


def ordering(i: Instruction, c: Linker, rest: list[str], *, atomic: bool = False) -> Ordering:
    """Take the semantics and the scope off a list of modifiers."""
    semantics_words = [m for m in rest if m in SEMANTICS]
    scopes = [m for m in rest if m in SCOPES]
    for m in (*semantics_words, *scopes):
        rest.remove(m)
    if "mmio" in semantics_words:
        semantics_words.remove("mmio")
        if not atomic and (semantics_words, scopes) != (["relaxed"], ["sys"]):
            raise unmodelled(i, ".mmio needs .relaxed.sys")
    if len(semantics_words) > 1 or len(scopes) > 1:
        raise unmodelled(i, f"{' '.join((*semantics_words, *scopes))} together")
    semantics = semantics_words[0] if semantics_words else "relaxed" if atomic else "weak"
    if semantics not in _OF_OPERATION.get(i.op, SEMANTICS):
        raise unmodelled(i, f".{semantics}")
    if not atomic and (semantics in ("weak", "volatile")) == bool(scopes):
        raise unmodelled(i, f".{semantics} {'with' if scopes else 'without'} a scope")
    strong = semantics != "weak"
    acquires, releases = semantics in ("acquire", "acq_rel"), semantics in ("release", "acq_rel")
    fenced = strong and _has_fence(c)
    fenced |= strong and any(
        "release" in other.modifiers and other.op in ("st", "atom", "red") for other in c.inlined.body
    )  # hands on, or ends
    fenced |= strong and passes_messages(c.inlined.body)
    wide = level(scopes[0]) if scopes else GPU
    return Ordering(strong, acquires or fenced, releases or fenced, acquires, releases, atomic, wide)


def _has_fence(c: Linker) -> bool:
    """Has the program a fence at all? Without one relaxed accesses order nothing, and need not be followed."""
    return any((i.op in ("fence", "membar") and i.modifiers[:1] != ("proxy",)) or MAPS in i.modifiers for i in c.inlined.body)


# ---- fence and membar (PTX ISA 9.1 §9.7.13): everything is seen at once here; the watch hears of them, and knows what they order


_SEMANTICS = {"sc", "acq_rel", "acquire", "release"}
_SYNC_RESTRICT = {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"}
_ASYNC = {"async", "async.shared::cta", "async.shared::cluster", "async::generic"}
_OTHERS = {"alias", "async.global", "tensormap"}
MAPS = "tensormap::generic"


@implements("fence")
def build_fence(i: Instruction, c: Linker) -> Step:
    """`fence.proxy.async` is the one that counts; `.async.global` counts for global memory alone."""
    rest = list(i.modifiers)
    if rest[:1] == ["proxy"]:
        if MAPS in rest:
            return _maps(i, c)
        proxy = ".".join(m for m in rest[1:] if m in ("async", "alias", "global", "tensormap") or ("::" in m and m not in _SYNC_RESTRICT))
        left = [m for m in rest[1:] if m not in proxy.split(".") and m not in _SYNC_RESTRICT | _SEMANTICS | set(SCOPES)]
        if left or proxy not in _ASYNC | _OTHERS:
            raise unmodelled(i)
        if proxy in _ASYNC:
            return lambda x: _async(x, i)
        return _async_global(i) if proxy == "async.global" else _nothing
    if rest[:1] == ["mbarrier_init"]:
        if set(rest[1:]) != {"release", "cluster"}:
            raise InputError("fence.mbarrier_init has one form: fence.mbarrier_init.release.cluster")
        return _publish(i)
    if set(rest) - _SEMANTICS - set(SCOPES) - _SYNC_RESTRICT:
        raise unmodelled(i)
    if len(set(rest) & set(SCOPES)) != 1:
        raise InputError("a fence needs one scope: .cta, .cluster, .gpu or .sys")
    return _memory(i, acquires="release" not in rest, releases="acquire" not in rest, scope=level(next(m for m in rest if m in SCOPES)))


@implements("membar")
def build_membar(i: Instruction, c: Linker) -> Step:
    """`membar.cta`, `.gl`, `.sys`, `membar.proxy.*`: the older names of `fence`."""
    if i.modifiers[:1] == ("proxy",):
        return build_fence(i, c)
    if len(i.modifiers) != 1 or i.modifiers[0] not in ("cta", "gl", "sys"):
        raise InputError("membar needs one level: .cta, .gl or .sys")
    return _memory(i, acquires=True, releases=True, scope=level(i.modifiers[0]))


def _memory(i: Instruction, *, acquires: bool, releases: bool, scope: int) -> Step:
    def fence(x: Wave) -> None:
        if x.observer is not None:
            x.observer.fenced(x, i, acquires=acquires, releases=releases, scope=scope)

    return fence


def _async(x: Wave, i: Instruction) -> None:
    if x.observer is not None:
        x.observer.proxy_fenced(x, i)


def _async_global(i: Instruction) -> Step:
    def fence(x: Wave) -> None:
        if x.observer is not None:
            x.observer.proxy_fenced(x, i, only_global=True)

    return fence


def _maps(i: Instruction, c: Linker) -> Step:
    """`fence.proxy.tensormap::generic.release.SCOPE` and `.acquire.SCOPE [map], 128` (PTX ISA 9.1 §9.7.13.4)."""
    words, operands = Modifiers(i, "proxy", MAPS), Operands(i)
    acquires = words.need("acquire", "release") == "acquire"
    scope = level(words.need(*SCOPES))
    words.end()
    address = c.address(operands.next("the address of a tensor map")) if acquires else None
    if acquires and operands.next("a size") != Immediate(TENSOR_MAP.parts.size):
        raise unmodelled(i, f"a size that is not {TENSOR_MAP.parts.size}")
    operands.end()

    def fence(x: Wave) -> None:
        if x.observer is not None:
            x.observer.maps_fenced(x, i, None if address is None else np.broadcast_to(np.asarray(address(x)), x.threads.shape), scope)

    return fence


def _publish(i: Instruction) -> Step:
    def fence(x: Wave) -> None:
        if x.observer is not None:
            x.observer.initialisations_fenced(x, i)

    return fence


def _nothing(x: Wave) -> None:
    pass
