"""Orders and scopes of accesses, and fences.

Without a schedule (`late.py`) values are never late: every store is visible at once. Only the order remains: a release
pattern on an address synchronises with an acquire pattern on the same address. A relaxed or volatile store is a release
with a fence before it, such a load an acquire with one after it. The scopes of both must include each other
(`run/sanitizer/happens_before.py`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.lower.dataflow import passes_messages
from smemsim.run.scopes import GPU, level

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["SCOPES", "SEMANTICS", "Ordering", "ordering"]


# ---- What .relaxed, .acquire, .release, .volatile and scopes of an access mean for the sanitizer (PTX ISA 8)


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
    """`strong`: the access does not race with other strong ones within the scope with this `level`. `reads`, `writes`:
    others may synchronise with it, by itself or with a fence.
    """

    strong: bool
    reads: bool
    writes: bool
    acquires: bool
    releases: bool
    is_atomic: bool
    level: int = GPU


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


# ---- fence and membar (PTX ISA 9.1 §9.7.13): all stores are visible at once here; the sanitizer gets fences as
# events, and knows what they order


_SEMANTICS = {"sc", "acq_rel", "acquire", "release"}
_SYNC_RESTRICT = {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"}
_ASYNC = {"async", "async.shared::cta", "async.shared::cluster"}
_OTHERS = {"alias", "async.global"}
# ptxas 13.0.88 takes these
_ASYNC_GENERIC = (
    ("async::generic", "acquire", "sync_restrict::shared::cluster", "cluster"),
    ("async::generic", "release", "sync_restrict::shared::cta", "cluster"),
)
MAPS = "tensormap::generic"


@implements("fence")
def build_fence(i: Instruction, c: Linker) -> Step:
    """`fence.proxy.async` is the one that counts; `.async.global` counts for global memory alone."""
    rest = list(i.modifiers)
    if rest[:1] == ["proxy"]:
        if MAPS in rest:
            return _maps(i, c)
        return _proxy(i, rest[1:])
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
    """`membar.cta`, `.gl`, `.sys`, `membar.proxy.alias`: the older names of `fence`."""
    if i.modifiers[:1] == ("proxy",):
        if i.modifiers != ("proxy", "alias"):
            raise InputError(f"ptxas refuses {i.name}: membar.proxy has one form, membar.proxy.alias; write {FENCES}")
        return build_fence(i, c)
    if len(i.modifiers) != 1 or i.modifiers[0] not in ("cta", "gl", "sys"):
        raise InputError("membar needs one level: .cta, .gl or .sys")
    return _memory(i, acquires=True, releases=True, scope=level(i.modifiers[0]))


FENCES = "fence.proxy.async or fence.proxy.tensormap::generic"


def _proxy(i: Instruction, words: list[str]) -> Step:
    """`fence.proxy` of the async and of the alias proxy."""
    proxy = ".".join(words)
    if proxy in _ASYNC or sorted(words) in map(sorted, _ASYNC_GENERIC):
        return lambda x: _async(x, i)
    if words[:1] == ["tensormap"]:
        raise InputError(f"ptxas refuses {i.name}: write fence.proxy.{MAPS}.release.gpu, or .acquire.gpu with the map's address and 128")
    if words[:1] == ["async::generic"]:
        forms = " and ".join(f"fence.proxy.{'.'.join(form)}" for form in _ASYNC_GENERIC)
        raise InputError(f"ptxas refuses {i.name}: the forms are {forms}")
    if proxy not in _OTHERS:
        raise unmodelled(i)
    return _async_global(i) if proxy == "async.global" else _nothing


def _memory(i: Instruction, *, acquires: bool, releases: bool, scope: int) -> Step:
    def fence(x: Wave) -> None:
        if x.events.fenced:
            x.events.fenced(x, i, acquires=acquires, releases=releases, scope=scope)

    return fence


def _async(x: Wave, i: Instruction) -> None:
    if x.events.proxy_fenced:
        x.events.proxy_fenced(x, i)


def _async_global(i: Instruction) -> Step:
    def fence(x: Wave) -> None:
        if x.events.proxy_fenced:
            x.events.proxy_fenced(x, i, only_global=True)

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
        if x.events.maps_fenced:
            x.events.maps_fenced(x, i, None if address is None else np.broadcast_to(np.asarray(address(x)), x.threads.shape), scope)

    return fence


def _publish(i: Instruction) -> Step:
    def fence(x: Wave) -> None:
        if x.events.initialisations_fenced:
            x.events.initialisations_fenced(x, i)

    return fence


def _nothing(x: Wave) -> None:
    pass
