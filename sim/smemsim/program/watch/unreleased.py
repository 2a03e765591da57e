"""Releases by some lanes of a warp (PTX ISA 9.1 §8.1, 8.8): the stores of the other lanes are ordered in front of one only where they have met those that release
(bar.warp.sync, or any instruction that they execute together). The mirror of `alone.py`.

The order of `clocks.py` is that of warps, in which each release ends a tick of the warp's clock. Here stands which lanes a tick does not answer for, and what they
have stored; of the stores in front of releases alone (`unmet_stores`), which most programs do not have.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.distinct import distinct
from smemsim.program.linking.flow import following
from smemsim.program.memory.spaces import Piece
from smemsim.program.watch.clocks import Order
from smemsim.program.watch.lanes import Lanes
from smemsim.program.watch.operations import Operation
from smemsim.program.watch.telling import Telling
from smemsim.program.wave import EXITED, WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.compiled.segments import Code
    from smemsim.program.linking.program import Program
    from smemsim.program.wave import Wave

__all__ = ["UnreleasedStores", "unmet_loads", "unmet_stores"]


MOST = 64  # stores of one warp that are kept until its lanes meet
MOST_WORDS = 1 << 14  # that are kept
_STEP = 4  # bytes of a word
_ALL_LANES = (1 << WARP) - 1
_MEETINGS = frozenset(("bar", "barrier", "elect", "shfl", "vote"))
_STRONG = frozenset(("relaxed", "volatile", "release", "acq_rel", "mmio"))
_unmet: weakref.WeakKeyDictionary[Program, tuple[frozenset[int], frozenset[int]]] = weakref.WeakKeyDictionary()


# ---- Which accesses lie in front of a release, with no meeting of the lanes between


def unmet_stores(program: Program) -> frozenset[int]:
    """The plain stores (their `id`) behind which a thread can come to a release, or to a fence and a strong write, without an instruction at which lanes meet."""
    return _unmet_accesses(program)[0]


def unmet_loads(program: Program) -> frozenset[int]:
    """The lines of such plain loads of shared memory."""
    return _unmet_accesses(program)[1]


def _unmet_accesses(program: Program) -> tuple[frozenset[int], frozenset[int]]:
    if program not in _unmet:
        found = _find_unmet(program)
        _unmet[program] = frozenset(id(i) for i in found if i.op == "st"), frozenset(i.line for i in found if i.op == "ld")
    return _unmet[program]


def _find_unmet(program: Program) -> list[Instruction]:
    if not any(_releases(i) or _fences(i) for block in program.blocks for i in block.instructions):
        return []
    count = len(program.blocks)
    after = [following(program, n) for n in range(count)]
    begins = [(False, False)] * (count + 1)  # of each block: may a release, may a strong write follow?
    found: dict[int, Instruction] = {}
    grows = True
    while grows:
        grows = False
        for n in reversed(range(count)):
            ends = [begins[to] for to in after[n] or ()]
            state = any(one for one, _ in ends), any(one for _, one in ends)
            for i in reversed(program.blocks[n].instructions):
                if state[0] and (_is_plain_store(i) or _is_plain_load(i)):
                    found[id(i)] = i
                state = _before(i, state)
            grows |= state != begins[n]
            begins[n] = state
    return list(found.values())


def _before(i: Instruction, state: tuple[bool, bool]) -> tuple[bool, bool]:
    """What may follow an instruction, seen from in front of it."""
    releases, writes = state
    if i.guard is None and (i.op in _MEETINGS or not {"sync", "aligned"}.isdisjoint(i.modifiers)):
        return False, False
    if _fences(i):
        return releases or writes, writes
    is_strong = i.op in ("atom", "red") or (i.op == "st" and not _STRONG.isdisjoint(i.modifiers))
    return releases or _releases(i), writes or is_strong


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
    """A store of lanes of a warp: the memory, the places and the clock of the warp; the marks of the lanes say when (`lanes.py`)."""

    instruction: Instruction
    memory: int
    at: np.ndarray
    size: int
    lanes: np.ndarray
    marks: np.ndarray
    clock: int


@dataclasses.dataclass(frozen=True)
class _Exposed:
    """A word that a lane has stored, and another one has released for."""

    warp: int
    lane: int
    clock: int
    store: Instruction
    release: Instruction
    by: int


class UnreleasedStores:
    """What lanes of the warps of a wave have stored since they met, and the releases by other lanes of their warp."""

    def __init__(self, x: Wave, order: Order, lanes: Lanes, telling: Telling, name: Callable[[Instruction, np.ndarray, int], str]) -> None:
        self.x, self.order, self.lanes, self.telling, self.name = x, order, lanes, telling, name
        self.stores = unmet_stores(x.program)
        self._stored: dict[int, list[_Stored]] = {}
        self._apart: dict[int, dict[int, int]] = {}  # by warp and clock: the lanes (bits) for which what was released then does not answer
        self._words: dict[int, dict[int, _Exposed]] = {}  # by memory and place (in words)
        self._sorted: dict[int, np.ndarray] = {}  # the places

    def concerns(self, code: Code) -> bool:
        """Has each access of machine code to be told, or one of its stores?"""
        return bool(self._words) or (bool(self.stores) and any(id(access.instruction) in self.stores for access in code.stores))

    # ---- stores and releases

    def wrote(self, i: Instruction, piece: Piece, size: int) -> None:
        """The threads of a piece have written `size` bytes each."""
        if piece.space == "local":
            return
        memory = _memory(piece)
        if memory in self._words:
            self._forget(memory, _words(piece.at, size).reshape(-1))
        if id(i) not in self.stores:
            return
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        warps, lanes = threads // WARP, threads % WARP
        for warp in distinct(warps).tolist():
            mine = warps == warp
            kept = self._open(warp)
            kept.append(
                _Stored(
                    i, memory, piece.at[mine], size, lanes[mine], self.lanes.marks(warps[mine], lanes[mine]), int(self.order.clock[warp])
                )
            )
            self._stored[warp] = kept[-MOST:]

    def _open(self, warp: int) -> list[_Stored]:
        """What lanes of a warp have stored since all of them met."""
        now = int(self.lanes.marks(np.array([warp]), np.array([0]))[0])
        return [one for one in self._stored.get(warp, ()) if self.lanes.is_since(int(one.marks[0]), now)]

    def releases(self, i: Instruction, threads: np.ndarray, *, relaxed: bool) -> None:
        """Threads are about to release, or to fence; `relaxed`: what they knew at their last fence."""
        for warp in [warp for warp in distinct(threads // WARP).tolist() if warp in self._stored] if self._stored else ():
            here = threads[threads // WARP == warp] % WARP
            alive = int(np.count_nonzero(self.x.key[warp * WARP : (warp + 1) * WARP] < EXITED))
            clock = self.order.at_fence(warp) if relaxed else int(self.order.clock[warp])
            if clock:
                self._release(i, warp, here, clock, is_whole=len(here) == alive)

    def fences_proxy(self, warps: np.ndarray) -> None:
        """A tick of these warps ends with a proxy fence, which releases nothing: it answers for no lane."""
        for warp in [warp for warp in warps.tolist() if warp in self._stored] if self._stored else ():
            self._apart.setdefault(warp, {}).setdefault(int(self.order.clock[warp]), _ALL_LANES)

    def _release(self, i: Instruction, warp: int, here: np.ndarray, clock: int, *, is_whole: bool) -> None:
        known = self._apart.setdefault(warp, {})
        bits = 0
        for one in () if is_whole else self._open(warp):
            if one.clock > clock:
                continue
            late = np.ones(len(one.lanes), bool)
            for lane in here.tolist():
                late &= self.lanes.not_met(one.marks, warp, lane)
            if late.any():
                bits |= int(np.bitwise_or.reduce(1 << one.lanes[late].astype(np.int64)))
                self._expose(i, warp, one, late, int(here[0]))
        if clock in known or bits:
            known[clock] = known.get(clock, bits) & bits

    def _expose(self, i: Instruction, warp: int, one: _Stored, late: np.ndarray, by: int) -> None:
        words = self._words.setdefault(one.memory, {})
        if len(words) > MOST_WORDS:
            words.clear()
        for lane, places in zip(one.lanes[late].tolist(), _words(one.at[late], one.size).tolist(), strict=True):
            words.update(dict.fromkeys(places, _Exposed(warp, lane, one.clock, one.instruction, i, by)))
        self._sorted.pop(one.memory, None)

    def _forget(self, memory: int, places: np.ndarray) -> None:
        """Words are written once more."""
        words = self._words[memory]
        for place in places[self._are_exposed(memory, places)].tolist():
            words.pop(place, None)
        self._sorted.pop(memory, None)
        if not words:
            del self._words[memory]

    def _are_exposed(self, memory: int, places: np.ndarray) -> np.ndarray:
        if memory not in self._sorted:
            self._sorted[memory] = np.array(sorted(self._words[memory]), np.int64)
        exposed = self._sorted[memory]
        found: np.ndarray = exposed[np.minimum(np.searchsorted(exposed, places), len(exposed) - 1)] == places
        return found

    # ---- reads

    def read(self, i: Instruction, piece: Piece, size: int) -> None:
        """X008 where the threads of a piece read what a lane of another warp has stored, and they know of it by releases of other lanes alone."""
        memory = _memory(piece) if self._words else 0
        if memory not in self._words:
            return
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        places = _words(piece.at, size)
        rows, columns = np.nonzero(self._are_exposed(memory, places.reshape(-1)).reshape(places.shape))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            one, warp = self._words[memory][int(places[row, column])], int(threads[row]) // WARP
            if warp != one.warp and self._is_unreleased(one, warp):
                self._tell(i, piece.space, piece.memory, int(piece.at[row]), one, warp)
                return

    def is_exposed(self, memory: np.ndarray) -> bool:
        """Is there a word of a memory that a lane has stored, and another one alone has released for?"""
        return bool(self._words) and _begin(memory) in self._words

    def op_reads(self, op: Operation, memory: np.ndarray, words: np.ndarray) -> None:
        """The same of an asynchronous operation, which sees what its issuer knew: `words` are those of a memory that it reads, by their numbers."""
        begin, warp = _begin(memory), int(op.warps[0])
        for place in words[self._are_exposed(begin, words)].tolist():
            one = self._words[begin][place]
            if warp != one.warp and self._is_unreleased(one, warp):
                self._tell(op.instruction, "shared", memory, place * _STEP, one, warp)
                return

    def _is_unreleased(self, one: _Exposed, warp: int) -> bool:
        """Does none of the releases that a warp has seen answer for the lane?"""
        order = self.order
        if order.columns < len(order.clock) and warp // order.columns != one.warp // order.columns:
            return False
        seen, apart = int(order.has_seen(warp, one.warp)), self._apart.get(one.warp, {})
        if not 0 <= seen - one.clock < len(apart):
            return False
        return all(apart.get(clock, 0) >> one.lane & 1 for clock in range(one.clock, seen + 1))

    def _tell(self, i: Instruction, space: str, memory: np.ndarray, at: int, one: _Exposed, warp: int) -> None:
        name, release = self.telling.warp, one.release
        why = (
            f"is read by {i.name} of warp {name(warp)}, and written by lane {one.lane} of warp {name(one.warp)} at line {one.store.line}: lane {one.by} alone releases, "
            f"at line {release.line} ({release.name}), and has not met lane {one.lane} in between, which may still be in front of its store"
        )
        repair = f"bar.warp.sync (__syncwarp) in front of line {release.line}, or let each lane release"
        if space == "shared":
            self.telling.find("X008", i, np.array([at // _STEP]), f"{{where}} {why}", repair, other=one.store.line)
        else:
            self.x.launch.find(
                "X008", i, f"{self.name(i, memory, at)} {why}", repair, because="PTX ISA 9.1 §8.8 (release and acquire patterns), 9.7.13.2",
                operation=f"global memory, line {one.store.line}", other=one.store,
            )  # fmt: skip


def _memory(piece: Piece) -> int:
    return _begin(piece.memory)


def _begin(memory: np.ndarray) -> int:
    begin: int = memory.__array_interface__["data"][0]
    return begin


def _words(at: np.ndarray, size: int) -> Any:
    """The words of accesses of `size` bytes, by their places in memory, a row for each."""
    return (at[:, None] + np.arange(0, max(size, 1), _STEP)) // _STEP
