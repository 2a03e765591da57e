"""The sanitizer's handlers for events that concern several of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.accesses import Piece, for_part
from smemsim.run.async_ops import TensorAccess
from smemsim.run.events import Access, AtMbarriers, GroupKind, barrier_key
from smemsim.run.sanitizer.async_dispatch import AsyncEvents
from smemsim.run.sanitizer.patterns import acquire, release
from smemsim.run.sanitizer.races import copy_after_mbarrier
from smemsim.run.scopes import CLUSTER, CTA
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Barrier, Cta, Mbarrier, Ordering, Wave

__all__ = ["Events"]


LIVES = "PTX ISA 9.1 §9.7.13.15.9, 9.7.13.15.10 (no other use of its bytes before mbarrier.inval)"


class Events(AsyncEvents):
    """The events of execution, for `Sanitizer` and `SanitizerOfFirst`. Each handler calls the parts that need the
    event.
    """

    def block_entered(self: Any, x: Wave, block: Any) -> None:
        """A block names registers."""
        if self.wants.registers:
            self.names(x, block)

    def accessed(self: Any, x: Wave, access: Access) -> None:
        """Threads read, or have written. Their accesses to the system's part of shared memory are not followed."""
        if access.piece.space == "reserved":
            if access.kind == "copy":
                self.taint.taken()
        elif access.kind == "read":
            self._has_read(x, access)
        elif access.kind == "write":
            self._has_written(x, access)
        else:
            self.copy(x, access.instruction, access.piece.at, access.size, access.values)

    def _has_read(self: Any, x: Wave, access: Access) -> None:
        _, i, _, piece, size, is_strong, scope, is_joint, *_ = access
        if is_joint and self.apart.missing_writes.stores:
            self.apart.missing_writes.accessed(i, piece, size, "read")
        self.apart.missing_writes.read(i, piece, size)
        if piece.space == "global":
            if self.globals is not None:
                for_part(x, piece, lambda: self.globals.read(i, piece, size))
        elif piece.space == "shared":
            if is_strong:
                for_part(x, piece, lambda: self.strong_read(x, i, piece.at, size, scope))
            else:
                for_part(x, piece, lambda: self.read(x, i, piece.at, size))
        elif piece.space == "local":
            self.taint.reads_local(i, piece, size)

    def _has_written(self: Any, x: Wave, access: Access) -> None:
        _, i, _, piece, size, is_strong, scope, is_joint, has_changed, values = access
        if is_joint and self.apart.missing_writes.stores:
            self.apart.missing_writes.accessed(i, piece, size, "overwritten")
        self.taint.writes(piece, size)
        if self.apart.missing_writes.stores and has_changed:
            self.apart.missing_writes.wrote(i, piece, size)
        if id(i) in self.lost.stores:
            for_part(x, piece, lambda: self.lost.look(i, piece, size, values))
        if piece.space == "global" and self.globals is not None:
            if has_changed:
                for_part(x, piece, lambda: self.globals.write(i, piece, size, values))
            else:
                for_part(x, piece, lambda: self.globals.read(i, piece, size))
        if piece.space != "shared":
            return
        if is_strong:
            for_part(x, piece, lambda: self.strong_write(x, i, piece.at, size, changed=has_changed, scope=scope))
        else:
            for_part(x, piece, lambda: self.write(x, i, piece.at, size, values))

    def updates(self: Any, x: Wave, access: Access) -> None:
        """Threads are about to read and change something by an atomic operation; an exchange takes what is there."""
        i, piece, size = access.instruction, access.piece, access.size
        if "async" in i.modifiers:
            self.looks_at_unwritten(piece.at, size)
            return
        if "exch" in i.modifiers:
            for_part(x, piece, lambda: self.takes(x, i, piece, size))
        elif piece.space == "global" and self.globals is not None:
            for_part(x, piece, lambda: self.globals.marks.updates(i, piece, size))

    def reduced(self: Any, x: Wave, access: Access) -> None:
        """An operation on uninitialised memory leaves it uninitialised."""
        self.changed_nothing(x, access.instruction, self.early.to_change)

    def acquires_at(self: Any, x: Wave, i: Instruction, piece: Piece, order: Ordering) -> None:
        """The threads of a piece have seen what was released at their addresses."""
        acquire(self, x, piece, order)

    def releases_at(self: Any, x: Wave, i: Instruction, piece: Piece, order: Ordering, which: np.ndarray | None = None) -> None:
        """The threads of a piece release at their addresses what they have seen."""
        release(self, x, piece, order, which)

    def lanes_met(self: Any, x: Wave, i: Instruction, threads: np.ndarray | None = None, times: int = 1, *, are_done: bool = False) -> None:
        """Lanes of each warp execute an instruction together."""
        self.lanes.meet(threads, times=times, at=None if are_done else i)

    # ---- barriers of threads

    def barrier_met(self: Any, x: Wave, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        """Threads meet: release, complete and acquire in one."""
        if count is not None and WARP < count < x.stride:
            for cta in ctas.tolist():
                key, title = barrier_key(cta, number), f"barrier {number} of CTA {x.ctas[cta].number}"
                self.named.arrives(i, key, title, distinct(threads[x.cta_of[threads] == cta] // WARP), waits=True)
                self.named.complete(key)
        self.meet(x, ctas, threads, is_for_all=count is None)

    def barrier_arrived(
        self: Any, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray, *, waits: bool = True, is_relaxed: bool = False
    ) -> None:
        """Threads arrive: they release."""
        if is_relaxed:
            self.release_relaxed(x, i, threads, barrier.key)
            return
        if barrier.count not in (None, WARP):
            self.named.arrives(i, barrier.key, barrier.title, distinct(threads // WARP), waits=waits)
        self.release(x, threads, barrier.key)

    def barrier_completed(self: Any, x: Wave, barrier: Barrier) -> None:
        """The phase is over."""
        if barrier.count is None:
            self.left(x, barrier.own, barrier.key)
        self.named.complete(barrier.key)
        self.complete([barrier.key])
        if barrier.scope == CLUSTER:
            self.met(barrier.own.start // WARP, (barrier.own.stop - barrier.own.start) // WARP)

    def barrier_passed(self: Any, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray) -> None:
        """Threads go on: they acquire."""
        self.acquire(x, threads, barrier.key, meets=barrier.scope)
        if barrier.scope == CLUSTER:
            self.at_end.lifetimes.waited(barrier.own.start // WARP, threads)

    # ---- mbarriers

    def mbarriers_initialised(self: Any, x: Wave, i: Instruction, made: AtMbarriers, at: np.ndarray) -> None:
        """Objects, and the words that they lie in."""
        self.makes(i, [(barrier, int(threads[-1])) for threads, barrier in made])
        self.initialised(x, i, at)

    def mbarrier_ends(self: Any, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """X005 where threads end an mbarrier on which a copy may still complete."""
        pending = self.not_waited_for(barrier, threads)
        if pending is not None:
            said = copy_after_mbarrier(i, pending.instruction, f"{barrier.offset:#x} of CTA {barrier.cta.number}")
            x.launch.find(
                said.code, i, said.what, "wait for its phase (mbarrier.try_wait) in all threads that use it, then mbarrier.inval", because=LIVES,
                why=said.why, halves=said.halves,
            )  # fmt: skip

    def mbarrier_invalidated(self: Any, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """An object ends."""
        self.ends(i, barrier, threads)

    def mbarriers_used(self: Any, x: Wave, i: Instruction, uses: AtMbarriers) -> None:
        """Have threads seen mbarrier.init?"""
        self.uses(i, uses)

    def bytes_changed(self: Any, x: Wave, i: Instruction, threads: AtMbarriers, *, scope: int) -> None:
        """A relaxed operation on the mbarrier: what threads knew at their last fence goes into the current phase."""
        self.release_at(x, threads, relaxed=True, scope=scope)

    def mbarriers_reached(
        self: Any, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        """Do they know that the phase before is over?"""
        releases = not is_async and not relaxed and scope != CTA
        for threads, barrier in arrivals if self.at_end.lifetimes.is_needed else ():
            self.at_end.lifetimes.arrives(i, barrier, barrier.cta.index, distinct(threads // WARP), is_commit=is_async, releases=releases)
        if not is_async and i.op == "mbarrier":
            self.arrive(i, arrivals)
            if x.launch.cluster_size > 1:
                self.mbarriers.siblings.note(i, arrivals, count)

    def mbarriers_arrived(
        self: Any, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        """Threads release. `complete_on` and `committed` have reported the operations."""
        if not is_async:
            self.release_at(x, arrivals, relaxed=relaxed, scope=scope)

    def mbarriers_completed(self: Any, x: Wave, barriers: Sequence[Mbarrier]) -> None:
        """Phases are over."""
        self.complete(barriers)

    def mbarriers_passed(
        self: Any, x: Wave, i: Instruction, waits: AtMbarriers, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool
    ) -> None:
        """Threads acquire, if they look at the answer."""
        self.waited(i, waits)
        if is_seen:
            self.acquire_at(i, waits, relaxed=relaxed, scope=scope, by_parity=by_parity)

    # ---- fences and dependences

    def fenced(self: Any, x: Wave, i: Instruction, *, acquires: bool, releases: bool, scope: int) -> None:
        """A fence of memory."""
        self.fence(x, acquires=acquires, releases=releases, scope=scope)

    def proxy_fenced(self: Any, x: Wave, i: Instruction, *, only_global: bool = False) -> None:
        """A fence between proxies."""
        if only_global:
            self.fence_global(x, i)
        else:
            self.fence_async(x, i)

    def maps_fenced(self: Any, x: Wave, i: Instruction, addresses: np.ndarray | None, scope: int) -> None:
        """A fence of tensor maps."""
        self.fence_maps(x, i, addresses, scope)

    def initialisations_fenced(self: Any, x: Wave, i: Instruction) -> None:
        """mbarrier.init becomes visible."""
        self.publish(x)

    def tensor_fenced(self: Any, x: Wave, i: Instruction, *, acquires: bool, releases: bool) -> None:
        """A fence of tensor memory."""
        self.fence_tensor(x, acquires=acquires, releases=releases)

    def dependency_waited(self: Any, x: Wave, i: Instruction) -> None:
        """The launch in front is over."""
        self.waited_for_launch(x, i)

    def dependents_launched(self: Any, x: Wave, i: Instruction) -> None:
        """The next launch may begin."""
        self.lets_next_begin(x)

    def group_committed(self: Any, x: Wave, i: Instruction, kind: GroupKind) -> None:
        """Operations are a group."""
        self.commit(x, i, kind)

    def group_waited(self: Any, x: Wave, i: Instruction, kind: GroupKind, left: int, *, only_read: bool = False) -> None:
        """Groups are over."""
        self.wait(x, i, kind, left, only_read=only_read)

    def copies_counted(self: Any, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """An mbarrier counts copies."""
        self.counted(threads, barrier)

    def committed(self: Any, x: Wave, i: Instruction, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        """mbarriers count operations of tensor cores."""
        self.tensor.commit(commits)

    # ---- tensor memory

    def tensor_allocated(self: Any, x: Wave, i: Instruction, warp: int, cta: Cta, column: int, group: int) -> None:
        """Columns of a pair: those of one CTA begin empty."""
        if group == 2:
            self.at_end.pairs.allocated(i, warp, cta.index, column)

    def allocation_written(self: Any, x: Wave, i: Instruction, piece: Piece) -> None:
        """An operation writes words of shared memory."""
        for_part(x, piece, lambda: self.allocated(x, i, piece.at))

    def tensor_freed(self: Any, x: Wave, i: Instruction, freed: Sequence[tuple[int, int, int, int]], group: int) -> None:
        """Is everything over that was done there?"""
        if group == 1:
            self.tensor.free(i, freed)
        else:
            for warp, cta, first, end in freed:
                self.at_end.pairs.freed(i, warp, cta, first, end)

    def tensor_loaded(self: Any, x: Wave, i: Instruction, access: TensorAccess) -> None:
        """Registers have what is in cells."""
        is_unwritten = self.tensor.read(i, access.boxes, access.lanes)
        if is_unwritten or self.taint.slots or self.tensor.marks is not None:
            access.follow(self.taint, self.tensor)

    def tensor_stored(self: Any, x: Wave, i: Instruction, access: TensorAccess) -> None:
        """Cells have what is in registers."""
        access.follow(self.taint, self.tensor)
        self.tensor.write(i, access.boxes, access.lanes, are_alike=access.are_alike)

    def tensor_waited(self: Any, x: Wave, i: Instruction, kind: str) -> None:
        """Loads or stores are over."""
        self.tensor.waited(kind)
