"""Releases by some lanes of a warp (PTX ISA 9.1 §8.1, 8.8). A release orders the stores of its own lanes, and those of
other lanes that have synchronised with them before (bar.warp.sync, a barrier). The mirror of `partial_waits.py`.

At elect.sync, shfl.sync, vote.sync, match.sync, redux.sync and the matrix instructions of a warp lanes wait for each
other, and no document says that this orders memory. Whatever depends on that is a remark (rule
order.lanes_only_wait). So is ldmatrix, stmatrix, wmma.load or wmma.store of words that lanes have just stored.

`happens_before.py` orders warps; each release ends a tick of the warp's clock. This module records the lanes that a
tick does not cover, and their stores: only stores that a release may follow (`unmet_stores`), which most programs do
not have.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.accesses import Piece
from smemsim.run.lower.cfg import following
from smemsim.run.marks import LANE_BITS
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.lanes import ONLY_WAIT, Lanes
from smemsim.run.sanitizer.operations import MATRIX, Operation
from smemsim.run.sanitizer.races import LANES_APART, Access, operation_with, unordered
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.synchronisation import ALL_LANES, by_warps
from smemsim.run.warps import EXITED, WARP

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program
    from smemsim.run.views import Wave

__all__ = ["ReleaseMissingWrites", "unmet_loads", "unmet_stores"]


# words of the stores of a warp, and exposed words, from which on it is looked whether some are there twice
LEAST = 1 << 12
_STEP = 4  # bytes of a word
_NEVER = np.iinfo(np.int64).max
_MEETINGS = frozenset(("bar", "barrier"))
_STRONG = frozenset(("relaxed", "volatile", "release", "acq_rel", "mmio"))
_unmet: weakref.WeakKeyDictionary[Program, tuple[frozenset[int], frozenset[int]]] = weakref.WeakKeyDictionary()


# ---- Accesses before a release, without a synchronisation of the lanes in between


def unmet_stores(program: Program) -> frozenset[int]:
    """The plain stores (their `id`) after which a thread can reach a release, or a fence and a strong write, without an
    instruction that orders the memory of lanes. For stores to shared memory a matrix instruction on shared memory
    counts too.
    """
    return _unmet_accesses(program)[0]


def unmet_loads(program: Program) -> frozenset[int]:
    """The sites of such plain loads of shared memory."""
    return _unmet_accesses(program)[1]


def _unmet_accesses(program: Program) -> tuple[frozenset[int], frozenset[int]]:
    found = _unmet.get(program)
    if found is None:
        unmet = _find_unmet(program)
        found = _unmet[program] = frozenset(id(i) for i in unmet if i.op == "st"), frozenset(i.site for i in unmet if i.op == "ld")
    return found


def _find_unmet(program: Program) -> list[Instruction]:
    if not any(_releases(i) or _fences(i) or _moves_matrices(i) for block in program.blocks for i in block.instructions):
        return []
    count = len(program.blocks)
    after = [following(program, n) for n in range(count)]
    # of each block: may a release, a strong write, an access of matrices follow?
    begins = [(False, False, False)] * (count + 1)
    found: dict[int, Instruction] = {}
    grows = True
    while grows:
        grows = False
        for n in reversed(range(count)):
            ends = [begins[to] for to in after[n] or ()]
            state = any(one for one, _, _ in ends), any(one for _, one, _ in ends), any(one for _, _, one in ends)
            for i in reversed(program.blocks[n].instructions):
                is_store = _is_plain_store(i)
                if (state[0] and (is_store or _is_plain_load(i))) or (state[2] and is_store and "global" not in i.modifiers):
                    found[id(i)] = i
                state = _before(i, state)
            grows |= state != begins[n]
            begins[n] = state
    return [*found.values(), *_accesses_beside(program, after, [releases for releases, _, _ in begins])]


def _accesses_beside(program: Program, after: Sequence[Sequence[int] | None], releases: Sequence[bool]) -> list[Instruction]:
    """The plain loads in one arm of a branch, if a thread in the other arm may release. Lanes of one warp may be in
    both arms. The flags `releases` say, by block, whether a release may follow before the lanes meet.

    The same for plain stores, but not in kernels with matrix instructions of warpgroups: most of them branch by warp,
    and store behind the branch.
    """
    has_stores = program.uses.isdisjoint(MATRIX)
    beside = [False] * len(releases)
    for arms in after:
        if arms is not None and any(releases[arm] for arm in arms):
            for arm in arms:
                beside[arm] |= any(releases[other] for other in arms if other != arm)
    found: dict[int, Instruction] = {}
    grows = True
    while grows:
        grows = False
        for n, block in enumerate(program.blocks):
            is_beside = beside[n]
            for i in block.instructions if is_beside else ():
                if _is_plain_load(i) or (has_stores and _is_plain_store(i)):
                    found[id(i)] = i
                is_beside = is_beside and not _meets(i)
            for to in after[n] or ():
                grows |= is_beside and not beside[to]
                beside[to] |= is_beside
    return list(found.values())


def _before(i: Instruction, state: tuple[bool, bool, bool]) -> tuple[bool, bool, bool]:
    """The possible successors of an instruction, seen from before it."""
    releases, writes, matrices = state
    if _meets(i):
        return False, False, False
    if _fences(i):
        return releases or writes, writes, matrices
    is_strong = i.op in ("atom", "red") or (i.op == "st" and not _STRONG.isdisjoint(i.modifiers)) or _changes_mbarrier(i)
    return releases or _releases(i), writes or is_strong, matrices or _moves_matrices(i)


def _meets(i: Instruction) -> bool:
    """Do the lanes of a warp execute an instruction together that orders their memory?"""
    return i.guard is None and i.op not in ONLY_WAIT and (i.op in _MEETINGS or not {"sync", "aligned"}.isdisjoint(i.modifiers))


def _changes_mbarrier(i: Instruction) -> bool:
    """Is it a relaxed operation on an mbarrier?"""
    return i.op == "mbarrier" and i.modifiers[0] in ("arrive", "arrive_drop", "expect_tx", "complete_tx")


def _moves_matrices(i: Instruction) -> bool:
    """Do the lanes of a warp access shared memory together?"""
    return i.op in ("ldmatrix", "stmatrix") or (i.op == "wmma" and i.modifiers[0] in ("load", "store") and "global" not in i.modifiers)


def _releases(i: Instruction) -> bool:
    is_arrival = i.op == "mbarrier" and i.modifiers[:1] in (("arrive",), ("arrive_drop",)) and "relaxed" not in i.modifiers
    return is_arrival or (
        i.op in ("st", "atom", "red") and not {"release", "acq_rel"}.isdisjoint(i.modifiers) and "async" not in i.modifiers
    )


def _fences(i: Instruction) -> bool:
    return i.op in ("fence", "membar") and not {"proxy", "mbarrier_init", "acquire"} & {*i.modifiers}


def _is_plain_store(i: Instruction) -> bool:
    return i.op == "st" and _STRONG.isdisjoint(i.modifiers) and not {"local", "param", "async", "bulk"} & {*i.modifiers}


def _is_plain_load(i: Instruction) -> bool:
    return i.op == "ld" and not {"global", "local", "param", "const", "relaxed", "acquire", "volatile", "mmio"} & {*i.modifiers}


# ---- What lanes have stored, and who releases it


@dataclasses.dataclass(eq=False)
class _Stored:
    """Words that lanes of a warp have stored, with the warp's clock and the number of the store (of
    `ReleaseMissingWrites.of`). It also has the marks of the lanes (`lanes.py`), and whether a release of other lanes
    has exposed the words already.
    """

    memory: int
    words: np.ndarray
    lanes: np.ndarray
    marks: np.ndarray
    clocks: np.ndarray
    of: np.ndarray
    is_exposed: np.ndarray

    def some(self, which: np.ndarray) -> _Stored:
        """Some of the words."""
        return _Stored(self.memory, *(array[which] for array in self._arrays))

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.words, self.lanes, self.marks, self.clocks, self.of, self.is_exposed

    @staticmethod
    def joined(stored: list[_Stored]) -> _Stored:
        """Those of one memory, of each word the last."""
        arrays = [np.concatenate(each) for each in zip(*(one._arrays for one in stored), strict=True)]
        last = len(arrays[0]) - 1 - np.unique(arrays[0][::-1], return_index=True)[1]
        return _Stored(stored[0].memory, *(array[last] for array in arrays))


class _Met:
    """The instructions by which lanes synchronise. For each time (`Lanes.now`) at which lanes of a warp have stored
    since they all synchronised, it has the clock of each lane's first store.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.firsts: dict[int, dict[int, np.ndarray]] = {}  # by warp

    def wrote(self, warp: int, lanes: np.ndarray, clock: int) -> None:
        """Lanes of a warp have stored."""
        now = int(self.lanes.now[warp])
        known = self.firsts.get(warp, {})
        if known and not self.lanes.is_since(next(iter(known)) << LANE_BITS, now << LANE_BITS):
            known = {}
        self.firsts[warp] = known
        firsts = known.setdefault(now, np.full(WARP, _NEVER))
        firsts[lanes] = np.minimum(firsts[lanes], clock)

    def late(self, marks: np.ndarray, warp: int, here: list[int]) -> np.ndarray:
        """Which of the stores with these marks are not ordered before a release of the lanes `here`?"""
        late = np.ones(len(marks), bool)
        for lane in here:
            late &= self.lanes.not_met(marks, warp, lane)
        return late

    def unmet(self, warp: int, here: list[int], clock: int) -> int:
        """The lanes (bits) that have stored something until a clock that is not ordered before a release of the lanes
        `here`.
        """
        bits = 0
        for now, firsts in self.firsts.get(warp, {}).items():
            lanes = np.flatnonzero(firsts <= clock)
            late = lanes[self.late(now << LANE_BITS | lanes, warp, here)]
            bits |= int(np.bitwise_or.reduce(np.int64(1) << late)) if len(late) else 0
        return bits


