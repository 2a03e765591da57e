"""What the watch keeps of shared memory: for each word the last writer and its readers; and how it calls them in a finding."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.finding import Touched
from smemsim.program.barriers.mbarrier import Delivery, Mbarrier, before_loads, is_wait, mbarriers
from smemsim.program.watch.bytes import Parts
from smemsim.program.watch.clocks import Groups, Handles, Operation, Order
from smemsim.program.watch.unwritten import is_followed
from smemsim.program.wave import WARP, WARPGROUP
from smemsim.ptx.module import Instruction
from smemsim.spec.findings import Severity

if TYPE_CHECKING:
    from smemsim.program.wave import Cta, Wave

__all__ = ["ATOMIC", "GROUP", "NOBODY", "OPERATIONS", "READERS", "WORD", "Shadow"]


WORD = 4
MOST_RUNS = 64  # of bytes, that a finding keeps apart
NOBODY, OPERATIONS = -1, 1 << 20  # in `who`: warps have their number, asynchronous operations theirs from here on
ATOMIC = -2  # atomic and other strong operations of anybody
LOADED = 4  # words of the smallest load
Waited: TypeAlias = tuple[Mbarrier, int, list[Delivery]]  # an mbarrier, the line of the wait, and what its last phase brought
MOST_BROUGHT = 4  # copies of a phase that are listed
WAITED_BY_ISSUER = ("wgmma", "cp.async", "tma_store", "tma_reduce")  # operations that only those who issue them can wait for
READERS = 4  # asynchronous readers of a word that are remembered, by their warpgroup
GROUP = WARPGROUP // WARP


class Shadow:
    """The state of one wave's watch, and what reads that came too early were to get."""

    def __init__(self, x: Wave) -> None:
        self.x = x
        words = len(x.shared) // WORD
        warps = x.total // WARP
        is_relaxed = any(i.op in ("bar", "barrier") and {"cluster", "arrive", "relaxed"} <= {*i.modifiers} for i in x.program.inlined.body)
        self.order = Order(warps, might_be=Order(warps) if is_relaxed else None)
        self.relaxed: Instruction | None = None  # the last relaxed arrival at a barrier of the cluster
        self._told_of: set[tuple[str, int]] = set()  # the codes and lines of relaxed arrivals that are told
        self.per_cta = x.stride // WARP
        self.per_cluster = self.per_cta * x.launch.cluster_size
        self.who = np.full(words, NOBODY, np.int32)
        self.parts = Parts(words)
        self.when = np.zeros(words, np.int32)
        self.line = np.zeros(words, np.int32)
        self.strong = np.zeros(words, bool)  # was the last write of a warp atomic, relaxed, release or volatile?
        self.read_when = np.zeros((self.per_cluster, words), np.int32)
        self.read_line = np.zeros(words, np.int32)
        self.polled_when: np.ndarray | None = None  # the same of relaxed, acquire and volatile loads, made at the first
        self.polled_line = self.read_line
        self.read_by = np.full((READERS, words), NOBODY, np.int32)
        self._told: set[tuple[int, str]] = set()  # lines of operations whose registers were touched too early, and how, that have a finding
        self.early: dict[int, tuple[Instruction, np.ndarray]] = {}  # by line: words that were read before anybody had written them
        self.early_waits: dict[int, Waited] = {}  # of them, by line: what the reader had waited for last
        self.late: dict[int, Callable[[], None]] = {}  # of them, by line: what came later, to be told once the value is used
        self.operations = Handles()
        self.in_flight = self.of_sums = 0  # registers by their bits: of wgmma in flight, and of sums that nobody has read
        self._sums: dict[tuple[int, frozenset[int]], Instruction] = {}  # the wgmma that left a sum there, by the first warp and registers
        self._filled: dict[int, set[int]] = {}  # of what only wgmma gives a value: what has one, by the warpgroup's first warp
        self._copies: dict[int, Operation] = {}  # of a warp: its open cp.async operation
        self._registers: dict[int, dict[Operation, None]] = {}  # of a slot
        self._groups: dict[tuple[int, str], Groups] = {}
        self._made: dict[
            Any, tuple[int, int, Instruction, set[int]]
        ] = {}  # mbarriers: warp, its clock, mbarrier.init, warps that have seen it
        self._published: set[Any] = set()  # of them, those with a fence.mbarrier_init behind
        self.last_waits: dict[int, Waited] = {}  # of a warp
        self.lines = {i.line: i for i in x.program.inlined.body}

    # ---- reads before anybody has written

    def _arrives_late(self, op: Operation, at: np.ndarray) -> None:
        """Bytes come that somebody has read already, when nobody had written them: the reader did not wait."""
        for line, (i, words) in list(self.early.items()):
            late = at[words[at]]
            if late.size and self._is_unordered(op, line, late):
                del self.early[line]
                why, repair = self._other_stage(self.early_waits.get(line), late, op)
                sentence = f"{{i}} reads {{where}} before {self._name(op)} has brought it{why or ': nothing makes the reader wait'}"
                repair = self._passed(i) or repair or "wait for the phase of its mbarrier (mbarrier.try_wait.parity) first"
                self.came_late(i, functools.partial(self._find, "X004", i, late, sentence, repair), self.late)

    def _is_unordered(self, op: Operation, line: int, at: np.ndarray) -> bool:
        """Is an operation that now writes words not ordered behind those who read them, by the instruction of a line?"""
        order, first = self.order, int(op.warps[0])
        readers = first // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)
        if (self.read_when[:, at] > order.seen[first, readers][:, None]).any():
            return True
        by = np.unique(self.read_by[:, at])
        return any(self.operations[n].instruction.line == line and not order.read_done[first, n] for n in by[by >= 0].tolist())

    def came_late(self, i: Instruction, tell: Callable[[], None], late: dict[int, Callable[[], None]]) -> None:
        """What an instruction read before anybody had written it comes now: told at once, or, where it is followed, once its value is used."""
        was_used = self.x.launch.findings.pop(("R507", i.line), None) is not None
        if was_used or not is_followed(i):
            tell()
        else:
            late[i.line] = tell

    def nothing_came(self) -> None:
        """Nothing goes on: what was read before anybody had written it was to be brought by loads that are still to come."""
        self.abandoned()
        loads = [i for i in self.lines.values() if i.op == "cp" and "mbarrier::complete_tx::bytes" in i.modifiers]
        for line, (i, words) in list(self.early.items()):
            if loads and np.count_nonzero(words) >= LOADED and self.x.launch.findings.pop(("R507", line), None) is not None:
                self._find(
                    "X004", i, np.flatnonzero(words), f"{{i}} reads {{where}} before anybody has brought it (line {', '.join(str(n.line) for n in loads[:6])} "
                    "may, and never came to it): nothing made the reader wait",
                    self._passed(i) or "wait for the phase of its mbarrier (mbarrier.try_wait.parity), with the parity of this round",
                )  # fmt: skip

    def abandoned(self) -> None:
        """The kernel ends before what it has read could be used: told is what made a whole product wrong."""

    def _passed(self, i: Instruction) -> str:
        """What to change where the last wait in front of a read, one of its consumer, passed before the first phase had ended."""
        waits = [other for other in self.lines.values() if is_wait(other) and other.line < i.line]
        last = max(waits, key=lambda wait: wait.line, default=None)
        if last is None or before_loads(last, self.x):
            return ""
        for cta in self.x.ctas:
            for barrier in mbarriers(cta).values():
                if last.line in barrier.passed:
                    return (
                        f"the wait at line {last.line} for the mbarrier at {barrier.offset:#x} passed at once, before its first phase: "
                        "wait for parity 0 in the first round"
                    )
        return ""

    # ---- inside

    def _words(self, x: Wave, flat: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        at, warps = flat >> 2, x.threads >> 5
        if size > WORD:
            count = size // WORD
            at, warps = (at[:, None] + np.arange(count)).reshape(-1), np.repeat(warps, count)
        return at, warps

    def _running(self, x: Wave) -> np.ndarray:
        return np.unique(x.threads >> 5)

    def _of_cta(self, cta: Cta, offsets: np.ndarray) -> np.ndarray:
        words: np.ndarray = (np.asarray(offsets, np.int64) >> 2) + cta.index * (self.x.pitch // WORD)
        return words

    def _warp(self, warp: Any) -> str:
        cta, own = divmod(int(warp), self.per_cta)
        return str(own) if len(self.x.ctas) == 1 else f"{own} (CTA {self.x.ctas[cta].number})"

    def _name(self, op: Operation) -> str:
        return f"{op.instruction.name} of line {op.instruction.line}"

    def _writer(self, place: Any) -> str:
        who = int(self.who[place])
        if who >= OPERATIONS:
            return self._name(self.operations[who - OPERATIONS])
        line = int(self.line[place])
        return f"warp {self._warp(who)} wrote at line {line}{f' ({self.lines[line].name})' if line in self.lines else ''}"

    def _last_wait(self, warps: np.ndarray, at: np.ndarray) -> Waited | None:
        """What the first of these warps that is of the CTA of the words waited for last."""
        cta = int(at[0]) // (self.x.pitch // WORD)
        own = warps[warps // (self.x.stride // WARP) == cta]
        return self.last_waits.get(int(own[0])) if own.size else None

    def _other_stage(self, waited: Waited | None, at: np.ndarray, op: Operation) -> tuple[str, str]:
        """Where the mbarrier that a reader waited for last brought other bytes than it reads: which, and what to change."""
        if waited is None or not waited[2]:
            return "", ""
        barrier, line = waited[:2]
        brought = [d for d in waited[2] if d.to is barrier.cta]
        cta, words = divmod(at, self.x.pitch // WORD)
        offsets = words * WORD + self.x.window_begin
        came = any(((offsets >= d.begin) & (offsets < d.begin + d.size)).any() for d in brought)
        if came or not brought or barrier.cta.index != cta[0] or barrier.cta.index not in op.barriers:
            return "", ""
        mine = op.barriers[barrier.cta.index][1]
        if mine == barrier.offset:
            why = f": the phase of the mbarrier at {mine:#x} that line {line} waited for ended without these bytes"
            return why, "let each phase expect all bytes that are read behind it, and no others come"
        pieces = list(dict.fromkeys(f"{d.begin:#x} to {d.begin + d.size - 1:#x}" for d in brought))
        ranges = ", ".join(pieces[:MOST_BROUGHT]) + " ..." * (len(pieces) > MOST_BROUGHT)
        why = f": line {line} waited for the mbarrier at {barrier.offset:#x}, whose phase brought {ranges}: another stage"
        return why, (
            f"one index for the stage that is loaded, the mbarrier that counts it, the wait and the read: what is read here completes on the "
            f"mbarrier at {mine:#x}"
        )

    def _is_untold(self, op: Operation) -> bool:
        """Have those who issued an operation waited for it, who alone can? Then another warp, that does not know, has not been told."""
        return op.kind in WAITED_BY_ISSUER and bool(self.order.done[op.warps, op.number].any())

    def _telling(self, op: Operation, warp: int) -> str:
        """What to change where a warp has not been told that an operation is over."""
        per_cta = self.x.stride // WARP
        far = int(op.warps[0]) // per_cta != warp // per_cta
        how = "mapa, mbarrier.arrive.release.cluster.shared::cluster" if far else "mbarrier.arrive, bar.arrive"
        return f"let warp {self._warp(op.warps[0])} arrive ({how}) behind its wait, at a barrier that warp {self._warp(warp)} waits for"

    def _wait_for(self, who: int, warp: int = -1) -> str:
        if who < OPERATIONS:
            return ""
        if warp >= 0 and self._is_untold(self.operations[who - OPERATIONS]):
            return self._telling(self.operations[who - OPERATIONS], warp)
        return {
            "tma_load": "wait for the phase of its mbarrier (mbarrier.try_wait.parity) first",
            "tcgen05.mma": "tcgen05.commit behind it, and wait for the phase of its mbarrier (mbarrier.try_wait) first",
            "tcgen05.cp": "tcgen05.commit behind it, and wait for the phase of its mbarrier (mbarrier.try_wait) first",
            "tcgen05.alloc": "put a barrier (bar.sync) between them",
            "wgmma": "wgmma.commit_group and wgmma.wait_group first",
            "cp.async": "cp.async.commit_group, cp.async.wait_group and a barrier first",
            "tma_store": "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read first",
            "tma_reduce": "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read first",
        }.get(self.operations[who - OPERATIONS].kind, "wait for the mbarrier, or the group, that counts it first")

    def _make_room(self, i: Instruction, at: np.ndarray, who: int, warp: int) -> str:
        """What to change where words are touched that an operation still brings; of a load over a load it is not the first one's own barrier."""
        if i.op != "cp" or self.operations[who - OPERATIONS].kind not in ("tma_load", "bulk"):
            return self._wait_for(who, warp)
        per_cta = self.x.pitch // WORD
        first, second = (int(words.min()) % per_cta * WORD + self.x.window_begin for words in (np.flatnonzero(self.who == who), at))
        if first != second:
            return (
                f"the two overlap: the first one's bytes begin at {first:#x}, these at {second:#x}; stages must lie as far apart as what is loaded "
                "into one is long"
            )
        return "before the next load into a stage, wait for an mbarrier at which its readers arrive when they have read it"

    def _find(
        self, code: str, i: Instruction, places: np.ndarray, sentence: str, repair: str = "", *, formal: bool = False, cause: str = ""
    ) -> None:
        """A finding about words of shared memory; a remark where only the .relaxed of an arrival is in the way of order (`formal`)."""
        before = self.x.launch.found(code, i.line, cause)
        if (before is not None and (formal or not before.is_milder)) or (formal and self._is_told(code)):
            return
        per_cta = self.x.pitch // WORD
        cta = self.x.ctas[int(places[0]) // per_cta]
        offsets = np.unique(places[places // per_cta == cta.index]) % per_cta * WORD + self.x.window_begin
        where = f"shared {int(offsets[0]):#x}" + (f" to {int(offsets[-1]) + WORD - 1:#x}" if len(offsets) > 1 else "")
        where += f" of CTA {cta.number}" if self.x.launch.ctas > 1 else ""
        message = sentence.replace("{i}", i.name).replace("{where}", where)
        runs = np.split(offsets, np.flatnonzero(np.diff(offsets) != WORD) + 1)
        if len(runs) > MOST_RUNS:
            runs = [offsets]
        touched = tuple(Touched(cta.number, int(run[0]), int(run[-1]) + WORD) for run in runs)
        self.tell(code, i, message, repair, "PTX ISA 8 (memory consistency), 9.7.13", touched, formal=formal, cause=cause)

    def _is_told(self, code: str) -> bool:
        """Is a remark of the code told of the last relaxed arrival? What else rests on that needs the same change."""
        return self.relaxed is not None and (code, self.relaxed.line) in self._told_of

    def tell(
        self, code: str, i: Instruction, message: str, repair: str, because: str, touched: tuple[Touched, ...] = (), *, formal: bool = False,
        cause: str = "",
    ) -> None:  # fmt: skip
        """A finding; `formal`: nothing but the .relaxed of an arrival at a barrier of the cluster is wrong, which compilers and libraries emit."""
        if not formal or self.relaxed is None:
            self.x.launch.find(code, i, message, repair, because=because, touched=touched, operation=cause)
            return
        if self._is_told(code):
            return
        self._told_of.add((code, self.relaxed.line))
        arrival = f"{self.relaxed.name} of line {self.relaxed.line}"
        self.x.launch.find(
            code, i, f"{message} but {arrival}, which releases nothing by the PTX ISA; compilers and libraries write it so, and it has held",
            f"barrier.cluster.arrive.release in line {self.relaxed.line}", because=because, touched=touched, milder=Severity.NOTE, operation=cause,
        )  # fmt: skip
