"""The findings of shared memory, made of the suspects of `shared_rule.py`. X008: the accesses are not ordered. X003: a
fence is missing. X004 and X005: a wait is missing. More findings are made in `uninitialised_reads.py` and
`partial_waits.py`.

For example: a suspect that lacks "order", `mine` a read of warp 3, `theirs` a write of warp 2. It becomes X008 "shared
0x400 may be read before it is written", with a barrier as the fix. If warp 2 arrives at an mbarrier before its store,
the fix is "move mbarrier.arrive ... after line ...".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable

import numpy as np

from smemsim.core.finding import OR
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.async_ops import facts_of, is_bulk
from smemsim.run.lower.dataflow import accumulations, updates
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.mbarriers import MbarrierObjects
from smemsim.run.sanitizer.operations import OPERATIONS, Operation
from smemsim.run.sanitizer.races import Clauses
from smemsim.run.sanitizer.reporting import BARRIER, READERS_ARRIVE, Reporting, maybe_flag, relaxed_flag
from smemsim.run.sanitizer.shared_rule import Suspect, WordAccess
from smemsim.run.sanitizer.shared_table import SharedTable

__all__ = ["SharedFindings"]


FENCE = "fence.proxy.async.shared::cta"
# the fix if a wait with a parity passed because of the phase before the last one
EVERY_PHASE = "{}, for every phase in turn; or let this warp wait only when another one has waited for the phase before (a barrier, or an mbarrier, between the two waits)"


class SharedFindings:
    """Reports suspects."""

    def __init__(self, table: SharedTable, clocks: VectorClocks, reporting: Reporting, objects: MbarrierObjects) -> None:
        self.table, self.clocks, self.reporting, self.objects = table, clocks, reporting, objects

    def tell(self, a: WordAccess, *suspects: Iterable[Suspect]) -> None:
        """Report the suspects of an access: at once, or when the result of the operation is used that reads, or whose
        operands are overwritten.
        """
        for suspect in itertools.chain.from_iterable(suspects):
            said, repair = self._worded(a, suspect)
            said = dataclasses.replace(said, kind=self._kind(a, suspect))
            find = functools.partial(self._find, a, suspect, said, repair)
            if a.reader is not None:
                a.reader.doubt(said.code, suspect.at, find)
            elif not self._is_followed(a, suspect, find):
                find()

    @staticmethod
    def _is_followed(a: WordAccess, suspect: Suspect, find: functools.partial[None]) -> bool:
        """Does a transfer, which is whole, overwrite what an operation still reads whose result is followed?"""
        if suspect.op is None or suspect.theirs.does != "read" or not is_bulk(a.i):
            return False
        return suspect.op.is_followed(suspect.at, find)

    def _find(self, a: WordAccess, suspect: Suspect, said: Clauses, repair: str) -> None:
        if suspect.formal == "warpgroup":
            self.reporting.excuses["warpgroup"] = a.i
        is_remark = suspect.lacks == "fence" and suspect.theirs.does == "read"
        cause = "read" if is_remark else races.UPDATE if self._is_update(a, suspect) else ""
        if suspect.op is not None and suspect.lacks == "wait":
            cause = suspect.op.kind
        self.reporting.find(
            a.i, suspect.at, said, repair, formal=suspect.formal, cause=cause, other=suspect.line, within_warp=suspect.lacks == "lanes",
            milder=Severity.NOTE if is_remark else None,
        )  # fmt: skip

    def _kind(self, a: WordAccess, suspect: Suspect) -> str:
        """What is missing."""
        op, warp, is_read = suspect.op, suspect.warps[0], suspect.theirs.does == "read"
        if op is None or suspect.lacks != "wait":
            return suspect.lacks
        if suspect.mine.does == "read" and not is_read and self._other_stage(a, suspect, op)[1]:
            return "stage"
        return f"{self.reporting.lacks(op, warp, only_read=is_read)} for {op.kind}"

    def _is_update(self, a: WordAccess, suspect: Suspect) -> bool:
        """Do lanes of a warp store what they make of the value that they have loaded from the same word?"""
        return suspect.lacks == "lanes" and updates(self.table.x.program).get(id(a.i)) is suspect.theirs.instruction

    def _worded(self, a: WordAccess, suspect: Suspect) -> tuple[Clauses, str]:
        """The fault, and the fix."""
        if suspect.lacks == "wait":
            return self._unwaited(a, suspect)
        if suspect.lacks == "fence":
            return self._unfenced(a, suspect)
        mine, theirs = suspect.mine, suspect.theirs
        if self._is_update(a, suspect):
            return races.lost_in_warp(mine, updates(self.table.x.program)[id(a.i)]), races.ATOMIC_IN_WARP
        if suspect.lacks == "lanes":
            return races.within_warp(mine, theirs), "bar.warp.sync (__syncwarp) between {} and {}".format(
                *self.reporting.ends(theirs.instruction, a.i)
            )
        if suspect.lacks == "atomicity":
            assert suspect.load is not None
            flag = self._flag(a, suspect)
            first, second = (warp // self.table.per_cta for warp in suspect.warps)
            said = races.lost_update(mine, theirs, suspect.load, why=flag[0], of_one_cta=first == second)
            return (
                said,
                flag[1] or races.ATOMIC,
            )
        return self._unordered(a, suspect)

    # ---- X008: nothing orders two accesses

    def _unordered(self, a: WordAccess, suspect: Suspect) -> tuple[Clauses, str]:
        why, repair = self.reporting.narrow(suspect.weak)
        if suspect.lacks == "scope":
            why, repair = (
                f"the scope .cta of one of them does not include the other, and {races.UNORDERED}",
                ".cluster in place of .cta in both",
            )
        elif suspect.lacks == "one value":
            why = f"their values differ, and {races.UNORDERED}"
            repair = "let one warp write; or put a barrier between {} and {} (__syncthreads, bar.sync; mbarrier)".format(
                *self.reporting.ends(suspect.theirs.instruction, a.i)
            )
        elif not repair and (flag := self._flag(a, suspect))[0]:
            why, repair = flag
        elif a.reader is not None:
            repair = repair or self._fenced_barrier(suspect.line, a.i)
        elif not repair and self._comes_too_late(a, suspect):
            assert suspect.theirs.instruction is not None
            return races.unordered(
                suspect.theirs, suspect.mine, why=f"{why}, and nothing has written it before the read"
            ), self.reporting.between(f"{BARRIER}, or an mbarrier,", a.i, suspect.theirs.instruction)
        elif not repair and self._are_updates(a.i, suspect.theirs.instruction):
            why = f"both warps load the value, change it and store it, and {races.UNORDERED}"
            repair = f"{races.ATOMIC}{OR}if one update comes after the other: {self._between(*suspect.warps, suspect, a.i)}"
        else:
            repair = repair or f"{self._maybe_flag(a, suspect)}{self._between(*suspect.warps, suspect, a.i)}"
        return races.unordered(suspect.mine, suspect.theirs, why=why), repair

    def _comes_too_late(self, a: WordAccess, suspect: Suspect) -> bool:
        """Was a read of the same CTA meant to come after this store?"""
        (one, other), read = suspect.warps, suspect.theirs
        is_near = one // self.table.per_cta == other // self.table.per_cta
        if suspect.mine.does != "write" or read.does != "read" or not is_near:
            return False
        return self.reporting.comes_too_late(a.i, read.instruction, is_first=bool(self.table.blank_bytes(suspect.at).all()))

    def _are_updates(self, i: Instruction, other: Instruction | None) -> bool:
        """Are two accesses the load and the store of one update, as a sum, or twice this store?"""
        loads, counts = updates(self.table.x.program), accumulations(self.table.x.program)
        stores = [one for one in (i, other) if id(one) in counts]
        return bool(stores) and all(one in (stores[0], loads[id(stores[0])]) for one in (i, other))

    def _flag(self, a: WordAccess, suspect: Suspect) -> tuple[str, str]:
        """Why a relaxed flag does not order an earlier write before this access, and the fix. The flag is set after the
        write and read before the access. The result is "" without such a flag.
        """
        (one, other), at = suspect.warps, int(suspect.at[0])
        first = self.reporting.at(suspect.line)
        if a.reader is not None or first is None or suspect.theirs.does != "write":
            return "", ""
        if self.table.who[at] != other or self.table.line[at] != suspect.line:
            return "", ""
        lacks = self.clocks.flag_lacks(one, self.clocks.grid.wave, other, int(self.table.when[at]))
        is_near = one // self.table.per_cta == other // self.table.per_cta
        fence = "fence.acq_rel.cta (__threadfence_block)" if is_near else "fence.acq_rel.cluster"
        return relaxed_flag(self.table.x.program, first, a.i, lacks, fence)

    def _maybe_flag(self, a: WordAccess, suspect: Suspect) -> str:
        """The fix if a relaxed store after an earlier write of the same CTA may be meant as a flag; "" without one."""
        (one, other), first = suspect.warps, self.reporting.at(suspect.line)
        is_near = one // self.table.per_cta == other // self.table.per_cta
        if first is None or suspect.theirs.does != "write" or not is_near:
            return ""
        return maybe_flag(self.table.x.program, first, a.i, by=("st",))

    def _fenced_barrier(self, line: int, i: Instruction) -> str:
        """What to put between a store at `line` and an operation that reads the bytes."""
        writer = self.reporting.at(line)
        fence = None if writer is None else self.reporting.following(writer, "fence.proxy.async")
        if fence is None:
            return "put fence.proxy.async and then a barrier between {} and {}".format(*self.reporting.ends(writer, i))
        return f"put a barrier after fence.proxy.async of {fence.at}, before {self.reporting.ends(writer, i)[1]}"

    def _between(self, one: int, other: int, suspect: Suspect, i: Instruction) -> str:
        """What to put between the access of a warp, by `i`, and the earlier one of another warp."""
        line, theirs = suspect.line, suspect.theirs.instruction
        if by := self.objects.arrives_before(other, line, one):
            access = self.reporting.line(line) if theirs is None else self.table.x.program.named(theirs)
            return self._later(by, access)
        if relaxed := self.objects.arrives_relaxed(other, line, one):
            return f".release in place of .relaxed in the mbarrier.arrive of {self.reporting.line(relaxed)}, which releases nothing"
        if change := self.objects.counts_too_few(other, one):
            return change
        if one // self.table.per_cta == other // self.table.per_cta:
            return self.reporting.between(f"{BARRIER}, or an mbarrier,", theirs, i)
        return self.reporting.between(
            "barrier.cluster.arrive and barrier.cluster.wait of all CTAs of the cluster (cluster.sync()), or an mbarrier at which the other CTA arrives,", theirs, i
        )  # fmt: skip

    @staticmethod
    def _later(by: Instruction, access: str) -> str:
        """The fix for an arrival that comes before an access, and frees its bytes."""
        return (
            f"move {'mbarrier.arrive' if by.op == 'mbarrier' else by.name} of {by.at} after {access}: it arrives before that access is done"
        )

    # ---- X003: no fence between the proxies

    def _unfenced(self, a: WordAccess, suspect: Suspect) -> tuple[Clauses, str]:
        said = races.unfenced(suspect.mine, suspect.theirs)
        if a.reader is not None and suspect.op is not None:
            return said, f"{FENCE} after the wait for it (cp.async.wait_group or its mbarrier), before the barrier"
        if a.reader is not None:
            return said, f"{FENCE} after {self.reporting.line(suspect.line)}, before the barrier"
        if suspect.theirs.does != "read":
            return said, f"{FENCE} after the ordinary stores, before the barrier"
        why = "by the PTX ISA nothing keeps the copy after the reads. Libraries release stages like this; a kernel of DeepEP read wrong values until it had the fence"
        reads = self.reporting.line(suspect.line) if suspect.line else f"the loads of warp {self.reporting.warp(suspect.warps[1])}"
        return dataclasses.replace(said, why=why), f"{FENCE} after {reads}, before the arrival, or before the copy"

    # ---- X004, X005: nobody has waited for an operation

    def _are_unread(self, at: np.ndarray) -> bool:
        """Has no instruction read these words yet? If an earlier load has brought them, the next one comes too
        early.
        """
        return not (self.table.read_line[at].any() or self.table.read_by[at].any())

    def _unwaited(self, a: WordAccess, suspect: Suspect) -> tuple[Clauses, str]:
        op, warp, mine, theirs, reporting = suspect.op, suspect.warps[0], suspect.mine, suspect.theirs, self.reporting
        assert op is not None
        if theirs.does == "read":
            said = races.overwritten_in_flight(mine, theirs, why=reporting.unwaited(op, warp, only_read=True))
            return said, reporting.wait_for(op, a.i, warp, only_read=True) + self._and_barrier(a, suspect)
        if mine.does == "read" and suspect.why:  # it writes together with others
            return races.read_before_arrival(mine, theirs, why=suspect.why), reporting.wait_for(op, a.i)
        if mine.does == "read":
            why, repair = self._other_stage(a, suspect, op)
            why = (why or self.clocks.why_early(warp)).removeprefix(": ") or reporting.unwaited(op, warp)
            other_stage = reporting.or_other_stage(op)
            why += ": it writes into the stage that is read next" * bool(other_stage)
            free_later = reporting.or_free_later(op, warp)
            wait = reporting.wait_for(op, a.i, warp if a.reader is None else -1)
            if free_later and reporting.is_again(op, warp, suspect.at) and self._are_unread(suspect.at):
                again = f"before {op.instruction.at} loads here again: {READERS_ARRIVE}"
                wait = f"{again}; or, if the line that reads should read the new bytes: {wait}{other_stage}"
            else:
                wait += free_later + other_stage
            if free_later and a.reader is None and (by := self.objects.arrives_before(warp, a.i.site, int(op.warps[0]))):
                wait = self._later(by, reporting.ends(op.instruction, a.i)[1])
            elif free_later and (by := reporting.commit_before(op, a.i)) is not None:
                wait = f"{self._later(by, reporting.ends(op.instruction, a.i)[1])}{OR}{wait}"
            if a.reader is not None and self.clocks.why_early(warp):
                wait = EVERY_PHASE.format(wait)
            wait = reporting.far_mbarrier(op, a.i, warp) or wait
            return races.read_before_arrival(mine, theirs, why=why), reporting.too_weak(op, warp) or repair or wait
        brought = np.flatnonzero(self.table.who == OPERATIONS + op.number) if a.i.op == "cp" else suspect.at
        said = races.overwritten_in_flight(mine, theirs, why=suspect.why or reporting.unwaited(op, warp))
        return said, reporting.make_room(a.i, a.at, brought if brought.size else suspect.at, op, warp)

    def _other_stage(self, a: WordAccess, suspect: Suspect, op: Operation) -> tuple[str, str]:
        """`Reporting.other_stage` of a read: why, and the fix."""
        own = suspect.at if a.reader is None else suspect.at[self.table.who[suspect.at] == OPERATIONS + op.number]
        warps = np.array(suspect.warps[:1]) if a.reader is None else a.reader.warps
        return self.reporting.other_stage(self.reporting.last_wait(warps, suspect.at), own, op)

    def _and_barrier(self, a: WordAccess, suspect: Suspect) -> str:
        """The second half of a fix if the source of a copy of a commit group is overwritten by other warps, too: only
        the thread that has issued the copy can wait for it.
        """
        op = suspect.op
        if op is None or a.reader is not None or facts_of(op.kind).group != "bulk" or self.reporting.who_waited(op, only_read=True) >= 0:
            return ""
        if self.reporting.too_weak(op, suspect.warps[0]) or self.reporting.committed_early(op, suspect.warps[0]) is not None:
            return ""
        warps = np.broadcast_to(a.warps, a.at.shape)[np.isin(a.at, suspect.at)]
        return ", and then a barrier: other warps write these bytes, too" * bool((warps != op.warps[0]).any())
