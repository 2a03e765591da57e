"""The names of words, warps and operations in findings, and the proposed fixes."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import OR, Touched, Value
from smemsim.core.ptx.module import Address, Immediate, Instruction, lines_of, place_of
from smemsim.core.ptx.origins import symbols_behind
from smemsim.core.spec.findings import Severity
from smemsim.run.async_ops import Delivery, facts_of
from smemsim.run.lower.cfg import is_read, leads_past
from smemsim.run.lower.dataflow import decides_alone, is_in_vain, looks_again, may_follow, message_flags
from smemsim.run.lower.waits import before_loads, is_wait
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.operations import OPERATIONS, Operation, Operations
from smemsim.run.sanitizer.races import UNORDERED, Access, Clauses
from smemsim.run.sanitizer.synchronisation import CommitGroups
from smemsim.run.sanitizer.taint import is_followed
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.views import Mbarrier, mbarriers
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program
    from smemsim.run.views import Cta, Wave

__all__ = [
    "ANY_WAIT",
    "BARRIER",
    "READERS_ARRIVE",
    "SECTIONS",
    "WORD",
    "Reporting",
    "Waited",
    "maybe_flag",
    "relaxed_flag",
    "unfenced_atomic",
]


WORD = 4
BARRIER = "a barrier of all threads (bar.sync: __syncthreads, tl.debug_barrier, cute.arch.sync_threads)"
ANY_WAIT = "any wait"  # a kind of finding: the warp has waited for nothing so far
MOST_RUNS = 64  # of bytes, that a finding keeps apart
ASYNCHRONOUS = "PTX ISA 9.1 §8.9.1.1 (asynchronous operations)"
SECTIONS = collections.defaultdict(
    lambda: "PTX ISA 9.1 §8.7.1 (data races)",
    {"X003": "PTX ISA 9.1 §8.6 (proxies)", "X004": ASYNCHRONOUS, "X005": ASYNCHRONOUS, "R507": "PTX ISA 9.1 §8 (memory consistency)"},
)
STRONG = frozenset(("acquire", "relaxed", "volatile"))  # loads
UNUSED = "no instruction uses the value of this read"
LOOKS_AGAIN = "the atomic operation checks the value again, so an old value does no harm"
PARITY = 2  # operand of try_wait.parity
MOST_FLAGS = 3  # lines that may set a flag
MOST_BROUGHT = 4  # copies of a phase that are listed
# an mbarrier, the site of the wait, and what its last phase brought
Waited: TypeAlias = tuple[Mbarrier, int, list[Delivery]]
_EXCUSED: dict[Formal, tuple[str, str]] = {  # why each of EXCUSES is formally wrong, and what to write
    "relaxed": ("by the PTX ISA it releases nothing", "barrier.cluster.arrive.release in {at}"),
    "wait": ("its scope (.cta) leaves out what another CTA has done", ".cluster instead of .cta in {at}"),
    "arrive": ("its scope (.cta) leaves out the CTA that waits", ".cluster instead of .cta in {at}"),
    "lane": (
        "by the PTX ISA it covers only the reads of the lane that executes it",
        "bar.warp.sync (__syncwarp) before the arrival in {at}",
    ),
    "warpgroup": ("by the PTX ISA it covers only the threads of its own warp", "a barrier of the warpgroup's four warps before {at}"),
}
READERS_ARRIVE = "wait for an mbarrier at which the readers arrive (tcgen05.commit, mbarrier.arrive)"
BETWEEN = "put a barrier (bar.sync) between {} and {}"  # the fix for kinds of operations that no thread waits for
_GROUPS = {  # how a kind of operations is committed and waited for, and what follows
    "wgmma": ("wgmma.commit_group", "wgmma.wait_group", ""),
    "cp.async": ("cp.async.commit_group", "cp.async.wait_group", " and a barrier"),
    "tma_store": ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read", ""),
    "tma_reduce": ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read", ""),
}


def relaxed_flag(
    program: Program, first: Instruction, then: Instruction, lacks: str, fence: str = "__threadfence() (fence.acq_rel.gpu)"
) -> tuple[str, str]:  # fmt: skip
    """Why a relaxed flag between two accesses orders nothing, and the fix: "" without one. It lacks an "acquire" at its
    reader or a "release" at its writer. An instruction of the flag is named if only one can be meant.
    """
    if not lacks:
        return "", ""
    body = program.inlined.body
    wide = " of a wide enough scope" * any(i.op in ("fence", "membar") and not {"cta", "cluster"}.isdisjoint(i.modifiers) for i in body)
    reads = _flag_reads(program, first, then)
    weak = [i for i in reads if _is_relaxed(i, "acquire")]
    read = _only(weak)
    if lacks == "acquire":
        waits = [i for i in body if is_wait(i) and "relaxed" in i.modifiers and leads_past(program, i, then, [])]
        if not weak and waits:
            lines = " or ".join(i.at for i in waits[:MOST_FLAGS])
            why = f"the wait in {lines} is .relaxed, so it orders nothing without a fence{wide} after it"
            return why, f".acquire instead of .relaxed in {lines}"
        by = f"{read.at} ({read.name})" if read is not None else "a relaxed load or atomic"
        place = read.at if read is not None else "the load or atomic that reads the flag or takes the lock"
        does = "reads the flag" if read is not None and read.op == "ld" else "reads the flag or takes the lock"
        why = f"{by} {does} without a fence{wide} after it, and is {_order_of(read)}, not .acquire: so the flag orders nothing"
        return why, f"{fence} after {place}, or {_stronger(read, 'acquire')}"
    sets = _flag_writes(program, first)
    if not sets or not reads:
        return "", ""
    write = _only(sets)
    by = f"{write.at} ({write.name})" if write is not None else "a relaxed store or atomic"
    why = f"{by} sets the flag without a fence{wide} between {first.at} and it, and is {_order_of(write)}, not .release"
    repair = f"{fence} before {write.at if write is not None else 'it'}, or {_stronger(write, 'release')}"
    if weak and not any(_is_fenced(program, i, then, scope=fence) for i in weak):
        by = f"{read.at} ({read.name})" if read is not None else "the read of the flag"
        why += f"; {by} has no fence after it, and is {_order_of(read)}, not .acquire"
        repair += f"; {read.at if read is not None else 'the read of the flag'} needs a fence after it, or {_stronger(read, 'acquire')}"
    return f"{why}: so the flag orders nothing", repair


def maybe_flag(program: Program, first: Instruction, then: Instruction, by: Collection[str] = ("st", "atom", "red")) -> str:
    """The fix if a relaxed write after one access may be meant as a flag that is read before another access; "" if the
    program has no such pair. The write is an instruction named in `by`.
    """
    flags, body = message_flags(program), program.inlined.body
    sets = [i for i in _flag_writes(program, first) if i.op in by]
    reads = [i for i in body if id(i) in flags and i is not first and may_follow(program, i, then)]
    if not sets or not reads:
        return ""
    own = {i.line: i for i in sorted(sets, key=lambda i: i.line)}
    lines = " or ".join(i.at for i in [*own.values()][:MOST_FLAGS])
    acquires = any({"acquire", "acq_rel"} & {*i.modifiers} for i in reads)
    both = "" if acquires else ", and .acquire where the flag is read"
    return f"if {lines} sets a flag: {_stronger(_only(sets), 'release')}{' there' * (len(sets) == 1)}{both}; or "


def unfenced_atomic(program: Program, first: Instruction, then: Instruction) -> tuple[str, str]:
    """Why a relaxed atomic operation after one access may order nothing, and the fix. Such an operation takes a ticket
    or passes a lock on. The result is "" without exactly one, or if no atomic operation before `then` decides anything.
    """
    flags, body, sets = message_flags(program), program.inlined.body, _flag_writes(program, first)
    fences = [i for i in body if i.op in ("fence", "membar") and "proxy" not in i.modifiers and i.guard is None]
    atomic = _only(sets)
    if atomic is None or atomic.op == "st" or not leads_past(program, first, atomic, fences):
        return "", ""
    strong = [i for i in body if i.op == "atom" or (i.op == "ld" and not STRONG.isdisjoint(i.modifiers))]
    reads = [i for i in strong if id(i) in flags and leads_past(program, i, then, [])]
    if not reads:
        return "", ""
    lacks = [i for i in reads if _is_relaxed(i, "acquire") and leads_past(program, i, then, fences)]
    why = f"{UNORDERED}: {atomic.at} ({atomic.name}) is {_order_of(atomic)}, and no fence is between {first.at} and it"
    fence = "__threadfence() (fence.acq_rel.gpu)"
    if any(i is atomic for i in reads):
        own = "before and after it, or .acq_rel" if lacks else "before it, or .release"
        return why, f"if {atomic.at} takes a ticket: {fence} {own}"
    after = f", and after {lines_of(lacks)}" * bool(lacks)
    return why, f"if {atomic.at} passes a lock on or sets a flag: {fence} before it{after}"


def _flag_reads(program: Program, first: Instruction, then: Instruction) -> list[Instruction]:
    """The reads before an access that may be of a flag."""
    flags = message_flags(program)
    return [i for i in program.inlined.body if (i.op == "atom" or id(i) in flags) and i is not first and leads_past(program, i, then, [])]


def _is_fenced(program: Program, read: Instruction, then: Instruction, *, scope: str) -> bool:
    """Is a fence between the read of a flag and an access? Its scope is at least that in the words of the fence that is
    advised.
    """
    narrow = {"cta", "cluster"} if "gpu" in scope else {"cta"} if "cluster" in scope else set()
    fences = [i for i in program.inlined.body if i.op in ("fence", "membar") and "proxy" not in i.modifiers]
    wide = [i for i in fences if narrow.isdisjoint(i.modifiers)]
    return any(leads_past(program, read, i, []) and leads_past(program, i, then, []) for i in wide)


def _order_of(i: Instruction | None) -> str:
    """How weak an access of a flag is, as the PTX spells it."""
    words = () if i is None else i.modifiers
    return next((f".{word}" for word in ("volatile", "acquire", "release") if word in words), ".relaxed")


def _flag_writes(program: Program, first: Instruction) -> list[Instruction]:
    """The relaxed writes after an access, which may set a flag."""
    return [
        i
        for i in program.inlined.body
        if i.op in ("st", "atom", "red") and i is not first and _is_relaxed(i, "release") and leads_past(program, first, i, [])
    ]


def _is_relaxed(i: Instruction, word: str) -> bool:
    """Is a strong access without "acquire" or "release"?"""
    words = {*i.modifiers}
    return words.isdisjoint((word, "acq_rel")) and (i.op in ("atom", "red") or not words.isdisjoint(("relaxed", "volatile")))


def _only_arrives(i: Instruction) -> bool:
    """Does an instruction arrive at an mbarrier, and expect no bytes?"""
    return i.op == "mbarrier" and i.modifiers[0] == "arrive" and "expect_tx" not in i.modifiers


def _counts(barrier: Mbarrier, op: Operation) -> bool:
    """Does an operation complete on an mbarrier?"""
    return any((cta.index, offset) == (barrier.cta.index, barrier.offset) for cta, offset in op.barriers.values())


def _only(found: list[Instruction]) -> Instruction | None:
    return found[0] if len(found) == 1 else None


def _stronger(i: Instruction | None, word: str) -> str:
    """The modifier with which an instruction acquires or releases."""
    if i is None:
        return f".{word} there"
    if "volatile" in i.modifiers:
        return f"{i.op}.{word} instead of {i.op}.volatile"
    return f".{word} instead of .relaxed" if "relaxed" in i.modifiers else f".{word}"


class Reporting:
    """Report findings to the launch. A finding is milder (`formal`) if the only obstacle to order is something that
    compilers and libraries write between CTAs.

    The last such instruction of each of EXCUSES is in `excuses`. The last wait of each warp is in `waits`.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations) -> None:
        self.x, self.clocks, self.operations = x, clocks, operations
        self.excuses: dict[Formal, Instruction] = {}
        self.waits: dict[int, Waited] = {}
        self.sites: dict[int, Instruction] = x.program.sites
        self._per_cta = x.stride // WARP
        self.group_waits: dict[
            tuple[int, str], tuple[Instruction, int]
        ] = {}  # by warp and kind: its last wait, and how many groups that leaves pending
        self._followers: dict[tuple[int, str], Instruction | None] = {}  # see `_following`
        self.groups: CommitGroups | None = None  # of the sanitizer that this one tells for
        self._told: set[tuple[str, int]] = set()  # codes and sites of relaxed arrivals that are reported

    def spread(self, first: Reporting, twins: Twins, brought: dict[int, list[list[Delivery]]]) -> None:
        """The waits of warps of all CTAs, from those of the first one. By warp, `brought` has what the phase gave each
        CTA.
        """
        self.excuses, self._told = dict(first.excuses), set(first._told)
        for (warp, kind), wait in first.group_waits.items():
            self.group_waits.update({(warp + n * twins.warps, kind): wait for n in range(twins.count)})
        for warp, (barrier, line, _) in first.waits.items():
            for n, own in enumerate(twins.made[barrier]):
                self.waits[warp + n * twins.warps] = own, line, brought[warp][n]

    # ---- findings

    def find(
        self, i: Instruction, places: np.ndarray, said: Clauses, repair: str = "", *, formal: Formal = "", cause: str = "",
        other: int = 0, within_warp: bool = False, milder: Severity | None = None,
    ) -> None:  # fmt: skip
        """A finding about words of shared memory, by their places. In the text, `{i}` and `{where}` are replaced by the
        instruction and the words.

        The site of the other access of a race is `other`. A race with `within_warp` is between lanes of one warp.
        """
        others = (half.instruction for half in said.halves if half.instruction is not None and half.instruction is not i)
        code, than = said.code, next((one for one in others if one.site == other), self.sites.get(other))
        held = LOOKS_AGAIN if code == "X008" and than is not None and self._looks_again(i, than) else ""
        if not held and self._is_unused(said):
            held, repair = UNUSED, "remove the read"
        per_cta = self.x.pitch // WORD
        cta, is_milder = self.x.ctas[int(places[0]) // per_cta], bool(formal) or bool(held) or milder is not None
        if milder is None:  # else the rule looks once for each instruction, and not in each CTA
            for index in distinct(places // per_cta).tolist():
                self.x.launch.result.findings.in_cta(code, i, cause, self.x.ctas[index].number, is_milder=is_milder)
        before = self.x.launch.result.findings.found(code, i, cause)
        if before is not None and not self.x.launch.result.findings.is_lesser(before, is_milder, within_warp=within_warp):
            return
        if formal and self._is_told(code, formal):
            return
        offsets = distinct(places[places // per_cta == cta.index]) % per_cta * WORD + self.x.window_begin
        first, last = int(offsets[0]), int(offsets[-1])
        where = self.x.program.places.shared_named(first, last + WORD - 1 if len(offsets) > 1 else first)
        where += f" of CTA {cta.number}" if self.x.launch.ctas > 1 else ""
        said = dataclasses.replace(said, what=said.what.replace("{i}", i.name).replace("{where}", where))
        runs = np.split(offsets, np.flatnonzero(np.diff(offsets) != WORD) + 1)
        if len(runs) > MOST_RUNS:
            runs = [offsets]
        touched = tuple(Touched(cta.number, int(run[0]), int(run[-1]) + WORD) for run in runs)
        because = SECTIONS[code]
        if held or milder is not None:
            why = "; ".join(filter(None, (said.why, held)))
            self.x.launch.find(
                code, i, said.what, repair, because=because, touched=touched, milder=Severity.NOTE, operation=cause, other=than,
                within_warp=within_warp, why=why, halves=said.halves, kind=said.kind,
            )  # fmt: skip
            return
        self.tell(i, said, repair, because, touched, formal=formal, cause=cause, other=than, within_warp=within_warp)

    def _is_unused(self, said: Clauses) -> bool:
        """Does no instruction use what a plain racing read brings (rule order.unused_read)?"""
        loads = (half.instruction for half in said.halves if half.instruction is not None and STRONG.isdisjoint(half.instruction.modifiers))
        return any(is_in_vain(self.x.launch.program, load) for load in loads)

    def _looks_again(self, i: Instruction, other: Instruction) -> bool:
        """Is one of two accesses a plain pre-check before the other one (rule order.looks_again)? A table that is read,
        and then changed by cas without a barrier between, is not a pre-check: the value is used.
        """
        program = self.x.launch.program
        return any(
            STRONG.isdisjoint(weak.modifiers)
            and looks_again(program, weak, atom)
            and may_follow(program, weak, atom)
            and decides_alone(program, weak)
            for weak, atom in ((i, other), (other, i))
        )

    def _is_told(self, code: str, formal: Formal) -> bool:
        """Is a remark of the code reported for the last instruction of its kind? Everything that depends on that
        instruction needs the same change.
        """
        return formal in self.excuses and (code, self.excuses[formal].site) in self._told

    def tell(
        self, i: Instruction, said: Clauses, repair: str, because: str, touched: tuple[Touched, ...] = (), *, formal: Formal = "",
        cause: str = "", other: Instruction | None = None, within_warp: bool = False, arrays: tuple[int, ...] = (), cta: Cta | None = None,
        numbers: dict[str, Value] | None = None,
    ) -> None:  # fmt: skip
        """A finding; `formal`: nothing but this one of EXCUSES is wrong, which compilers and libraries emit. `cta` is
        the CTA of the race, if no caller has noted it.
        """
        code, excuse = said.code, self.excuses.get(formal)
        if cta is not None:
            self.x.launch.result.findings.in_cta(code, i, cause, cta.number, is_milder=excuse is not None)
        if excuse is None:
            self.x.launch.find(
                code, i, said.what, repair, because=because, touched=touched, operation=cause, other=other, within_warp=within_warp, arrays=arrays,
                why=said.why, halves=said.halves, numbers=numbers or {}, kind=said.kind,
            )  # fmt: skip
            return
        if self._is_told(code, formal):
            return
        self._told.add((code, excuse.site))
        why, change = _EXCUSED[formal]
        self.x.launch.find(
            code, i, said.what, f"to follow the PTX ISA: {change.format(at=excuse.at)}", because=because, touched=touched, milder=Severity.NOTE, operation=cause, other=other,
            arrays=arrays, halves=said.halves, kind=said.kind,
            why=f"no failure is known, and libraries write the same; but {excuse.name} of {excuse.at} does not order the two: {why}",
        )  # fmt: skip

    def came_late(self, i: Instruction, tell: Callable[[], None], late: dict[int, Callable[[], None]]) -> None:
        """Bytes arrive now that an instruction read uninitialised. Report it at once or, if the value is followed, when
        it is used.
        """
        was_used = self.x.launch.result.findings.take_back("R507", i)
        if was_used or not is_followed(i):
            tell()
        else:
            late[i.site] = tell

    # ---- names

    def warp(self, warp: Any) -> str:
        """A warp of the wave as findings call it, by its number in its CTA."""
        cta, own = divmod(int(warp), self._per_cta)
        return str(own) if len(self.x.ctas) == 1 else f"{own} of CTA {self.x.ctas[cta].number}"

    def access(self, does: str, warp: Any, site: int) -> Access:
        """An access of a warp, by the site of its instruction."""
        return Access(does, f"warp {self.warp(warp)}", self.at(site))

    def line(self, *lines: int) -> str:
        """Lines of the PTX, or sites, in a sentence, with those of the source."""
        named: str = self.x.program.at(*lines)
        return named

    def at(self, site: int) -> Instruction | None:
        """The instruction of a site."""
        return self.sites.get(site)

    def ends(self, first: Instruction | None, then: Instruction) -> tuple[str, str]:
        """The two accesses of a race in a sentence: their lines, or "the first access" and "the second" if one
        instruction makes both.
        """
        if first is None or first.site == then.site:
            return "the first access", "the second"
        return self.x.program.named(first), self.x.program.named(then)

    def between(self, barrier: str, first: Instruction | None, then: Instruction) -> str:
        """The fix: a barrier between two accesses. If one instruction makes both, it is of a loop, or too many warps
        execute it.
        """
        if first is not None and first.site == then.site:
            return f"in a loop: put {barrier} between two executions of {then.at}; or let only one warp execute it"
        place = then.location.place if then.location is not None else None
        if (
            first is not None
            and place is not None
            and first.location is not None
            and str(first.location.place) == str(place)
            and first.line != then.line
        ):
            return f"put {barrier} between PTX line {first.line} and PTX line {then.line} (both {str(place).rpartition('/')[2]})"
        return "put {} between {} and {}".format(barrier, *self.ends(first, then))

    def by(self, op: Operation, does: str) -> Access:
        """An access of an asynchronous operation."""
        return Access(does, f"asynchronous operation of warp {self.warp(op.warps[0])}", op.instruction)

    def written(self, who: int, site: int) -> Access:
        """The write of the last writer of a word, by its number in the table of writers."""
        return self.by(self.operations[who - OPERATIONS], "write") if who >= OPERATIONS else self.access("write", who, site)

    def writer(self, who: int, site: int) -> str:
        """The last writer of a word, by the number in the table of writers."""
        if who >= OPERATIONS:
            return self.operations[who - OPERATIONS].name
        return f"warp {self.warp(who)} wrote at {self.line(site)}{f' ({self.sites[site].name})' if site in self.sites else ''}"

    # ---- what to change

    def last_wait(self, warps: np.ndarray, at: np.ndarray) -> Waited | None:
        """The last wait of the first of these warps that is in the CTA of the words."""
        cta = int(at[0]) // (self.x.pitch // WORD)
        own = warps[warps // self._per_cta == cta]
        return self.waits.get(int(own[0])) if own.size else None

    def other_stage(self, waited: Waited | None, at: np.ndarray, op: Operation) -> tuple[str, str]:
        """The case that the mbarrier that a reader waited for last counted other bytes than it reads: those bytes, and
        the fix.
        """
        if waited is None or not waited[2]:
            return "", ""
        barrier, line = waited[:2]
        brought = [d for d in waited[2] if d.to == barrier.cta.rank]
        cta, words = divmod(at, self.x.pitch // WORD)
        offsets = words * WORD + self.x.window_begin
        came = any(((offsets >= d.begin) & (offsets < d.begin + d.size)).any() for d in brought)
        if came or not brought or barrier.cta.index != cta[0] or barrier.cta.index not in op.barriers:
            return "", ""
        mine = op.barriers[barrier.cta.index][1]
        if mine == barrier.offset and (early := self.passed_early(waited, op))[0]:
            return early
        if mine == barrier.offset:
            why = f": the phase of the mbarrier at {mine:#x} that {self.line(line)} waited for ended without these bytes"
            return why, "let each phase expect all bytes that are read after it, and no others"
        here, there = (self.x.program.places.mbarrier_named(offset) for offset in (barrier.offset, mine))
        if "(" in here and "(" in there and here.split("[")[0] != there.split("[")[0]:  # of two variables
            why = f": {self.line(line)} waited for the mbarrier {here}; these bytes complete on {there}"
            return why, f"wait for the mbarrier {there} before the read"
        pieces = list(dict.fromkeys(f"{d.begin:#x} to {d.begin + d.size - 1:#x}" for d in brought))
        ranges = ", ".join(pieces[:MOST_BROUGHT]) + " ..." * (len(pieces) > MOST_BROUGHT)
        why = f": {self.line(line)} waited for the mbarrier at {barrier.offset:#x}, whose phase brought {ranges}: another stage"
        return why, (
            f"one stage index for the load, its mbarrier, the wait and the read; these bytes complete on the mbarrier at {mine:#x}"
        )

    def who_waited(self, op: Operation, *, only_read: bool = False) -> int:
        """A warp that knows an operation, or (`only_read`) its reads, to be complete, of those that issued it before
        others; -1 if there is none.
        """
        know = np.flatnonzero(self.clocks.is_over(np.arange(len(self.clocks.clock)), op, only_read=only_read))
        own = know[np.isin(know, op.warps)]
        return int((own if own.size else know)[0]) if know.size else -1

    def lacks(self, op: Operation, warp: int, *, only_read: bool = False) -> str:
        """The missing step before a warp accesses bytes of an operation: a barrier, if another warp has waited; a
        change of the wait that the warp has done; or a wait. If the warp has never waited, it is `ANY_WAIT`.
        """
        if self.who_waited(op, only_read=only_read) >= 0:
            return "barrier"
        if self.too_weak(op, warp):
            return "other wait"
        has_waited = warp in self.waits or self._weak_wait(op)[0] is not None or self._wait_before(op) is not None
        return "wait" if has_waited else ANY_WAIT

    def unwaited(self, op: Operation, warp: int, *, only_read: bool = False) -> str:
        """That a warp does not know an operation to be over, and whether others do."""
        by = self.who_waited(op, only_read=only_read)
        if by == warp:
            return f"warp {self.warp(by)} has waited for it; another warp that takes part has not"
        if arrived := self._arrived_instead(op, warp):
            line, arrive = arrived
            return f"the wait in {self.line(line)} is for {arrive.name} in {arrive.at}, which does not wait for the operation"
        if by >= 0:
            line = self._line_of_wait(op, by)
            at, after = (f" in {self.line(line)}", self.line(line)) if line else ("", "that wait")
            return (
                f"warp {self.warp(by)} has waited for it{at}, warp {self.warp(warp)} has not, and no barrier after {after} orders the two"
            )
        i, left, _ = self._weak_wait(op)
        if i is not None:
            return f"{i.name} {left} of {i.at} leaves it pending"
        if (i := self._wait_before(op)) is not None:
            return f"its group is committed after {i.text} of {i.at}, and no wait comes after that"
        if (ignored := self._ignored_wait(op, warp)) is not None:
            return f"no instruction looks at the answer of the wait in {ignored.at}, so no thread has waited for it"
        if self.relaxed_wait(warp) and (line := self._line_of_wait(op, warp)):
            return self.why_relaxed(warp)
        if (arrival := self._expects_none(op, warp)) is not None:
            line = self._line_of_wait(op, warp)
            return f"the phase that {self.line(line)} waited for ended without its bytes: {arrival.at} ({arrival.name}) expects none"
        return self.passed_early(self.waits.get(warp), op)[0] or self._foreign_wait(op) or "no thread has waited for it yet"

    def _foreign_wait(self, op: Operation) -> str:
        """That only other threads than those of an operation wait for commit groups of its kind; "" if none does."""
        kind, own = facts_of(op.kind).group, int(op.warps[0])
        if kind not in ("bulk", "cp.async") or self.groups is None or not self.groups.is_unwaited(op, kind):
            return ""
        waits = {warp: i for (warp, of), (i, _) in self.group_waits.items() if of == kind and warp // self._per_cta == own // self._per_cta}
        if not waits:
            return ""
        warp = own if own in waits else min(waits)
        by = f"other lanes of warp {self.warp(own)}" if warp == own else f"warp {self.warp(warp)}"
        return f"the wait in {waits[warp].at} is of {by}: a thread waits only for its own commit groups"

    def _expects_none(self, op: Operation, warp: int) -> Instruction | None:
        """The arrival at the mbarrier at which a warp has waited for a copy, if no thread has ever expected bytes
        there.
        """
        barrier, line, _ = self.waits.get(warp, (None, 0, []))
        if barrier is None or line not in self.sites or not _counts(barrier, op) or barrier.state.bytes.expecting:
            return None
        came = [self.sites.get(by) for by, _ in barrier.state.arrivals.by_site]
        return next((i for i in came if i is not None and _only_arrives(i)), None)

    def _expect(self, op: Operation, arrival: Instruction, warp: int) -> str:
        """The fix: an arrival expects the bytes of a copy."""
        barrier, *_ = self.waits[warp]
        sizes = {d.size for d in barrier.state.deliveries.sources.values() if d.instruction.site == op.instruction.site}
        own = f" ({min(sizes)} of {op.instruction.at})" if len(sizes) == 1 else ""
        return f"mbarrier.arrive.expect_tx instead of {arrival.name} in {arrival.at}, of all bytes that complete there in a phase{own}"

    def _line_of_wait(self, op: Operation, warp: int) -> int:
        """The line of a warp's last wait, if it was for an operation; else 0."""
        barrier, line, _ = self.waits.get(warp, (None, 0, []))
        if barrier is not None and _counts(barrier, op):
            return line
        i, _ = self.group_waits.get((warp, facts_of(op.kind).group), (None, 0))
        return 0 if i is None else i.site

    def wait_for(self, op: Operation, before: Instruction, warp: int = -1, *, only_read: bool = False) -> str:
        """The fix: how to wait for an operation before an instruction, or how to synchronise with a warp that has
        waited.
        """
        by = self.who_waited(op, only_read=only_read) if warp >= 0 else -1
        if found := self.too_weak(op, warp):
            return found
        if by != warp and (found := self.commit_instead(op, warp)):
            return found
        if by < 0:
            kind = "tma_store" if op.kind == "bulk" and op.groups.lanes else op.kind
            if kind == "tcgen05.alloc":
                return BETWEEN.format(*self.ends(op.instruction, before))
            if op.instruction.op == "tcgen05":
                return self.commit_for(op, before, warp)
            if kind == "cp.async" and (arrival := self._arrival_of_copies(op.instruction)) is not None:
                at = f"the mbarrier at which {arrival.name} of {arrival.at} arrives"
                wait = f"before {self.x.program.named(before)}: wait at {at}"
                if warp in self.waits:
                    issuer = int(op.warps[0])
                    # In a ring, its issuer waits at other mbarriers, for free stages.
                    is_ring = issuer in self.waits and self.waits[issuer][0] is not self.waits[warp][0]
                    return f"{wait}, for the phase that counts this copy{self._passed_too_soon(issuer) if is_ring else ''}"
                return f"{wait} (mbarrier.try_wait; cuda::pipeline: consumer_wait)"
            if kind in _GROUPS:
                return f"before {self.x.program.named(before)}: {self.group_of(op, *_GROUPS[kind])}" + self._by_issuer(op)
            if (arrival := self._expects_none(op, warp)) is not None:
                return self._expect(op, arrival, warp)
            if found := self._earlier_phase(op, before, warp) or self.far_mbarrier(op, before, warp):
                return found
            return (
                f"before {self.x.program.named(before)}: {self.mbarrier_of(op)}"
                + self._too_late(op.instruction, before)
                + self._by_issuer(op)
            )
        line, own = self._line_of_wait(op, by), warp // self._per_cta
        if by // self._per_cta != own:
            return (
                f"let warp {self.warp(by)} arrive at an mbarrier after {self.line(line) if line else 'its wait'} (mapa, mbarrier.arrive.release."
                f"cluster.shared::cluster), and let warp {self.warp(warp)} wait there before {self.x.program.named(before)}"
            )
        between = f"a barrier of both warps (bar.sync, or an mbarrier) between {self.line(line) if line else 'that wait'} and {self.x.program.named(before)}"
        waits = (
            f"before {self.x.program.named(before)}: {self.mbarrier_of(op)} in warp {self.warp(warp)} too; or "
            if own in op.barriers and not only_read
            else ""
        )
        return waits + between

    def _earlier_phase(self, op: Operation, before: Instruction, warp: int) -> str:
        """The fix if the last wait of a warp was at the mbarrier that counts an operation, but for an earlier phase;
        "" if it was not.
        """
        barrier, line, _ = self.waits.get(warp, (None, 0, []))
        if barrier is None or line not in self.sites or not _counts(barrier, op):
            return ""
        named, wait = self.x.program.places.mbarrier_named(barrier.offset), self.sites[line]
        apart = next((i for i in self.sites.values() if i.op == "mbarrier" and i.modifiers[:1] == ("expect_tx",)), None)
        expected = (
            f"; if an arrival ends the phase before {apart.at} expects the bytes: mbarrier.arrive.expect_tx in place of both"
            if apart
            else ""
        )
        return (
            f"before {self.x.program.named(before)}, wait at the mbarrier {named} for the phase that counts the bytes of {op.instruction.at}: the wait in "
            f"{wait.at} was for an earlier one{expected}"
        )

    def far_mbarrier(self, op: Operation, before: Instruction, warp: int) -> str:
        """The fix for an operation that completes only at mbarriers of other CTAs than a warp's. There the warp cannot
        wait. Else "".
        """
        own = warp // self._per_cta
        if warp < 0 or not op.barriers or own in op.barriers:
            return ""
        here, there = (self.x.ctas[n].number for n in (own, min(op.barriers)))
        pair = ", with .cta_group::2" * ("tensor" in op.instruction.modifiers)
        named = self.x.program.named(before)
        return (
            f"let {op.instruction.at} complete at an mbarrier of CTA {here} (mapa{pair}), and wait there before {named}; or let CTA {there} "
            f"wait for it, and then arrive at an mbarrier of CTA {here}, at which a thread waits before {named}"
        )

    def mbarrier_of(self, op: Operation) -> str:
        """How to wait for an operation at its mbarrier."""
        offsets = {offset for _, offset in op.barriers.values()}
        if not offsets:
            return "a wait for the mbarrier or the group that counts the operation"
        named = f" {self.x.program.places.mbarrier_named(min(offsets))}" if len(offsets) == 1 else ""
        return f"mbarrier.try_wait.parity on the {'load' if facts_of(op.kind).is_load else 'operation'}'s mbarrier{named}"

    def commit_instead(self, op: Operation, warp: int) -> str:
        """The fix of `_arrived_instead`; "" in all other cases."""
        line, arrive = self._arrived_instead(op, warp) or (0, None)
        if arrive is None:
            return ""
        name = "tcgen05.commit" if op.instruction.op == "tcgen05" else "cp.async.mbarrier.arrive.noinc"
        return f"{name} instead of {arrive.name} in {arrive.at}, at the mbarrier that {self.line(line)} waits for"

    def _arrived_instead(self, op: Operation, warp: int) -> tuple[int, Instruction] | None:
        """The wait of a warp (its line) for an arrival, and not for an operation of tcgen05 or a cp.async; else None.

        The warp that has issued the operation arrives after it in the text, but the arrival does not wait for it.
        """
        barrier, line, _ = self.waits.get(warp, (None, 0, []))
        if barrier is None or _counts(barrier, op) or not (op.instruction.op == "tcgen05" or self._has_no_wait(op)):
            return None
        came = [self.sites.get(by) for by, _ in barrier.state.arrivals.by_site]
        arrive = next((i for i in came if i is not None and _only_arrives(i) and self.leads(op.instruction, i)), None)
        return None if arrive is None or int(op.warps[0]) not in self._arrived(barrier) else (line, arrive)

    def _has_no_wait(self, op: Operation) -> bool:
        """Is an operation a cp.async, which no later instruction waits for?"""
        after = "cp.async.wait", "cp.async.mbarrier.arrive"
        return op.kind == "cp.async" and all(self.following(op.instruction, name) is None for name in after)

    def _arrived(self, barrier: Mbarrier) -> set[int]:
        """The warps of the wave that have arrived at an mbarrier."""
        begin = (barrier.cta.index - barrier.cta.rank) * self._per_cta
        return {begin + n for n in barrier.state.arrivals.warps}

    def leads(self, i: Instruction, other: Instruction) -> bool:
        """Does a path lead from an instruction to another one?"""
        return leads_past(self.x.program, i, other, [])

    def comes_too_late(self, store: Instruction, read: Instruction | None, *, is_first: bool) -> bool:
        """Was a read meant to come after a store, which has come later? So if the store is the first one there
        (`is_first`), and the read's thread does not go on to it.
        """
        return is_first and read is not None and not self.leads(read, store)

    def committed_early(self, op: Operation, warp: int) -> Instruction | None:
        """The tcgen05.commit that a warp has waited for, if it stands just before an operation that should be part of
        it: no wait is between, and no commit follows the operation.
        """
        barrier, *_ = self.waits.get(warp, (None, 0, []))
        if barrier is None or op.instruction.op != "tcgen05":
            return None
        waits = [i for i in self.sites.values() if is_wait(i)]
        commits = [i for i in self.sites.values() if i.op == "tcgen05" and i.modifiers[0] == "commit"]
        if any(leads_past(self.x.program, op.instruction, i, waits) for i in commits):
            return None
        came = {by for by, _ in barrier.state.arrivals.by_site}
        return next((i for i in commits if i.site in came and leads_past(self.x.program, i, op.instruction, waits)), None)

    def has_waited_for_commit(self, warp: int) -> bool:
        """Was the last wait of a warp at an mbarrier at which tcgen05.commit has arrived?"""
        barrier, *_ = self.waits.get(warp, (None, 0, []))
        came = () if barrier is None else [self.sites.get(by) for by, _ in barrier.state.arrivals.by_site]
        return any(i is not None and i.op == "tcgen05" for i in came)

    def commit_for(self, op: Operation, before: Instruction, warp: int) -> str:
        """The fix for a warp that has not waited for an operation of tcgen05: a commit that comes too early, or a
        wait.
        """
        if (early := self.committed_early(op, warp)) is not None:
            return (
                f"move tcgen05.commit of {early.at} after {self.x.program.named(op.instruction)}: it covers only what is issued before it"
            )
        return self.commit_of(op.instruction, before)

    def commit_of(self, i: Instruction, before: Instruction) -> str:
        """How to wait for an operation of tcgen05 before an instruction: its commit is proposed if no
        tcgen05.commit can follow it.
        """
        there = self.following(i, "tcgen05.commit")
        if there is None:
            return f"let the thread of {i.at} execute tcgen05.commit after it, and wait for the mbarrier of that commit (mbarrier.try_wait) before {self.x.program.named(before)}"
        return f"wait for the mbarrier of tcgen05.commit in {there.at} (mbarrier.try_wait) before {self.x.program.named(before)}{self._too_late(there, before)}"

    def _too_late(self, signal: Instruction, before: Instruction) -> str:
        """That all waits at the mbarrier that a copy or a commit names come after an instruction; "" if they do not."""
        body = {id(i): n for n, i in enumerate(self.x.program.inlined.body)}
        named = [operand for operand in signal.operands if isinstance(operand, Address)]
        waits = [i for i in self.sites.values() if named and is_wait(i) and named[-1] in i.operands and id(i) in body]
        if not waits or id(before) not in body or any(body[id(i)] < body[id(before)] for i in waits):
            return ""
        return f" (the wait in {waits[0].at} comes too late)"

    def unfenced_load(self, before: Instruction) -> Instruction | None:
        """The load of shared memory after which no proxy fence comes before an arrival, a barrier or the copy `before`;
        None if there are several, or none. Loads of all forms count: the table does not say which one read the words.
        """
        body = self.x.program.inlined.body
        fences = [i for i in body if i.name.startswith("fence.proxy.async") and i.guard is None]
        signals = [i for i in body if i is before or i.op in ("bar", "barrier") or _only_arrives(i)]
        loads = (i for i in body if self.x.program.may_access(i, "read", "shared"))
        return _only([i for i in loads if any(leads_past(self.x.program, i, signal, fences) for signal in signals)])

    def following(self, i: Instruction, name: str) -> Instruction | None:
        """The first instruction of that name in the program to which a path leads from another one."""
        key = id(i), name
        if key not in self._followers:
            named = (other for other in self.sites.values() if other.name.startswith(name))
            self._followers[key] = next((other for other in named if self.leads(i, other)), None)
        return self._followers[key]

    def _arrival_of_copies(self, copy: Instruction) -> Instruction | None:
        """The arrival of a cp.async at an mbarrier, if the program waits for no group after it."""
        return None if self.following(copy, "cp.async.wait") else self.following(copy, "cp.async.mbarrier.arrive")

    def group_of(self, op: Operation, commit: str, wait: str, then: str = "") -> str:
        """How to wait for an operation of a commit group: `commit` is proposed if no such instruction can follow it;
        `then` is what follows the wait.
        """
        kind = facts_of(op.kind).group
        younger = None if self.groups is None else self.groups.younger(op, kind)
        if younger is not None:
            return f"{wait} {younger}{then}"
        there = self.following(op.instruction, commit)
        if there is not None:
            return f"{wait} 0{then}, in the thread that executes {commit} in {there.at}"
        return f"{commit}, {wait} 0{then}" if then else f"{commit} and {wait} 0"

    def too_weak(self, op: Operation, warp: int) -> str:
        """The fix for a wait that exists and does not cover an operation. The wait is relaxed, or leaves the group of
        the operation pending, or is for the other parity.
        """
        i, left, younger = self._weak_wait(op)
        if i is not None:
            return f"{i.name} {younger} instead of {left} in {i.at}: {left} leaves the group of {op.instruction.at} pending"
        if (ignored := self._ignored_wait(op, warp)) is not None:
            return f"a loop that repeats {ignored.name} in {ignored.at} until it is true"
        waited = self.waits.get(warp)
        if early := self.passed_early(waited, op)[1]:
            return early
        return self.relaxed_wait(warp) if waited is not None and _counts(waited[0], op) else ""

    def passed_early(self, waited: Waited | None, op: Operation | None = None) -> tuple[str, str]:
        """The case that the last wait of a reader was for the parity that the phase of the bytes does not have. The
        result says why the wait passed, and gives the fix. The mbarrier should count the operation `op` (None: any
        copies).
        """
        barrier, line, brought = waited or (None, 0, [])
        wait = self.sites.get(line)
        if barrier is None or wait is None or not is_wait(wait) or "parity" not in wait.modifiers:
            return "", ""
        if not (barrier.state.is_counting if op is None else _counts(barrier, op) or self._is_committed(op.instruction, wait)):
            return "", ""
        parity = wait.operands[PARITY]
        named = self.x.program.places.mbarrier_named(barrier.offset)
        if wait.site in barrier.state.passed.at_first and not before_loads(wait, self.x):
            first = "" if isinstance(parity, Immediate) else " in its first round"
            why = f"the wait in {self.line(line)} is for parity 1{first}: it passes at once, before phase 0 of the mbarrier {named} is complete"
            return why, f"parity 0 in {self.line(line)}{first}"
        if op is None or not isinstance(parity, Immediate) or not self._is_in_order(op.instruction, wait):
            return "", ""
        if not brought or any(d.instruction.site == op.instruction.site for d in brought):
            return "", ""  # the wait was for the phase of the bytes, or they are not counted
        own = parity.value & 1
        why = f"the wait in {self.line(line)} is for parity {own}: it passes at once, before the phase of this operation at the mbarrier {named} is complete"
        return why, f"parity {1 - own} in {self.line(line)}"

    def passed_before_commit(self, warp: int) -> tuple[str, str]:
        """`passed_early` of the last wait of a warp, if the mbarrier is one of tcgen05.commit, and nothing has arrived
        there yet.
        """
        barrier, line, brought = self.waits.get(warp, (None, 0, []))
        if barrier is None or barrier.state.phase or barrier.state.arrivals.by_site:
            return "", ""
        place, body = self.x.program.places.shared_at(barrier.offset), self.x.program.inlined.body
        commits = [i for i in self.sites.values() if i.op == "tcgen05" and i.modifiers[0] == "commit"]
        of_commits = [symbols_behind(body, one) for i in commits for one in i.operands if isinstance(one, Address)]
        is_of_commit = any(not names or place is None or place.name in names for names in of_commits)
        return self.passed_early((barrier, line, brought)) if is_of_commit else ("", "")

    def _is_committed(self, i: Instruction, wait: Instruction) -> bool:
        """Does a wait name the mbarrier of the next tcgen05.commit after an instruction?"""
        there = self.following(i, "tcgen05.commit") if i.op == "tcgen05" else None
        return there is not None and any(isinstance(operand, Address) and operand in wait.operands for operand in there.operands)

    def _is_in_order(self, first: Instruction, then: Instruction) -> bool:
        """Does an instruction come after another one, on all paths with both?"""
        program = self.x.program
        return leads_past(program, first, then, []) and not leads_past(program, then, first, [])

    def _weak_wait(self, op: Operation) -> tuple[Instruction | None, int, int]:
        """The last wait for a commit group that leaves the group of an operation pending: its instruction, how many
        groups it leaves, and how many are younger than that group. None if there is no such wait.
        """
        kind = facts_of(op.kind).group
        i, left = self.group_waits.get((int(op.warps[0]), kind), (None, 0))
        younger = self.groups.younger(op, kind) if i is not None and self.groups is not None else None
        is_covered = younger is not None and younger < left and not self.groups.is_after_wait(op, kind)  # type: ignore[union-attr]
        return (i, left, younger) if is_covered and younger is not None else (None, 0, 0)

    def _wait_before(self, op: Operation) -> Instruction | None:
        """The last wait for a commit group, if the group of an operation was committed after it: that wait cannot be
        for it.
        """
        kind = facts_of(op.kind).group
        i, _ = self.group_waits.get((int(op.warps[0]), kind), (None, 0))
        return i if i is not None and self.groups is not None and self.groups.is_after_wait(op, kind) else None

    def or_other_stage(self, op: Operation) -> str:
        """The alternative cause if a copy of a commit group is issued after the wait of the same round: its bytes are
        those of a later round.
        """
        if facts_of(op.kind).group != "cp.async" or self._wait_before(op) is None:
            return ""
        return f"{OR}if the bytes are for a later round: let {op.instruction.at} copy into another stage than the one that is read next"

    def _ignored_wait(self, op: Operation, warp: int) -> Instruction | None:
        """The last wait of a warp, if it was for the phase of an operation, and no instruction looks at its answer."""
        barrier, line, brought = self.waits.get(warp, (None, 0, []))
        wait = self.sites.get(line)
        if barrier is None or wait is None or not is_wait(wait) or is_read(wait, self.x.program.inlined):
            return None
        if brought and all(d.instruction is not op.instruction for d in brought):
            return None
        return wait if _counts(barrier, op) or self._is_committed(op.instruction, wait) else None

    def why_relaxed(self, warp: int) -> str:
        """What the last wait of a warp at an mbarrier does not do, if that wait is relaxed."""
        return f"the wait in {self.line(self.waits[warp][1])} is .relaxed, so it does not make the bytes of the phase visible"

    def relaxed_wait(self, warp: int) -> str:
        """The change of the last wait of a warp at an mbarrier, if that wait is relaxed."""
        _, line, _ = self.waits.get(warp, (None, 0, []))
        i = self.sites.get(line)
        if i is None or "relaxed" not in i.modifiers:
            return ""
        return f".acquire instead of .relaxed in {self.line(line)}"

    def narrow(self, formal: Formal) -> tuple[str, str]:
        """Why nothing orders two accesses, and what to change: "" if no instruction is too weak, else in that
        instruction.
        """
        excuse = self.excuses.get(formal)
        if excuse is None:
            return UNORDERED, ""
        why, change = _EXCUSED[formal]
        return f"{excuse.name} of {excuse.at} does not order the two: {why}", change.format(at=excuse.at)

    def _by_issuer(self, op: Operation) -> str:
        """Which threads have to commit and wait for an operation of a commit group: groups belong to threads."""
        if not op.groups.lanes or op.kind == "wgmma" or facts_of(op.kind).group not in self.operations.waits:
            return ""
        if op.groups.lanes & op.groups.lanes - 1:
            return ", in each thread that issued the operation (commit groups belong to threads)"
        return f", in lane {op.lane} of warp {self.warp(op.warps[0])}, which issued the operation (commit groups belong to threads)"

    def or_free_later(self, op: Operation, warp: int) -> str:
        """The alternative cause if a warp that has waited for an earlier phase reads what a load brings: the load was
        issued too early.
        """
        if not facts_of(op.kind).is_load or self._expects_none(op, warp) is not None:
            return ""
        barriers = [mbarriers(cta).get(offset) for cta, offset in op.barriers.values()]
        if not any(barrier is not None and self.clocks.has_waited(warp, barrier) for barrier in barriers):
            return ""
        return f"; or, if this line should read the bytes of an earlier phase: before the load, {READERS_ARRIVE}"

    def commit_before(self, op: Operation, reader: Instruction) -> Instruction | None:
        """The tcgen05.commit that frees a stage for a load, if it comes before a product that still reads the stage.

        The thread that issues the load has waited for it last.
        """
        barrier, *_ = self.waits.get(int(op.warps[0]), (None, 0, []))
        if barrier is None or reader.op != "tcgen05":
            return None
        came = [self.sites.get(site) for site, _ in barrier.state.arrivals.by_site]
        early = [
            i for i in came if i is not None and i.op == "tcgen05" and place_of(i.site) < place_of(reader.site) and self.leads(i, reader)
        ]
        return early[-1] if early and len(early) == len(came) else None

    def is_again(self, op: Operation, warp: int, at: np.ndarray) -> bool:
        """Has the phase that a warp waited for last brought these words, by an earlier load of the thread that issues
        the operation?
        """
        barrier, _, brought = self.waits.get(warp, (None, 0, []))
        if barrier is None or not _counts(barrier, op):
            return False
        offsets = at % (self.x.pitch // WORD) * WORD + self.x.window_begin
        own = (d for d in brought or () if d.to == barrier.cta.rank)
        loads = [d.instruction.site for d in own if ((offsets >= d.begin) & (offsets < d.begin + d.size)).any()]
        others = (other for other in barrier.operations if other.number != op.number and other.warps[0] == op.warps[0])
        return any(other.instruction.site in loads for other in others)

    def make_room(self, i: Instruction, at: np.ndarray, held: np.ndarray, op: Operation, warp: int) -> str:
        """The fix if words are accessed of those (`held`) that an operation still writes. For a load over a load with
        another barrier than the first one's.
        """
        if i.op != "cp" or not facts_of(op.kind).is_load or warp < 0:
            return self.wait_for(op, i, warp)
        first, second = (int(words.min()) % (self.x.pitch // WORD) * WORD + self.x.window_begin for words in (held, at))
        if first != second:
            return f"stages that do not overlap: the first load begins at {first:#x}, this one at {second:#x}, and their bytes overlap"
        room = f"before the next load into a stage, wait for an mbarrier at which its readers arrive after their reads{self._passed_too_soon(warp)}"
        one, other = (self.x.ctas[n // self._per_cta].number for n in (int(op.warps[0]), warp))
        if i.name != op.instruction.name:
            return room
        if one != other:
            which = "the CTA mask or the destination" if "multicast::cluster" in i.modifiers else "the destination"
            if named := self._phase_with(op):
                return f"correct {which} in {i.at}: CTA {one} and CTA {other} load the same bytes in one phase of the mbarrier {named}"
            return f"if the readers need what CTA {one} and CTA {other} load: correct {which} in {i.at}; or {room}"
        if op.instruction is not i and not self.leads(i, op.instruction):
            return f"if the readers need the bytes of both loads: correct the destination in {op.instruction.at} or {i.at}; or {room}"
        return room

    def _phase_with(self, op: Operation) -> str:
        """The mbarrier whose current phase has the bytes of an operation: its stage is not free, and no thread may have
        read it yet. "" without one.
        """
        for cta, offset in op.barriers.values():
            barrier = mbarriers(cta).get(offset)
            now = [] if barrier is None else barrier.state.deliveries.now
            if any(d.instruction is op.instruction and d.issuer == int(op.warps[0]) // self._per_cta - cta.index + cta.rank for d in now):
                return str(self.x.program.places.mbarrier_named(offset))
        return ""

    def _passed_too_soon(self, warp: int) -> str:
        """Why the last wait of a warp passed before a load into a stage that is not free: its parity, or an arrival. ""
        if the wait was for bytes.
        """
        barrier, line, _ = self.waits.get(warp, (None, 0, []))
        wait = self.sites.get(line)
        if barrier is None or wait is None or not is_wait(wait) or barrier.state.bytes.expecting or barrier.state.deliveries.sources:
            return ""
        state, named = barrier.state, self.x.program.places.mbarrier_named(barrier.offset)
        if not state.phase:
            why = "passes at once: phase 0 is not complete there, and parity 1 of a new mbarrier counts as complete"
            change = f"the parity in {wait.at} must be 0 for the second load into the stage"
        elif sites := sorted({site for site, _ in state.arrivals.by_site}, key=place_of):
            by = self.sites.get(sites[0])
            name = "the arrival" if by is None or len(sites) > 1 else by.name
            why = f"passes because {self.x.program.at(*sites)} arrives there"
            change = f"move {name} of {self.x.program.at(*sites)} after the reads"
        else:
            return ""
        return f"{OR}if {named}, where {wait.at} waits, is the mbarrier of this stage: {change}. That wait {why}"
