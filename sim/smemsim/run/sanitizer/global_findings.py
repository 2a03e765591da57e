"""The findings of global memory, made of the suspects of `global_rule.py`. X008: the accesses are not ordered. X003: a
fence between the proxies is missing. X004: no warp has waited for a copy that writes. R507 is made in
`global_marks.py`.

For example: suspects that lack "order": warp 0 of CTA 1 reads what warp 2 of CTA 0 has written. They become X008
"element 5 (.f32) of array y may be read before it is written", once for the two lines, with a flag (st.release.gpu,
ld.acquire.gpu) as the fix.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import OR
from smemsim.core.ptx.module import Immediate, Instruction, lines_of
from smemsim.core.spec.findings import Severity
from smemsim.run.async_ops import is_bulk
from smemsim.run.lower.cfg import leads_past
from smemsim.run.lower.dataflow import decides_alone, looks_again, may_follow, message_flags
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.global_rule import ArrayAccess, GlobalRule, Lacks, Suspects
from smemsim.run.sanitizer.global_table import GlobalTable
from smemsim.run.sanitizer.happens_before import Formal
from smemsim.run.sanitizer.history import ArrayShadow
from smemsim.run.sanitizer.races import Access, Clauses
from smemsim.run.sanitizer.reporting import BARRIER, LOOKS_AGAIN, SECTIONS, Reporting, maybe_flag, relaxed_flag, unfenced_atomic
from smemsim.run.sanitizer.unused_reads import Pending
from smemsim.run.scopes import GPU

__all__ = ["GlobalFindings", "is_past_l1"]


ADDS_FIRST = "{} adds to it before {} has stored the first number, and nothing orders the two"
PAST_L1 = frozenset(("cg", "cv", "wt"))  # cache operators
# Races of different kinds between two lines are reported one by one: the kind in `History.told`.
KINDS: dict[Lacks, str] = {"order": "", "atomicity": "", "proxy fence": "crosses", "reader fence": "unfenced", "multiprocessor": "follows"}


def is_past_l1(i: Instruction) -> bool:
    """Does a load or store of one word pass the L1 cache?"""
    return i.op in ("ld", "st") and not PAST_L1.isdisjoint(i.modifiers) and not any(m in ("v2", "v4", "v8") for m in i.modifiers)


_NARROW = frozenset(("cta", "cluster"))
# instructions that set and read a flag
_STRONG = frozenset(("acq_rel", "acquire", "relaxed", "release", "volatile"))
_RELEASES, _ACQUIRES = frozenset(("st", "atom", "red")), frozenset(("ld", "atom"))
_JUMPS = frozenset(("bar", "barrier", "bra", "brx", "call", "exit", "ret"))
_RELEASING = frozenset(("acq_rel", "release"))


def _is_strong(i: Instruction) -> bool:
    """May an instruction read or set a flag in global memory?"""
    is_strong = i.op in ("atom", "red") or not _STRONG.isdisjoint(i.modifiers)
    return is_strong and not {"async", "bulk"} & {*i.modifiers} and not any(m.startswith("shared") for m in i.modifiers)


class Said(NamedTuple):
    """The finding for two accesses: what is wrong, and the fix. `is_note`: it has worked."""

    clauses: Clauses
    repair: str
    is_note: bool = False


class GlobalFindings:
    """Reports suspects."""

    def __init__(self, table: GlobalTable, rule: GlobalRule, reporting: Reporting) -> None:
        self.table, self.rule, self.reporting = table, rule, reporting
        self.x, self.clocks, self.history = table.x, table.clocks, table.history

    def tell(self, a: ArrayAccess, *suspects: Iterable[Suspects]) -> bool:
        """Report the suspects of an access: those of each instruction once, at their first place. Is there any that
        does not only lack atomicity?
        """
        are_there = False
        for some in itertools.chain.from_iterable(suspects):
            are_there |= some.lacks != "atomicity"
            self._tell(a, some)
        return are_there

    def _tell(self, a: ArrayAccess, suspects: Suspects) -> None:
        lacks, all_rows, all_warps = suspects
        kinds = (all_rows[:, loops.EPOCH] & loops.INDEX) << 1 | all_rows[:, loops.ROLE]
        for kind in distinct(kinds).tolist():
            other, is_read = self.history.numbers.instructions[kind >> 1], bool(kind & 1)
            key = (KINDS[lacks], *sorted((a.i.site, other.site)))
            if key in self.history.told:
                continue
            some = np.flatnonzero(kinds == kind)
            certain, formal = self.rule.not_formal(all_warps[some], all_rows[some, loops.EPOCH])
            some = some[certain]
            rows, warps = all_rows[some], all_warps[some]
            flag = self._flag(a.i, other, int(warps[0]), int(rows[0, loops.EPOCH])) if len(some) else ("", "")
            tell = functools.partial(self._find, a, other, Suspects(lacks, rows, warps), formal=formal, flag=flag)
            load, readers = (a.i, self.table.first + warps) if a.does == "read" else (other, (rows[:, loops.EPOCH] >> loops.WHO) - 1)
            stores = self.history.unused.follows(load) if lacks == "order" and (a.does == "read" or is_read) else None
            if stores is not None:
                self.history.unused.holds_back(Pending(stores, readers, key, tell))
                continue
            self.history.told.add(key)
            tell(0)

    def _find(self, a: ArrayAccess, other: Instruction, suspects: Suspects, n: int, *, formal: Formal, flag: tuple[str, str]) -> None:
        """A finding about the n-th of suspects."""
        row, warp = suspects.rows[n], self.table.first + int(suspects.warps[n])
        who = (int(row[loops.EPOCH]) >> loops.WHO) - 1
        is_near = self.history.place_of(who)[0] == self.history.place_of(warp)[0]
        mine = Access(a.does, self._name(warp), a.i)
        theirs = Access("read" if row[loops.ROLE] == loops.READER else "write", self._name(who), other)
        words = mine, theirs, self.where(a.i, a.array, int(row[loops.CELL]))
        said = self._worded(a, other, int(row[loops.EPOCH]), suspects.lacks, words, is_near=is_near, flag=flag)
        operation, arrays = races.operation_with("global memory", other), (a.array.region.begin,)
        clauses = dataclasses.replace(said.clauses, kind=suspects.lacks)
        if said.is_note:
            self.x.launch.find(
                clauses.code, a.i, clauses.what, said.repair, because=SECTIONS[clauses.code], milder=Severity.NOTE, operation=operation, other=other,
                arrays=arrays, why=clauses.why, halves=clauses.halves, kind=clauses.kind,
            )  # fmt: skip
        else:
            excuse: Formal = "" if suspects.lacks == "proxy fence" else formal
            self.reporting.tell(
                a.i, clauses, said.repair, SECTIONS[clauses.code], formal=excuse, cause=operation, other=other, arrays=arrays
            )

    # ---- in words

    def _worded(
        self, a: ArrayAccess, other: Instruction, epoch: int, lacks: Lacks, words: tuple[Access, Access, str], *, is_near: bool,
        flag: tuple[str, str],
    ) -> Said:  # fmt: skip
        """The fault of an access and one before it. The two, and the place that both access, are `words`. If there is a
        flag between them, `flag` has what it lacks, and the fix.
        """
        mine, theirs, where = words
        if lacks == "proxy fence":
            said = races.unfenced(mine, theirs, where)
            return Said(
                said,
                f"fence.proxy.async (or fence.proxy.async.global) after {other.at}, and before the barrier, arrival or wait that orders the two accesses",
            )
        if lacks == "atomicity":
            load = self.rule.updates[id(a.i)]
            repair = races.ATOMIC
            if not flag[0] and not is_near and (lock := unfenced_atomic(self.x.program, other, load))[0]:
                flag = lock[0], f"{lock[1]}{OR}{repair}"
            elif not flag[0] and not is_near and (lone := self._lone_flag(load, other)) is not None:
                flag = lone
            elif not flag[0] and not is_near:
                repair = f"{maybe_flag(self.x.program, other, load, ('st',))}{repair}"
            return Said(races.lost_update(mine, theirs, load, where, flag[0], of_one_cta=is_near), flag[1] or repair)
        is_copy, is_read = bool(self.history.numbers.asynchronous[epoch & loops.INDEX]), theirs.does == "read"
        is_note = False
        if lacks == "multiprocessor":
            why, is_note = (
                "only the multiprocessor orders the two, because it runs their CTAs one after the other (rule order.same_multiprocessor)",
                True,
            )
            repair = "a workspace for each CTA (by %ctaid), or one that a CTA takes and returns by an atomic"
        elif lacks == "reader fence":
            held = " (the L1 has no older copy of this line)" if a.i.op == "ld" else ""
            why, repair, is_note = f"{flag[0]}; no failure is known{held} (rule order.reader_fence)", flag[1], True
        elif self._begins(a, other):
            why, repair = ADDS_FIRST.format(other.at, a.i.at), self._after_store(a.i, other, is_near)
        elif is_copy and not is_read:
            why, repair = self._after_copy(a, other, is_near)
            if a.does == "read":
                return Said(races.read_before_arrival(mine, theirs, where, why), repair)
        elif is_copy:
            is_waited_for = self.history.numbers.is_complete(epoch >> loops.WHEN & loops.CLOCK)
            why = "nothing orders the write after a wait for the copy" if is_waited_for else "no thread has waited for the copy"
            why, repair = f"{why}: a copy reads its source until it is complete", self._completion(other, a.i, is_near)
        else:
            scopes = self.history.numbers.scope[self.history.numbers.index(a.i)], self.history.numbers.scope[epoch & loops.INDEX]
            why, repair = flag if flag[0] else self._missing(a.i, other, scopes, a.does, is_near, is_read=is_read)
            by_letter = self._has_held(a.i, other, scopes, is_near)
            why, is_note = f"{why}{f'; {by_letter}' if by_letter else ''}", bool(by_letter)
        return Said(races.unordered(mine, theirs, where, why), repair, is_note)

    def _begins(self, a: ArrayAccess, other: Instruction) -> bool:
        """Does a plain store write what an atomic operation or a reduction before it has added to, which no store had
        written? Then the store has the first number of the sum, and must come first.
        """
        adds = other.op in ("atom", "red") or "reduce" in other.modifiers
        stores = a.does == "write" and (a.i.op == "st" or (a.i.op == "cp" and "reduce" not in a.i.modifiers))
        return (
            adds
            and "add" in other.modifiers
            and stores
            and any(f.code == "R507" and f.site == other.site for f in self.x.launch.result.findings.values())
        )

    def _after_store(self, store: Instruction, adds: Instruction, near: bool) -> str:
        """What orders a store before an operation that adds to it."""
        first, then = self.reporting.ends(store, adds)
        if near:
            return f"{BARRIER} after {first}, and {then} after it"
        wait = f"{self._waits_for(store)} (without .read) in the thread that issues it, then " * (store.op == "cp")
        return f"{wait}{self._order(store, adds, near)}"

    def _flag(self, i: Instruction, other: Instruction, warp: int, epoch: int) -> tuple[str, str]:
        """Why a flag does not order an earlier access (of an `epoch`, by `other`) before the present one (of a warp, by
        `i`), and the fix. The flag is set after the earlier access and read before the present one. The result is "" if
        there is no such flag.
        """
        index, when = epoch & loops.INDEX, epoch >> loops.WHEN & loops.CLOCK
        if self.history.numbers.asynchronous[index]:
            return "", ""
        who = (epoch >> loops.WHO) - 1
        first, wave = self.history.waves[int(self.history.wave_of(np.array([who]))[0])]
        return relaxed_flag(self.x.program, other, i, self.clocks.flag_lacks(warp, wave, who - first, when))

    def _waits_for(self, copy: Instruction) -> str:
        """How the thread that issues a bulk copy waits for it: a commit is proposed if none is there."""
        commit, wait = "cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0"
        return wait if self.reporting.following(copy, commit) is not None else f"{commit} and {wait}"

    def _after_copy(self, a: ArrayAccess, copy: Instruction, near: bool) -> tuple[str, str]:
        """What is missing between a bulk copy's write and an access after it, and the fix: a wait is proposed if the
        program has none that completes the write. Two writes may be of the same bytes by mistake.
        """
        wait = self.reporting.following(copy, "cp.async.bulk.wait_group")
        if wait is None or "read" in wait.modifiers or wait.operands[0] != Immediate(0):
            why = "no thread has waited for the write, or nothing orders the two"
            repair = f"{self._waits_for(copy)} (without .read) in the thread that issues it, then {self._order(copy, a.i, near)}"
        else:
            why, repair = (
                f"nothing orders the second access after the wait for the write, {wait.name} 0 of {wait.at}",
                self._order(wait, a.i, near),
            )
        if a.does == "write" and not near:
            both = lines_of(sorted({one.line: one for one in (copy, a.i)}.values(), key=lambda one: one.line))
            repair = f"if the two CTAs should not write the same bytes: correct the address or the size in {both}{OR}{repair}"
        return why, repair

    def _completion(self, copy: Instruction, write: Instruction, near: bool) -> str:
        """How threads wait until a copy has read its source."""
        wait = (
            f"wait for the mbarrier of the copy in {copy.at} (mbarrier.try_wait)"
            if is_bulk(copy)
            else f"cp.async.wait_all or cp.async.wait_group in the threads that execute {copy.at}"
        )
        if not near:
            return f"{wait}, then {self._order(copy, write, near)}"
        return f"{wait} before the write in {write.at}; if another thread writes: {BARRIER} between the wait and the write"

    def _has_held(self, i: Instruction, other: Instruction, scopes: tuple[int, int], near: bool) -> str:
        """Why a race is one by the letter alone: rules order.looks_again, order.replaced_alike and order.past_l1; ""
        where it is not.
        """
        ways = ((i, scopes[0], other), (other, scopes[1], i))
        program = self.x.launch.program
        for weak, scope, atom in ways:
            if scope or not looks_again(program, weak, atom) or not may_follow(program, weak, atom):
                continue
            if "cas" in atom.modifiers or decides_alone(program, weak):
                return LOOKS_AGAIN
        if near and all(one.op == "tensormap" and "replace" in one.modifiers for one in (i, other)):
            return "warps that replace the same fields by the same values leave the same map"
        past = [is_past_l1(i), is_past_l1(other)]
        if any(past) and all(is_past or scope > GPU or (scope and near) for is_past, scope in zip(past, scopes, strict=True)):
            return "both go past the L1 cache, and such a word is whole"
        return ""

    def _missing(
        self, i: Instruction, other: Instruction, scopes: tuple[int, int], does: str, near: bool, *, is_read: bool
    ) -> tuple[str, str]:  # fmt: skip
        """The order that is missing between two accesses, and the instruction to write."""
        if scopes[0] and scopes[1]:
            least, most = sorted(scopes)
            words = {1: ".cta", 2: ".cluster"}
            word = words.get(int(least), "")
            if most == least and i.line != other.line:
                lines = lines_of(sorted((i, other), key=lambda one: one.line))
                return f"the scope {word} of {lines} does not reach the other CTA", f".gpu instead of {word} in {lines}"
            narrow, wide = (i, other) if scopes[0] <= scopes[1] else (other, i)
            repair = f".gpu instead of {word} in {narrow.at}"
            if most < GPU and self.x.launch.cluster_size == 1 and wide.line != narrow.line:
                repair += f", and instead of {words[int(most)]} in {wide.at}"
            return f"the scope {word} of {narrow.at} does not reach the other", repair
        if scopes[0] or scopes[1]:
            weak = other if scopes[0] else i
            if not near and any(one.op == "tensormap" for one in (i, other)):
                return (
                    races.UNORDERED,
                    f"a tensor map of its own in global memory for each CTA that changes it{OR}{self._order(other, i, near)}",
                )
            polls = f"if {weak.at} polls a flag: .acquire.gpu there; if not: " if weak.op.startswith("ld") else ""
            return (
                f"{weak.at} is neither atomic nor .relaxed, and nothing orders the two",
                f"{polls}{self._order(other, i, near)}. If any of its values is right: .relaxed.gpu or .volatile in {weak.at} is enough",
            )
        if near:
            lock = "; if a lock or a flag orders them: __threadfence() (fence.acq_rel) after the atomic that takes it and before the one that releases it"
            return "nothing orders the two", self.reporting.between(BARRIER, other, i) + lock * self.clocks.carries_global
        if found := self._narrow_flag(i, other) or self._lone_flag(i, other):
            return found
        if is_read and any(f.code == "R507" and f.site == other.site for f in self.x.launch.result.findings.values()):
            return "nothing orders the two, and nothing has written the bytes before they are read", self._order(i, other, near)
        if does == "read" and not is_read and (release := self._release_before(i, other)) is not None:
            why = f"nothing orders the two: {release.at} ({release.name}) releases before {other.at} stores"
            return why, f"{other.at} before {release.at}, if that sets the flag; or {self._order(other, i, near)}"
        flag = maybe_flag(self.x.launch.program, other, i)
        if flag and (ticket := unfenced_atomic(self.x.launch.program, other, i))[0]:
            return ticket[0], f"{ticket[1]}{OR}{self._order(other, i, near)}"
        if flag:
            return "nothing orders the two", f"{flag}{self._order(other, i, near)}"
        return "nothing orders the two", self._no_flag(i, other, does, near, is_read=is_read)

    def _no_flag(self, i: Instruction, other: Instruction, does: str, near: bool, *, is_read: bool) -> str:
        """The fix if nothing may be a relaxed flag between two accesses."""
        change = turned = ""
        if does == "write" and not is_read:
            change = "let one thread write it, or add with atom or red; or "
        elif id(i if is_read else other) in self.rule.accumulations:
            change = "use atom or red for the sum; or "
        if is_read and does == "write":
            turned = "; if the read needs what is written: the other way round"
            if other is not self.rule.updates.get(id(i)) and leads_past(self.x.launch.program, other, i, []):
                turned += f"{OR}let {self.reporting.ends(other, i)[1]} write to another buffer than the one that is still read"
        return f"{self._early_flag(i, other) or change}{self._order(other, i, near)}{turned}"

    def _release_before(self, read: Instruction, store: Instruction) -> Instruction | None:
        """The write with .release just before a store, if an acquire precedes the read: they may be exchanged."""
        program, body = self.x.launch.program, self.x.launch.program.inlined.body
        at = next((n for n, i in enumerate(body) if i is store), 0)
        acquires = (i for i in body if i.op in _ACQUIRES and not {"acquire", "acq_rel"}.isdisjoint(i.modifiers))
        if not any(leads_past(program, i, read, []) for i in acquires):
            return None
        before = itertools.takewhile(lambda i: i.op not in _JUMPS, reversed(body[:at]))
        return next((i for i in before if i.op in _RELEASES and not _RELEASING.isdisjoint(i.modifiers) and _is_strong(i)), None)

    def _narrow_flag(self, i: Instruction, other: Instruction) -> tuple[str, str] | None:
        """Why a flag does not order an earlier access (`other`) before this one, and the fix, if its scope leaves out
        the other CTA: X008 is reported for it.
        """
        program = self.x.launch.program
        for f in self.x.launch.result.findings.values():
            accesses = [half.instruction for half in f.halves if half.instruction is not None] if f.code == "X008" else []
            for one, two in itertools.permutations(accesses, 2):
                narrow = [flag for flag in (one, two) if not _NARROW.isdisjoint(flag.modifiers)]
                is_flag = _RELEASES & {one.op} and _ACQUIRES & {two.op} and {one, two}.isdisjoint((i, other))
                if not narrow or not is_flag or not leads_past(program, other, one, []) or not leads_past(program, two, i, []):
                    continue
                scope = next(m for m in narrow[0].modifiers if m in _NARROW)
                repair = f".gpu instead of .{scope} in {lines_of(sorted(narrow, key=lambda flag: flag.line))}"
                for flag, word in ((one, "release"), (two, "acquire")):
                    if "relaxed" in flag.modifiers:
                        repair += f", and .{word} instead of .relaxed in {flag.at}"
                why = f"{one.at} sets a flag that {two.at} reads, but the scope .{scope} leaves out the other CTA"
                return why, repair
        return None

    def _lone_flag(self, i: Instruction, other: Instruction) -> tuple[str, str] | None:
        """Why a flag between two accesses does not order them, and the fix.

        Only some threads read the flag, or set it, and no barrier of the CTA is between these and the access.
        """
        program, body = self.x.launch.program, self.x.launch.program.inlined.body
        reads, sets, bars = self._flags(i, other)
        if not reads or not sets:
            return None
        read_by_all = [j for j in reads if j.guard is None]
        if all(leads_past(program, j, i, bars) for j in reads) and leads_past(program, body[0], i, read_by_all):
            lines = lines_of(reads)
            why = f"only the threads that execute {lines} read the flag, and no bar.sync is between {lines} and {i.at}"
            return f"nothing orders the two: {why}", f"bar.sync (__syncthreads) between {lines} and {i.at}"
        if all(leads_past(program, other, j, bars) for j in sets) and self._is_set_by_some(other, sets):
            lines = lines_of(sets)
            why = f"only the threads that execute {lines} set the flag, and no bar.sync is between {other.at} and {lines}"
            return f"nothing orders the two: {why}", f"bar.sync (__syncthreads) between {other.at} and {lines}"
        return None

    def _early_flag(self, i: Instruction, other: Instruction) -> str:
        """The fix if some threads may set a flag before others have made an access (`other`). The program has several
        flags, so which one is meant is not certain.
        """
        reads, sets, bars = self._flags(i, other)
        early = [j for j in sets if leads_past(self.x.launch.program, other, j, bars)] if reads and bars else []
        if not early or not self._is_set_by_some(other, sets):
            return ""
        lines = lines_of(early)
        return f"if {lines} set{'s' * (len(early) == 1)} the flag: bar.sync (__syncthreads) between {other.at} and {lines}{OR}"

    def _flags(self, i: Instruction, other: Instruction) -> tuple[list[Instruction], list[Instruction], list[Instruction]]:
        """The reads of flags before an access, the writes of flags after the other one, and all barriers of the CTA."""
        program, body = self.x.launch.program, self.x.launch.program.inlined.body
        compared, fences = message_flags(program), [j for j in body if j.op in ("fence", "membar")]
        flags = [j for j in body if j is not i and j is not other and _is_strong(j)]
        # An atomic operation whose result no comparison uses (as of a histogram) reads no flag. A relaxed one without a
        # fence before it sets none.
        reads = [j for j in flags if id(j) in compared and leads_past(program, j, i, [])]
        sets = [
            j
            for j in flags
            if j.op in _RELEASES
            and (not _RELEASING.isdisjoint(j.modifiers) or any(leads_past(program, fence, j, []) for fence in fences))
            and leads_past(program, other, j, [])
        ]
        return reads, sets, [j for j in body if j.op in ("bar", "barrier") and "warp" not in j.modifiers]

    def _is_set_by_some(self, other: Instruction, sets: list[Instruction]) -> bool:
        """Is there a way from an access to the end of the kernel on which a thread sets no flag?"""
        program = self.x.launch.program
        set_by_all = [j for j in sets if j.guard is None]
        return any(leads_past(program, other, end, set_by_all) for end in program.inlined.body if end.op in ("ret", "exit"))

    def _order(self, other: Instruction, i: Instruction, near: bool) -> str:
        """What orders an earlier access before another one."""
        first, then = self.reporting.ends(other, i)
        if near:
            return f"{BARRIER} before {then}"
        return (
            f"set a flag after {first} (st.release.gpu, or __threadfence and an atomic), and read it before {then} "
            "(ld.acquire.gpu, or an atomic and __threadfence)"
        )

    def _name(self, warp: int) -> str:
        cta, own = self.history.place_of(warp)
        return f"warp {own}" if self.x.launch.ctas == 1 else f"warp {own} of CTA {cta}"

    def where(self, i: Instruction, array: ArrayShadow, cell: int) -> str:
        """The bytes of a cell as an element of an array."""
        return self.named(i, array, cell << array.cells.shift, 1 << array.cells.shift)

    def named(self, i: Instruction, array: ArrayShadow, at: int, size: int) -> str:
        """Bytes at an offset of an array's words as an element of it, or a part of one."""
        region, address = array.region, array.region.words_begin + at
        offset = address - region.begin
        if region.chunks is not None and (chunk := region.chunks.at(address)) is not None:
            name, offset = str(chunk), address - chunk.begin
        else:
            name = self.x.launch.array_name(region.begin, region.end) or f"the array at {region.begin:#x}"
        kind = (
            next((m for m in reversed(i.modifiers) if m[1:].isdigit() and m[0] in "busf" and int(m[1:]) >= 8), "") if i.op != "cp" else ""
        )
        if kind and (size == 1 or offset % (int(kind[1:]) // 8) == 0):
            element, byte = divmod(offset, int(kind[1:]) // 8)
            return f"byte {byte} of " * (byte > 0) + f"element {element} (.{kind}) of {name} at global {address:#x}"
        return (f"byte {offset}" if size == 1 else f"bytes {offset} to {offset + size - 1}") + f" of {name} at global {address:#x}"

    def tell_bound(self, i: Instruction, array: ArrayShadow) -> None:
        """Report an instruction that has overwritten a place with a forgotten reader, if
        its line has no other report.
        """
        if not array.cells.further[0, loops.BOUND]:
            return
        array.cells.further[0, loops.BOUND] = 0
        if all(f.site != i.site for f in self.x.launch.result.findings.values()):
            self.x.launch.result.bounds.add(
                f"races of {i.at} with reads of {array.region} may be missed: smemsim keeps two reading warps of each place, and "
                f"{loops.MOST_FURTHER:,} more of the array, and has forgotten others; "
                f"check that all these reads are ordered before {i.at}, or run fewer CTAs (--ctas)"
            )

    def is_constant(self, i: Instruction, array: ArrayShadow, at: np.ndarray) -> None:
        """The running threads load by .nc: has no thread written there in this launch (rule order.non_coherent)?"""
        if not len(array.cells.writers):
            return
        cells = array.cells
        writers = np.where(cells.split[at >> cells.line], cells.writers[at >> cells.shift], cells.line_writers[at >> cells.line])
        if not writers.any():
            return
        first = int(np.argmax(writers != 0))
        other = self.history.numbers.instructions[int(writers[first]) & loops.INDEX]
        said = races.non_coherent(i, other, self.where(i, array, int(at[first]) >> cells.shift))
        self.x.launch.find(
            said.code, i, said.what, "ld.global without .nc (no const __restrict__, no __ldg, for what the kernel writes)",
            because="PTX ISA 9.1 §9.7.9.9 (ld.global.nc): the memory is read-only as long as the kernel runs", milder=Severity.NOTE,
            operation=races.operation_with("global memory", other), other=other, arrays=(array.region.begin,), why=said.why, halves=said.halves,
        )  # fmt: skip
