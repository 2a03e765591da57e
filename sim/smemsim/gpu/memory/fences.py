"""fence and membar (PTX ISA 9.7.13): everything is seen at once here; the watch hears of them, and knows what they order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smemsim.errors import InputError
from smemsim.gpu.memory.ordering import SCOPES
from smemsim.gpu.registry import Step, implements, unmodelled
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

_SEMANTICS = {"sc", "acq_rel", "acquire", "release"}
_SYNC_RESTRICT = {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"}
_ASYNC = {"async", "async.shared::cta", "async.shared::cluster", "async::generic"}
_OTHERS = {"alias", "async.global", "tensormap", "tensormap::generic"}


@implements("fence")
def build_fence(i: Instruction, c: Linker) -> Step:
    """`fence.proxy.async` is the one that counts; `.async.global` is for global memory, which is not watched."""
    rest = list(i.modifiers)
    if rest[:1] == ["proxy"]:
        proxy = ".".join(m for m in rest[1:] if m in ("async", "alias", "global", "tensormap") or ("::" in m and m not in _SYNC_RESTRICT))
        left = [m for m in rest[1:] if m not in proxy.split(".") and m not in _SYNC_RESTRICT | _SEMANTICS | set(SCOPES)]
        if left or proxy not in _ASYNC | _OTHERS:
            raise unmodelled(i)
        if proxy in _ASYNC:
            return lambda x: _async(x, i)
        return _nothing
    if rest[:1] == ["mbarrier_init"]:
        if set(rest[1:]) != {"release", "cluster"}:
            raise InputError("fence.mbarrier_init has one form: fence.mbarrier_init.release.cluster")
        return _publish
    if set(rest) - _SEMANTICS - set(SCOPES) - _SYNC_RESTRICT:
        raise unmodelled(i)
    if len(set(rest) & set(SCOPES)) != 1:
        raise InputError("a fence needs one scope: .cta, .cluster, .gpu or .sys")
    return _memory(acquires="release" not in rest, releases="acquire" not in rest)


@implements("membar")
def build_membar(i: Instruction, c: Linker) -> Step:
    """The older names: membar.cta, .gl, .sys; membar.proxy.*."""
    if i.modifiers[:1] == ("proxy",):
        return build_fence(i, c)
    if len(i.modifiers) != 1 or i.modifiers[0] not in ("cta", "gl", "sys"):
        raise InputError("membar needs one level: .cta, .gl or .sys")
    return _memory(acquires=True, releases=True)


def _memory(*, acquires: bool, releases: bool) -> Step:
    def fence(x: Wave) -> None:
        if x.watch is not None:
            x.watch.fence(x, acquires=acquires, releases=releases)

    return fence


def _async(x: Wave, i: Instruction) -> None:
    if x.watch is not None:
        x.watch.fence_async(x, i)


def _publish(x: Wave) -> None:
    if x.watch is not None:
        x.watch.publish(x)


def _nothing(x: Wave) -> None:
    pass
