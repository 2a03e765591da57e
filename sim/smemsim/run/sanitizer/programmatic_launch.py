"""A launch that may start before the previous one has ended (programmatic stream serialization; PTX ISA 9.1 §9.7.13.13,
griddepcontrol).

A launch with that attribute may start when all CTAs of the previous launch have executed
griddepcontrol.launch_dependents or have exited. The rules follow.

After griddepcontrol.wait all effects of the first launch on memory are complete and visible. A thread that has not
waited, and does not synchronise with one that has, races with all writes of the first launch. If the first launch
executes griddepcontrol.launch_dependents, the thread also races with its reads.

The exit of a CTA publishes nothing: its writes may become visible after the next launch has started. A fence of device
scope before griddepcontrol.launch_dependents publishes the knowledge of its thread to the start of the next launch.

Strong accesses of both launches with device scope do not race with each other. A read may acquire a release of the
first launch. For its thread, and threads that synchronise with it, it then comes after that launch, and after the
launches that the first one has waited for. The sanitizer does not follow which writes of the first launch the release
covers.

An earlier launch may still run if the first launch has not waited for its end, or has let the next launch start before
that wait. Then a wait is for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.demangle import shorter_name
from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.epoch_numbers import SCOPES, scope_of
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.history import ArrayShadow, History, has_device_fence
from smemsim.run.sanitizer.operations import Operation, Operations
from smemsim.run.sanitizer.races import Access, operation_with, unordered
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Prerequisite"]


BECAUSE = "PTX ISA 9.1 §9.7.13.13 (griddepcontrol)"
REPAIR = "griddepcontrol.wait (cudaGridDependencySynchronize) before {at}, in the same thread or before a barrier"


class Prerequisite:
    """The accesses of earlier launches to global memory, for the warps of a wave of the launch with this `history`.
    `where` names a place in an array.
    """

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, history: History, where: Callable[[Instruction, ArrayShadow, int], str]
    ) -> None:
        self.x, self.clocks, self.operations, self.history, self.where = x, clocks, operations, history, where
        self._waits: list[Operation] = []
        self._acquired: list[tuple[History, Operation]] = []  # strong reads that have found what a launch has released
        self._behind = np.zeros(x.total // WARP, bool)

    def remembered(self) -> list[int]:
        """The numbers of the operations that stand for waits and acquiring reads."""
        return [operation.number for operation in (*self._waits, *(operation for _, operation in self._acquired))]

    def waited(self, i: Instruction, warps: np.ndarray) -> None:
        """Warps execute griddepcontrol.wait."""
        for warp in warps[~self._behind[warps]].tolist():
            operation = self.operations.begin(i, warp * WARP, "wait")
            self._waits.append(operation)
            self.clocks.knows(np.array([warp]), [operation])
        self._behind[warps] = True
        self.history.waits = self.history.is_ordered = True

    def releases(self, warps: np.ndarray) -> None:
        """Warps execute griddepcontrol.launch_dependents."""
        self.history.releases.add(self.are_behind(warps))

    def are_behind(self, warps: np.ndarray) -> bool:
        """Do all actions of these warps come after a wait?"""
        early = distinct(warps[~self._behind[warps]])
        if early.size and self._waits:
            self._behind[early] = self._have_done(early, self._waits)
        return bool(self._behind[early].all())

    def _have_done(self, warps: np.ndarray, operations: list[Operation]) -> np.ndarray:
        """Which warps know one of these operations to be over?"""
        found: np.ndarray = np.any([self.clocks.is_over(warps, operation) for operation in operations], axis=0)
        return found

    def look(self, i: Instruction, memory: np.ndarray, at: np.ndarray, size: int, warps: np.ndarray, *, writes: bool) -> None:
        """Warps access `size` bytes at each of these offsets in an array: X008 for the first that a launch in front
        writes, or reads where these write.
        """
        if self.are_behind(warps):
            return
        for before in self.history.before:
            if (array := before.kept(memory)) is not None:
                early = ~self._behind[warps]
                if known := [operation for history, operation in self._acquired if history is before]:
                    early &= ~self._have_done(warps, known)
                if early.any():
                    self._look(i, before, array, at[early], size, warps[early], writes=writes)

    def _look(
        self, i: Instruction, before: History, array: ArrayShadow, at: np.ndarray, size: int, warps: np.ndarray, *, writes: bool
    ) -> None:
        count = max(1, size >> array.cells.shift)
        cells = (at >> array.cells.shift)[:, None] + np.arange(count)
        epochs, does = self._open(before, array, cells, array.cells.writers, array.cells.line_writers), "writes"
        if writes and before.releases_dependents and not epochs.any():
            epochs, does = self._open(before, array, cells, array.cells.readers, array.cells.line_readers), "reads"
        if epochs.any() and scope_of(i) >= SCOPES["gpu"]:
            epochs = self._weak(i, before, epochs, warps, writes=writes)
        if not epochs.any():
            return
        n, k = np.unravel_index(int(np.argmax(epochs != 0)), epochs.shape)
        other = before.numbers.instructions[int(epochs[n, k]) & loops.INDEX]
        own, first = shorter_name(self.x.launch.program.name), shorter_name(before.name)
        begins = (
            f"kernel '{own}' may start before kernel '{first}' ends (programmatic stream serialization)"
            if before.releases_dependents
            else f"kernel '{own}' may start before the writes of kernel '{first}' are visible (programmatic stream serialization); "
            f"the exit of '{first}' does not change this"
        )
        mine = Access("write" if writes else "read", f"warp {int(warps[n]) % (self.x.stride // WARP)}", i)
        theirs = Access("read" if "read" in does else "write", f"the launch before: kernel '{first}', {other.at} ({other.name})")
        said = unordered(mine, theirs, self.where(i, array, int(cells[n, k])), begins)
        self.x.launch.find(
            said.code, i, said.what, REPAIR.format(at=i.at), because=BECAUSE, operation=operation_with("the launch before", other), arrays=(array.region.begin,),
            why=said.why, halves=said.halves,
        )  # fmt: skip

    def _weak(self, i: Instruction, before: History, epochs: np.ndarray, warps: np.ndarray, *, writes: bool) -> np.ndarray:
        """The epochs of weak accesses, which alone race with a strong one. Warps whose strong read acquires what a
        launch has released are noted.
        """
        index = epochs & loops.INDEX
        strong = (epochs != 0) & (before.numbers.scope[index] >= SCOPES["gpu"])
        if not writes and strong.any() and (_has(i, "acquire") or has_device_fence(self.x.launch.program)):
            released = [before.publishes or _has(before.numbers.instructions[n], "release") for n in index[strong].tolist()]
            rows = np.nonzero(strong)[0][np.array(released, bool)]
            for warp in distinct(warps[rows]).tolist():
                operation = self.operations.begin(i, warp * WARP, "wait")
                first = self.history.before.index(before)
                end = None if before.is_ordered else first + 1  # what it has waited for, or acquired, comes with it
                self._acquired += [(history, operation) for history in self.history.before[first:end]]
                self.history.is_ordered = True
                self.clocks.knows(np.array([warp]), [operation])
        return np.where(strong, 0, epochs)

    @staticmethod
    def _open(before: History, array: ArrayShadow, cells: np.ndarray, fine: np.ndarray, lines: np.ndarray) -> np.ndarray:
        """The entries of a table for cells that the start of this launch does not follow; 0 for none."""
        epochs = _epochs(array.cells, cells, fine, lines)
        if epochs.any():
            epochs = np.where(before.are_published(epochs), 0, epochs)
        return epochs


def _has(i: Instruction, semantics: str) -> bool:
    return semantics in i.modifiers or "acq_rel" in i.modifiers


def _epochs(cells: loops.Cells, places: np.ndarray, fine: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """The entries of a table for cells; 0 for none."""
    if not len(fine):
        return np.zeros(places.shape, np.int64)
    of_line = places >> cells.line - cells.shift
    found: np.ndarray = np.where(cells.split[of_line], fine[places], lines[of_line])
    return found