@dataclasses.dataclass(frozen=True)
class _Exposed:
    """Words that a lane has stored, and another one has released for. `is_twice`: that one stored there too, by the
    same instruction.
    """

    warp: int
    lane: int
    clock: int
    store: Instruction
    release: Instruction
    by: int
    waited_at: Instruction | None
    is_twice: bool


class ReleaseMissingWrites:
    """The stores of lanes of the warps of a wave since they synchronised, and the releases by other lanes of their
    warp.
    """

    def __init__(
        self, x: Wave, clocks: VectorClocks, lanes: Lanes, reporting: Reporting, name: Callable[[Instruction, np.ndarray, int], str]
    ) -> None:
        self.x, self.clocks, self.lanes, self.reporting, self.name = x, clocks, lanes, reporting, name
        self.stores = unmet_stores(x.program)
        # By what lanes meet: barriers; and with those, instructions at which they only wait for each other.
        self._by_barriers, self._by_any = met = _Met(lanes.by_barriers or lanes), _Met(lanes)
        self._apart: dict[
            _Met, dict[int, dict[int, int]]
        ] = {  # by warp and clock: the lanes (bits) for which what was released then does not answer
            one: {} for one in met
        }
        self._stored: dict[int, list[_Stored]] = {}
        self._limits: dict[int, int] = {}  # by warp: at how many words these are joined
        self._of: dict[int, int] = {}  # by the instruction, its number
        self._by_number: list[Instruction] = []
        self._sizes: dict[int, int] = {}  # by memory, in words
        # by memory: of each word the number of its exposure, and one; 0 where it has none
        self._words: dict[int, np.ndarray] = {}
        self._exposures: dict[_Exposed, int] = {}
        self._each: list[_Exposed] = []
        self._limit = LEAST  # of exposures, at which it is looked which of them words still have

    def concerns(self, code: Any) -> bool:
        """Must each access in machine code be reported here, or one of its stores?"""
        return bool(self._words) or (bool(self.stores) and any(id(access.instruction) in self.stores for access in code.stores))

    # ---- stores and releases

    def wrote(self, i: Instruction, piece: Piece, size: int) -> None:
        """The threads of a piece have written `size` bytes each."""
        if piece.space == "local":
            return
        memory, words = _begin(piece.memory), _words(piece.at, size)
        if memory in self._words:
            self._forget(memory, words.reshape(-1))
        if id(i) not in self.stores:
            return
        of = self._of.setdefault(id(i), len(self._of))
        if of == len(self._by_number):
            self._by_number.append(i)
        self._sizes[memory] = -(-piece.memory.nbytes // _STEP)
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        warps, lanes = threads // WARP, threads % WARP
        marks = self._by_barriers.lanes.marks(warps, lanes)
        for warp in distinct(warps).tolist():
            mine, clock = warps == warp, int(self.clocks.clock[warp])
            for met in (self._by_barriers, self._by_any):
                met.wrote(warp, lanes[mine], clock)
            count = words.shape[1]
            every = np.repeat(lanes[mine], count)
            stored = _Stored(
                memory, words[mine].reshape(-1), every, np.repeat(marks[mine], count), np.full(len(every), clock), np.full(len(every), of),
                np.zeros(len(every), bool),
            )  # fmt: skip
            self._stored[warp] = [*self._open(warp), stored]
            self._join(warp)

    def _open(self, warp: int) -> list[_Stored]:
        """The stores of lanes of a warp since all of them synchronised."""
        lanes = self._by_barriers.lanes
        now = int(lanes.now[warp]) << LANE_BITS
        return [one for one in self._stored.get(warp, ()) if lanes.is_since(int(one.marks[0]), now)]

    def _join(self, warp: int) -> None:
        """For words that lanes of a warp have stored twice, the last store is kept."""
        stored = self._stored[warp]
        if sum(len(one.words) for one in stored) < self._limits.get(warp, LEAST):
            return
        by_memory: dict[int, list[_Stored]] = {}
        for one in stored:
            by_memory.setdefault(one.memory, []).append(one)
        self._stored[warp] = [_Stored.joined(some) for some in by_memory.values()]
        self._limits[warp] = max(LEAST, 2 * sum(len(one.words) for one in self._stored[warp]))

    def releases(self, i: Instruction, threads: np.ndarray, *, relaxed: bool) -> None:
        """Threads are about to release, or to fence; `relaxed`: what they knew at their last fence."""
        for warp, lanes in by_warps(threads) if self._stored else ():
            if warp not in self._stored:
                continue
            here = [lane for lane in range(WARP) if lanes >> lane & 1]
            alive = int(np.count_nonzero(self.x.pc[warp * WARP : (warp + 1) * WARP] < EXITED))
            clock = self.clocks.at_fence(warp) if relaxed else int(self.clocks.clock[warp])
            if clock:
                self._release(i, warp, here, clock, is_whole=len(here) == alive)

    def fences_proxy(self, warps: np.ndarray) -> None:
        """A tick of these warps ends with a proxy fence, which releases nothing: it answers for no lane."""
        for warp in [warp for warp in warps.tolist() if warp in self._stored] if self._stored else ():
            for apart in self._apart.values():
                apart.setdefault(warp, {}).setdefault(int(self.clocks.clock[warp]), ALL_LANES)

    def _release(self, i: Instruction, warp: int, here: list[int], clock: int, *, is_whole: bool) -> None:
        for met, apart in self._apart.items():
            known, bits = apart.setdefault(warp, {}), 0 if is_whole else met.unmet(warp, here, clock)
            if clock in known or bits:
                known[clock] = known.get(clock, bits) & bits
        left = []
        for one in self._open(warp):
            known_by = one.clocks <= clock
            if not is_whole:
                late = known_by & ~one.is_exposed & self._by_barriers.late(one.marks, warp, here)
                if late.any():
                    self._expose(i, warp, one, late, here[0])
                one.is_exposed |= late
            if _fences(i):  # a strong write after it releases what it passes on
                left.append(one)
            elif not known_by.all():
                left.append(one.some(~known_by))
        self._stored[warp] = left

    def _expose(self, i: Instruction, warp: int, one: _Stored, late: np.ndarray, by: int) -> None:
        own = one.lanes == by
        is_twice = np.isin(_stores(one, late), _stores(one, own))
        rows = np.stack([one.lanes[late], one.clocks[late], one.of[late], is_twice], axis=1)
        each, which = np.unique(rows, axis=0, return_inverse=True)
        waited_at = self.lanes.waited_at
        exposed = [
            _Exposed(warp, lane, clock, self._by_number[of], i, by, waited_at, bool(twice)) for lane, clock, of, twice in each.tolist()
        ]
        if len(self._each) + len(exposed) > self._limit:
            self._drop_exposures()
        numbers = np.array([self._number(words) for words in exposed], np.int32)
        if one.memory not in self._words:
            self._words[one.memory] = np.zeros(self._sizes[one.memory], np.int32)
        self._words[one.memory][one.words[late]] = numbers[which.reshape(-1)]

    def _number(self, exposed: _Exposed) -> int:
        """The number of an exposure, and one."""
        if exposed not in self._exposures:
            self._each.append(exposed)
            self._exposures[exposed] = len(self._each)
        return self._exposures[exposed]

    def _drop_exposures(self) -> None:
        """Exposures that no word has any more are forgotten."""
        kept = np.zeros(len(self._each) + 1, bool)
        for table in self._words.values():
            kept[table] = True
        kept[0] = False
        new = np.cumsum(kept, dtype=np.int32) * kept
        for memory, table in self._words.items():
            self._words[memory] = new[table]
        self._each = [self._each[number - 1] for number in np.flatnonzero(kept).tolist()]
        self._exposures = {exposed: number for number, exposed in enumerate(self._each, 1)}
        self._limit = max(LEAST, 2 * len(self._each))

    def _forget(self, memory: int, words: np.ndarray) -> None:
        """Words are written once more."""
        table = self._words[memory]
        if table[words].any():
            table[words] = 0
            if not table.any():
                del self._words[memory]

    # ---- accesses of matrices

    def accessed(self, i: Instruction, piece: Piece, size: int, done: str) -> None:
        """X008, a remark, if the lanes of a warp access together words that some of them have stored since their last
        barrier: `size` bytes at the places of a piece.
        """
        if piece.space != "shared" or not self._stored:
            return
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        memory, words = _begin(piece.memory), _words(piece.at, size)
        for warp in distinct(threads // WARP).tolist():
            for one in self._open(warp):
                late = np.isin(one.words, words[threads // WARP == warp]) if one.memory == memory else np.zeros(0, bool)
                if late.any():
                    lanes = self._by_barriers.lanes
                    late &= np.any([lanes.not_met(one.marks, warp, lane) for lane in range(WARP)], axis=0)
                if late.any():
                    self._tell_accessed(i, one, int(np.argmax(late)), warp, done)

    def _tell_accessed(self, i: Instruction, one: _Stored, n: int, warp: int, done: str) -> None:
        store = self._by_number[int(one.of[n])]
        mine = Access("read" if done == "read" else "write", f"all lanes of warp {self.reporting.warp(warp)}", i)
        why = f"{i.name} makes the lanes wait for each other, but no document says that it orders their memory"
        self.reporting.find(
            i, one.words[n : n + 1], unordered(mine, Access("write", f"lane {int(one.lanes[n])} of it", store), why=why),
            f"bar.warp.sync (__syncwarp) before {i.at}", other=store.site, within_warp=True, milder=Severity.NOTE,
        )  # fmt: skip

    # ---- reads

    def read(self, i: Instruction, piece: Piece, size: int) -> None:
        """X008 where the threads of a piece read what a lane of another warp has stored, and they know of it by
        releases of other lanes alone.
        """
        memory = _begin(piece.memory) if self._words else 0
        if memory not in self._words:
            return
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        exposed = self._words[memory][_words(piece.at, size)]
        rows, columns = np.nonzero(exposed)
        pairs = np.stack([exposed[rows, columns], threads[rows] // WARP], axis=1)
        each, firsts = np.unique(pairs, axis=0, return_index=True)
        for (number, warp), first in sorted(zip(each.tolist(), firsts.tolist(), strict=True), key=lambda pair: pair[1]):
            self._look(i, piece.space, piece.memory, int(piece.at[rows[first]]), self._each[number - 1], warp)

    def is_exposed(self, memory: np.ndarray) -> bool:
        """Is there a word of a memory that a lane has stored, and another one alone has released for?"""
        return bool(self._words) and _begin(memory) in self._words

    def op_reads(self, op: Operation, memory: np.ndarray, words: np.ndarray) -> None:
        """The same of an asynchronous operation, which sees what its issuer knew: `words` are those of a memory that
        it reads, by their numbers.
        """
        exposed = self._words[_begin(memory)][words]
        for number in distinct(exposed[exposed > 0]).tolist():
            place = int(words[np.argmax(exposed == number)])
            self._look(op.instruction, "shared", memory, place * _STEP, self._each[number - 1], int(op.warps[0]))

    def _look(self, i: Instruction, space: str, memory: np.ndarray, at: int, one: _Exposed, warp: int) -> None:
        """X008 where a warp reads such a word, and no release that it has seen answers for the lane; a remark where
        lanes have waited for each other.
        """
        if warp == one.warp or not self._is_unreleased(one, warp, self._by_barriers):
            return
        self._tell(i, space, memory, at, one, warp, only_waited=not self._is_unreleased(one, warp, self._by_any))

    def _is_unreleased(self, one: _Exposed, warp: int, met: _Met) -> bool:
        """Does none of the releases that a warp has seen answer for the lane?"""
        clocks = self.clocks
        if clocks.columns < len(clocks.clock) and warp // clocks.columns != one.warp // clocks.columns:
            return False
        seen, apart = int(clocks.has_seen(warp, one.warp)), self._apart[met].get(one.warp, {})
        if not 0 <= seen - one.clock < len(apart):
            return False
        return all(apart.get(clock, 0) >> one.lane & 1 for clock in range(one.clock, seen + 1))

    def _tell(self, i: Instruction, space: str, memory: np.ndarray, at: int, one: _Exposed, warp: int, *, only_waited: bool) -> None:
        name, release, waited_at = self.reporting.warp, one.release, one.waited_at if only_waited else None
        mine, theirs = Access("read", f"warp {name(warp)}", i), Access("write", f"lane {one.lane} of warp {name(one.warp)}", one.store)
        why = f"only lane {one.by} releases, at {release.at} ({release.name}), and "
        if waited_at is None:
            why += f"has not synchronised with lane {one.lane} in between, whose store may come later"
        else:
            why += (
                f"{waited_at.name} of {waited_at.at} makes the lanes wait for each other, but no document says that it orders their memory"
            )
        if one.is_twice:
            why += f". Lane {one.by} stored to this address too, by the same instruction: the reader gets the value if lanes store the same"
        milder = Severity.NOTE if only_waited or one.is_twice else None
        repair = f"bar.warp.sync (__syncwarp) of all lanes between their stores and {release.at}, or let each lane release"
        if space == "global" and milder is None and self.x.stride > WARP:
            repair += f"; if {release.at} is for stores of other warps too: bar.sync (__syncthreads) there"
        if space == "shared":
            said = dataclasses.replace(unordered(mine, theirs, why=why), kind=LANES_APART)
            self.reporting.find(i, np.array([at // _STEP]), said, repair, cause=LANES_APART, other=one.store.site, milder=milder)
        else:
            said = unordered(mine, theirs, self.name(i, memory, at), why)
            self.x.launch.find(
                said.code, i, said.what, repair, why=said.why, halves=said.halves, kind=LANES_APART, because="PTX ISA 9.1 §8.8 (release and acquire patterns), 9.7.13.2",
                operation=operation_with("global memory", one.store), other=one.store, milder=milder,
            )  # fmt: skip


def _stores(one: _Stored, which: np.ndarray) -> np.ndarray:
    """A number for each store of a word by an instruction at a clock, equal for lanes that store there together."""
    words, clocks, of = (np.asarray(array[which], np.int64) for array in (one.words, one.clocks, one.of))
    return (words * (1 + int(one.of.max(initial=0))) + of) * (1 + int(one.clocks.max(initial=0))) + clocks


def _begin(memory: np.ndarray) -> int:
    begin: int = memory.__array_interface__["data"][0]
    return begin


def _words(at: np.ndarray, size: int) -> Any:
    """The words of accesses of `size` bytes, by their places in memory, a row for each."""
    return (at[:, None] + np.arange(0, max(size, 1), _STEP)) // _STEP
