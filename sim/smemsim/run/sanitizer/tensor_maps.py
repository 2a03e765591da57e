"""Tensor maps in global memory that the kernel itself makes: the tensormap proxy (PTX ISA 9.1 §8, proxies; §9.7.13.4,
fence.proxy.tensormap).

A transfer reads its map through a proxy of its own. It sees writes of threads, by tensormap.replace or by stores, only
if the happens-before path to the issuing thread has two fences. The first is a fence.proxy.tensormap::generic.release
of the writer. The second is a fence.proxy.tensormap::generic.acquire that names the map. tensormap.cp_fenceproxy is the
write and the release in one.

A map that the host or an earlier launch has written to global memory needs the acquire, too, in each CTA (CUDA C++
Programming Guide). No failure without it is known, so a missing one is a remark. Maps in parameters and in constant
memory need none.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.global_memory import GlobalShadow
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.history import Written
from smemsim.run.sanitizer.operations import Operation, Operations, Renumbering
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.warps import WARP

__all__ = ["MapsInMemory"]


MOST_FENCES = 8  # of one warp, and one map, that are remembered: later ones know more
BECAUSE = "PTX ISA 9.1 §9.7.13.4 (fence.proxy.tensormap::generic)"
ACQUIRE, RELEASE = "fence.proxy.tensormap::generic.acquire.gpu", "fence.proxy.tensormap::generic.release.gpu"


@dataclasses.dataclass(frozen=True, eq=False)
class _Fence:
    """A fence of a warp. A thread that knows its `operation` is after it. `seen` is what its warp had seen; an acquire
    `knows` releases.
    """

    operation: Operation
    seen: np.ndarray
    knows: tuple[_Fence, ...] = ()

    def covers(self, written: Written, columns: int) -> bool:
        """Had the warp seen a write of its wave?"""
        first = int(self.operation.warps[0]) // columns * columns
        return first <= written.warp < first + columns and bool(self.seen[written.warp - first] >= written.when)


class MapsInMemory:
    """The fences of the tensormap proxy of a wave, and what is wrong with the maps that its transfers read."""

    def __init__(self, clocks: VectorClocks, operations: Operations, reporting: Reporting, shadow: GlobalShadow) -> None:
        self.clocks, self.operations, self.reporting, self.shadow = clocks, operations, reporting, shadow
        self._releases: dict[int, list[_Fence]] = {}  # by warp
        self._acquires: dict[int, dict[int, list[_Fence]]] = {}  # by the map's address, by warp

    def remembered(self) -> list[int]:
        """The numbers of the operations that stand for fences."""
        fences = [*self._releases.values(), *(own for by_warp in self._acquires.values() for own in by_warp.values())]
        return [fence.operation.number for own in fences for kept in own for fence in (kept, *kept.knows)]

    def renumber(self, to: Renumbering) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    def releases(self, i: Instruction, warp: int) -> None:
        """A warp executes fence.proxy.tensormap::generic.release."""
        self._note(self._releases.setdefault(warp, []), i, warp)

    def acquires(self, i: Instruction, warp: int, address: int) -> None:
        """A warp executes fence.proxy.tensormap::generic.acquire of a map."""
        known = tuple(fence for own in self._releases.values() for fence in own if self._is_behind(warp, fence))
        self._note(self._acquires.setdefault(address, {}).setdefault(warp, []), i, warp, known)

    def _note(self, fences: list[_Fence], i: Instruction, warp: int, knows: tuple[_Fence, ...] = ()) -> None:
        operation = self.operations.begin(i, warp * WARP, "fence")
        fences[:] = [*fences[1 - MOST_FENCES :], _Fence(operation, self.clocks.seen[warp].copy(), knows)]
        self.clocks.knows(np.array([warp]), [operation])
        self.clocks.passes(np.array([warp]))

    def _is_behind(self, warp: int, fence: _Fence) -> bool:
        return bool(self.clocks.is_over(warp, fence.operation))

    def used(self, i: Instruction, thread: int, address: int, size: int) -> None:
        """A thread issues a transfer whose map lies at an address of global memory."""
        if self.shadow.object_read(i, thread, address, size):
            return
        warp = thread // WARP
        own = self._acquires.get(address, {})
        behind = [fence for fences in own.values() for fence in fences if self._is_behind(warp, fence)]
        all_written = self.shadow.written(address, size, warp)
        for written in all_written:
            if not self._is_seen(written, behind):
                self._tell(i, warp, address, written, behind)
                return
        if not all_written and not any(self._is_of_cta(fence, warp) for fence in behind) and not self._is_constant(address):
            self._tell_unfenced(i, warp, address)

    def _is_of_cta(self, fence: _Fence, warp: int) -> bool:
        """Is a fence one of a warp's own CTA?"""
        per_cta = self.shadow.table.per_cta
        return int(fence.operation.warps[0]) // per_cta == warp // per_cta

    def _is_constant(self, address: int) -> bool:
        """Does an address lie in constant memory?"""
        launch = self.shadow.x.launch
        constants = ((launch.addresses[v.name], v.size) for v in launch.program.places.globals if v.space == "const")
        return any(begin <= address < begin + size for begin, size in constants)

    def _tell_unfenced(self, i: Instruction, warp: int, address: int) -> None:
        """A remark on a map in global memory that the host or an earlier launch has written, if the CTA has not
        acquired it (rule order.map_in_global_memory).
        """
        said = races.map_not_acquired(Access("use", f"warp {self.reporting.warp(warp)}", i), address)
        self.reporting.x.launch.find(
            said.code, i, said.what, halves=said.halves, why=said.why, repair="fence.proxy.tensormap::generic.acquire.sys [map], 128 before the first use, or pass the map as a __grid_constant__ parameter",
            because="CUDA C++ Programming Guide, tensor maps in global memory; PTX ISA 9.1 §9.7.13.4", milder=Severity.NOTE, operation="the tensor map, before the launch",
        )  # fmt: skip

    def _is_seen(self, written: Written, behind: list[_Fence]) -> bool:
        columns = self.clocks.columns
        if _releases(written.instruction):
            return any(acquire.covers(written, columns) for acquire in behind)
        return any(release.covers(written, columns) for acquire in behind for release in acquire.knows)

    def _tell(self, i: Instruction, warp: int, address: int, written: Written, behind: list[_Fence]) -> None:
        other = written.instruction
        is_acquired = any(fence.covers(written, self.clocks.columns) for fence in behind)
        kind, repair = (
            ("release", f"{RELEASE} in the thread that writes the map, after {other.at} and before what orders the two")
            if is_acquired
            else ("acquire", f"{ACQUIRE} [map], 128 after what orders the two, in the thread that issues {i.at}")
        )
        mine, theirs = self.reporting.access("read", warp, i.site), self.reporting.access("write", written.warp, other.site)
        said = races.map_unfenced(mine, theirs, address, kind)
        self.reporting.tell(
            i, said, repair, BECAUSE,
            cause=races.operation_with("the tensor map", other), other=other, numbers={"map": address},
        )  # fmt: skip


def _releases(i: Instruction) -> bool:
    """Is a write of a map a release too?"""
    return "cp_fenceproxy" in i.modifiers
