"""The choice between JIT-compiled code and the interpreter for a block's steps.

The interpreter is the reference. It executes a block until it has cost as much as its compilation does, and again if a
segment finds an address outside, or if the sanitizer needs single accesses. Both leave the same bytes and the same
findings. Without the sanitizer one case is not detected. Lanes store into each other's words by several instructions,
and do not synchronise in between. The order of the groups of threads then decides the value.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.cache_lines import zeros_in_lines
from smemsim.run.accesses import Piece
from smemsim.run.engine.register_pool import forget_rooms
from smemsim.run.engine.wave import ALL, WARP
from smemsim.run.isa.memory.spaces import own
from smemsim.run.isa.special_registers import fill_special, is_alike
from smemsim.run.jit import objects
from smemsim.run.jit.chains import Chain, chain_of, tail_of
from smemsim.run.jit.memory import HEAD, ONE_PLACE, ROW, Access
from smemsim.run.jit.segments import Code, Run, code_of, code_of_loop, direct_code_of, is_access, loop_of, pieces
from smemsim.run.jit.shadow import Shadow
from smemsim.run.jit.stores import Stores
from smemsim.run.jit.tiles import LOOK, NO_LOOKS, RUN, Looks, Tiles
from smemsim.run.jit.vectors import LANES
from smemsim.run.origins import origins_of
from smemsim.run.slots import Slot
from smemsim.run.tallies import NOWHERE as NOT_THERE
from smemsim.run.tallies import CompiledAccesses, Tally

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.isa.registry import Plain
    from smemsim.run.lower.program import Block

__all__ = ["TIERS", "Loop", "Segment", "Tier", "begin_again", "obey_environment", "tier_of"]


TIERS = "SMEMSIM_TIERS"  # of the environment: "closures" uses the interpreter only, "compiled" compiles at once
CALL = 2500  # the cost of an interpreted step, counted in threads of its arrays (5 microseconds, 2 nanoseconds)
# the cost of a load or store, counted in arithmetic instructions: without the sanitizer, and with it
ACCESS, WATCHED = 12, 48
COMPILING = 750_000  # what compiling an instruction costs, counted so
LOADING = 75_000  # the same where the object is on disk
MOST_TRIPS = 1 << 12  # of a loop in one call
CALLS = 1 << 11  # of a loop before the limit of a launch: in between, endless loops are detected, and other threads run
# of a segment whose addresses stay in registers, beside one for each access: it stops where an array is not known yet
TRIES = 8
PATIENCE = 16  # times that a segment may fall back to the interpreter in vain, before it stays there
NOWHERE = np.zeros(8, np.uint64)  # what lanes access that do not run
NOWHERE_AT = NOWHERE.ctypes.data
_NOWHERE = Piece("global", NOWHERE, np.zeros(0, np.int64))

_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_void_p
)  # fmt: skip
_LOOP = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
_COUNTED_LOOP = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2)


# the arrays that accesses of global memory were in: their rows of the table, the regions
Found: TypeAlias = tuple[np.ndarray, list[Any]]


class Frames:
    """Those of waves that have the same registers, one after the other: what machine code is given lies where it lay
    for the wave before.
    """

    def __init__(self, x: Wave) -> None:
        self.made: dict[Any, Frame] = {}
        # of each CTA where its window begins, and where its shared memory begins in the host's memory
        self.windows = np.empty((len(x.ctas), 2), np.int64)
        self._own: dict[tuple[str, Any, np.dtype[Any]], np.ndarray] = {}  # what each wave has of its own
        self._enter(x)

    @classmethod
    def of(cls, x: Wave) -> Frames:
        """Those of a wave."""
        found = _FRAMES.peek(x)
        if found is None:
            pointers = x.registers.pointers
            key = x.total, int(pointers[0]) if len(pointers) else 0
            left = _LEFT(x.launch)
            found = left.frames.get(key)
            if found is None:
                found = left.frames[key] = cls(x)
            else:
                found._enter(x)
            _FRAMES.put(x, found)
        return found

    def _enter(self, x: Wave) -> None:
        """The next wave has them."""
        for frame in self.made.values():
            frame.begins = None
        self.windows[:, 0] = x.window_begin + x.grid.rank_bits[:: x.stride]
        self.windows[:, 1] = x.shared.ctypes.data + np.arange(len(x.ctas), dtype=np.int64) * x.pitch
        for (_, which, _), array in self._own.items():
            fill_special(x, which, array)

    def array(self, x: Wave, key: tuple[str, Any, np.dtype[Any]]) -> np.ndarray:
        """A special register or the address of a variable, for every thread; a parameter once."""
        what, which, kind = key
        array: np.ndarray | None
        if what != "special" or is_alike(which):
            array = x.alike(("given", key), functools.partial(_alike, x, *key))
            return array
        array = self._own.get(key)
        if array is None:
            array = self._own[key] = np.empty(x.total, kind)
            fill_special(x, which, array)
        return array


class Room:
    """Memory for rows of accesses, free when a segment has run. It has the place of each thread, the shape of each
    group, and, if addresses stay in registers, the first place of each group. Their begins in the host's memory are
    `at`.
    """

    def __init__(self, rows: int, threads: int) -> None:
        self.places, self.shapes = zeros_in_lines((rows, threads), np.int64), np.empty((rows, threads // LANES), np.uint8)
        self.leads = np.empty((rows, threads // LANES), np.int64)
        self.at = self.leads.ctypes.data, self.shapes.ctypes.data, self.places.ctypes.data


@dataclasses.dataclass(eq=False)
class _Left:
    """The memory that waves leave to later ones of a launch. Frames are by threads and by the begin of the registers.
    Room for places is by threads and rows.
    """

    frames: dict[tuple[int, int], Frames] = dataclasses.field(default_factory=dict)
    rooms: dict[tuple[int, int], Room] = dataclasses.field(default_factory=dict)


_LEFT: Slot[_Left] = Slot(lambda launch: _Left())
_FRAMES: Slot[Frames] = Slot(Frames)
_SHADOW: Slot[Shadow] = Slot(lambda x: Shadow(x, NOWHERE_AT))
_STORES: Slot[Stores] = Slot(lambda x: Stores(x, NOWHERE_AT))


class Frame:
    """The pointers that a segment needs of a wave: to its registers, room for places, the tables of memory. Results of
    an earlier wave are `found`.
    """

    def __init__(self, x: Wave, code: Code, frames: Frames, found: Found | None = None) -> None:
        self._registers = _pointers(x, code, frames)
        self.code, self.count = code, code.rows
        self.functions: Sequence[Any] = ()
        self.memory, end = np.zeros(HEAD + ROW * len(code.accesses) + code.numbers, np.int64), HEAD + ROW * len(code.accesses)
        self.table, self.counts = self.memory[HEAD:end], self.memory[end:]
        self._rows = self.table.reshape(-1, ROW)
        if code.counts is not None and code.numbers and x.events.tallied:
            x.events.tallied(x, Tally(self.counts, code.counts.off, code.counts.blocks))
        self.runs = self._rows[:, 3]  # of each access that may be left out by all threads, whether one did it
        self.regions: list[Any] = [None] * len(code.accesses)
        self.tiles: Tiles | None = None
        self.begins: np.ndarray | None = None  # of `CompiledAccesses`, as long as the arrays are those that they were
        # Not `frames` and not all that waves leave: they hold this frame, and only the garbage collector would free the
        # memory of such a circle.
        self.total, self._windows, self._rooms = x.total, frames.windows, _LEFT(x.launch).rooms
        if self.count:
            self._place(x, frames, found)
        if code.noted:
            self.memory[4:HEAD] = self.room.at
        self.pointers = self._registers.ctypes.data, self.memory.ctypes.data

    @classmethod
    def of(cls, x: Wave, owner: Any, code: Code, found: Slot[dict[Any, Found]] | None = None) -> Frame:
        """That of a wave, made new or taken from a wave that is over and that has left its registers. `found` has, by
        the owner, what waves before have found.
        """
        frames = Frames.of(x)
        frame = frames.made.get(owner)
        if frame is None:
            frame = frames.made[owner] = cls(x, code, frames, None if found is None else found(x.launch).get(owner[1:3]))
        return frame

    @functools.cached_property
    def room(self) -> Room:
        """For its rows of accesses: host addresses, in segments whose addresses stay in
        registers as `tallies` has them.
        """
        key, rooms = (self.total, self.count), self._rooms
        if key not in rooms:
            rooms[key] = Room(self.count, self.total)
        return rooms[key]

    @functools.cached_property
    def outside(self) -> np.ndarray:
        """For each access of a segment whose addresses stay in registers: the addresses of a group, if one is outside;
        else that of NOWHERE.
        """
        return np.full((len(self.regions), LANES), NOWHERE_AT, np.int64)

    @functools.cached_property
    def _outside_at(self) -> int:
        return self.outside.ctypes.data

    def given_direct(self, first: int, last: int, mask: int | None) -> tuple[Any, ...]:
        """The arguments of the functions of such a segment."""
        return self.pointers[0], mask, first, last, self._outside_at, None, self.total, self.pointers[1]

    @property
    def places(self) -> np.ndarray:
        """For each row of accesses: the host address of each thread's access."""
        return self.room.places

    @property
    def shapes(self) -> np.ndarray:
        """For each row of accesses: the shape of each group of threads."""
        return self.room.shapes

    def given(self, first: int, last: int, mask: int | None) -> tuple[Any, ...]:
        """The arguments of the functions of a segment, for all its threads."""
        shapes, places = self.room.at[1:] if self.count else (None, None)
        return self.pointers[0], mask, first, last, places, shapes, self.total, self.pointers[1]

    def rows(self, access: Access) -> tuple[int, int]:
        """The addresses in the host's memory of the places and the shapes of an access's row."""
        number, room = access.row.number, self.room
        return room.at[2] + number * room.places.strides[0], room.at[1] + number * room.shapes.strides[0]

    def row(self, number: int) -> np.ndarray:
        """For an access to global memory: its array's begin, the bytes after it at which it may begin, the host address
        of the array, and whether a thread accessed it.
        """
        found: np.ndarray = self._rows[number]
        return found

    def run_tiles(self, x: Wave, tiles: Tiles, given: tuple[int, int, int | None], mode: int) -> int:
        """`Tiles.go`; observers that count get each tile."""
        first, last, mask = given
        if not x.events.accessed_together:
            return tiles.go(first, last, mask, mode)
        while first < last:
            base = first // tiles.tile * tiles.tile
            end = min(base + tiles.tile, last)
            if tiles.go(first, end, mask, mode) < end:
                break
            x.events.accessed_together(x, self.accessed(x, self.code, tiles.places, tiles.shapes, first, end, base))
            first = end
        return first

    def accessed(
        self, x: Wave, code: Code, places: np.ndarray, shapes: np.ndarray, first: int, last: int, base: int = 0
    ) -> CompiledAccesses:
        """The accesses that have been executed, for observers that count; the places are those of threads from `base`
        on.
        """
        if self.begins is None:
            begins = self._rows[code.numbers_of_accesses, 0] - self._rows[code.numbers_of_accesses, 2]
            self.begins = np.where(code.are_shared, -self._windows[0, 1], begins)
        _leave_out(x, places, LANES, shapes, NOWHERE_AT, first, last, base)
        return CompiledAccesses(code.placed, self.begins, places, LANES, places, shapes, NOWHERE_AT, first - base, last - base)

    def noted(self, x: Wave, code: Code, first: int, last: int) -> CompiledAccesses:
        """The same of a segment whose addresses stay in registers."""
        if self.begins is None:
            self.begins = code.are_shared * -self._windows[0, 1]
        room = self.room
        _leave_out(x, room.leads, 1, room.shapes, NOT_THERE, first, last, 0)
        return CompiledAccesses(code.placed, self.begins, room.leads, 1, room.places, room.shapes, NOT_THERE, first, last)

    def note_stores(self, x: Wave, stores: Sequence[Access]) -> None:
        """Besides bytes, these steps change only the note that something was stored, for each one that a thread
        executed.
        """
        runs = self.runs.tolist()
        for access in stores:
            if access.instruction.guard is None or runs[access.number]:
                own(x, _NOWHERE, access.size)

    def _place(self, x: Wave, frames: Frames, found: Found | None) -> None:
        cta_of = x.alike("cta_of as int64", lambda: np.ascontiguousarray(x.cta_of, np.int64))
        self.memory[:4] = NOWHERE_AT, cta_of.ctypes.data, frames.windows.ctypes.data, x.memories.window
        if found is not None:  # else no access may begin in the arrays, which are not known yet
            self.table[:], self.regions = found[0], list(found[1])


def _leave_out(x: Wave, leads: np.ndarray, step: int, shapes: np.ndarray, nowhere: int, first: int, last: int, base: int) -> None:
    """Give groups of which no thread runs, in the warps from `first` to `last`, places as
    `CompiledAccesses` has them.
    """
    if x.sel is ALL:
        return
    begin, end = first // WARP * WARP, -(-last // WARP) * WARP
    runs = np.zeros(end - begin, bool)
    runs[x.threads[(x.threads >= first) & (x.threads < last)] - begin] = True
    idle = np.flatnonzero(~runs.reshape(-1, LANES).any(axis=1)) + (begin - base) // LANES
    leads[:, idle * step] = nowhere
    shapes[:, idle] = ONE_PLACE


def _pointers(x: Wave, code: Code, frames: Frames) -> np.ndarray:
    """The addresses in the host's memory of the arrays that machine code names by their slots."""
    pointers: np.ndarray = x.registers.pointers
    if code.given:
        arrays = np.array([frames.array(x, key).ctypes.data for key in code.given], np.uint64)
        pointers = np.concatenate((pointers[: len(x.r)], arrays))
    found: np.ndarray = pointers[code.slot_array]
    return found


def _alike(x: Wave, what: str, which: Any, kind: np.dtype[Any]) -> np.ndarray:
    """The values that are the same in all waves, of every thread. A parameter occurs once."""
    if what == "parameter":
        return np.frombuffer(x.launch.parameters[which : which + kind.itemsize].tobytes(), kind)
    if what == "special":
        array = np.empty(x.total, kind)
        fill_special(x, which, array)
        return array
    kept = x.sel
    x.select(ALL)
    try:
        return np.ascontiguousarray(np.broadcast_to(x.own_shared(which), (x.total,)))
    finally:
        x.select(kept)


class Segment:
    """A run of a block's steps, interpreted and compiled."""

    def __init__(self, program: Any, piece: Run, steps: Sequence[Plain]) -> None:
        self._arrays: Slot[dict[tuple[bool, bool], Found]] = Slot(lambda launch: {})
        self.program, self.piece, self.steps = program, piece, steps
        self.codes: dict[tuple[bool, bool, bool], tuple[Code, list[Any]]] = {}
        self._texts: dict[tuple[bool, bool, bool], Code] = {}
        self.failed = 0
        self.is_followed = any(id(i) in program.copied.instructions for i in piece.instructions)

    def code(self, masked: bool, *, is_direct: bool, is_counted: bool = False) -> tuple[Code, list[Any]]:
        """The compiled code, for all threads or for some; if it `is_direct`, addresses stay in registers; if it
        `is_counted`, observers count.
        """
        key = masked, is_direct, is_counted
        if key not in self.codes:
            code = self._text(*key)
            if is_direct:
                names = ["whole" if code.stores or is_counted else "run"]
            else:
                names = [*(["prepare"] if code.accesses else ()), "run"]
            self.codes[key] = code, objects.functions(code.text, *((name, _RUN) for name in names))
        return self.codes[key]

    def is_kept(self, *, is_watched: bool, is_counted: bool) -> bool:
        """Is its machine code on disk?"""
        is_direct = self._may_be_direct[is_watched]
        return objects.is_kept(self._text(False, is_direct, is_counted).text)

    def _text(self, masked: bool, is_direct: bool, is_counted: bool) -> Code:
        key = masked, is_direct, is_counted
        if key not in self._texts:
            program, piece = self.program, self.piece
            self._texts[key] = (direct_code_of if is_direct else code_of)(program, piece, masked=masked, counted=is_counted)
        return self._texts[key]

    @functools.cached_property
    def _uses_shared(self) -> bool:
        return any(access.space == "shared" for access in self.piece.accesses)

    @functools.cached_property
    def _stores(self) -> bool:
        return any(not access.is_load for access in self.piece.accesses)

    @functools.cached_property
    def _may_be_direct(self) -> tuple[bool, bool]:
        """Has it accesses? And does, besides, the sanitizer check none of them?"""
        has_accesses = bool(self.piece.accesses)
        return has_accesses, has_accesses and not (self._uses_shared or self._stores)

    def run(self, x: Wave) -> Any:
        """Run the compiled code. Returns the threads for which the interpreter has to run, as in `Wave.sel`: nothing
        has happened there. None: for no thread.
        """
        if self.failed >= PATIENCE or (self.is_followed and origins_of(x) is not None):
            return x.sel
        left = self._run(x)
        if left is None:
            x.step += len(self.steps)
            if self.failed:
                self.failed -= 1
        else:
            self.failed += 1
        return left

    def _run(self, x: Wave) -> Any:
        first, last, mask = _range(x)
        every = given = first, last, None if mask is None else mask.ctypes.data
        if self._may_be_direct[x.checks is not None] and not (x.memories.has_owners and self._uses_shared):
            first, is_over = self._directly(x, given)
            if is_over:
                return None if first >= last else self._left(x, given, first)
            given = first, *given[1:]
        frame = self._frame(x, is_direct=False)
        code, functions = frame.code, frame.functions
        if not code.accesses:
            functions[-1](*frame.given(*given))
            return None
        looks = self._looks(x, frame, code)
        if looks is not None:
            first = self._in_tiles(x, frame, code, functions, looks, given)
            if first == given[0] and self._finds(x, frame, code, first):
                looks = self._looks(x, frame, code)
                if looks is not None:
                    first = self._in_tiles(x, frame, code, functions, looks, given)
        if first < last and not self._whole(x, frame, code, functions, (first, *given[1:])):
            return self._left(x, every, first)  # the threads before `first` have run, maybe with addresses in registers
        return None

    def _frame(self, x: Wave, *, is_direct: bool) -> Frame:
        """The values that its code, for all threads or for some, needs of a wave."""
        owner = self, x.sel is not ALL, is_direct, x.is_counted
        frame = Frames.of(x).made.get(owner)
        if frame is None:
            code, functions = self.code(owner[1], is_direct=is_direct, is_counted=x.is_counted)
            frame = Frame.of(x, owner, code, self._arrays)
            frame.functions = functions
        return frame

    def _found(self, x: Wave) -> dict[tuple[bool, bool], Found]:
        """The result of earlier waves of the launch, by the form of `code`: if accesses share a row, all are in one
        array. Other launches of the program may run at the same time.
        """
        return self._arrays(x.launch)

    @staticmethod
    def _left(x: Wave, given: tuple[int, int, int | None], first: int) -> Any:
        """The threads from one on, as `run` gives them."""
        if first >= given[1]:
            return None
        return x.sel if first == given[0] else x.threads[x.threads >= first]

    def _directly(self, x: Wave, given: tuple[int, int, int | None]) -> tuple[int, bool]:
        """The same with addresses that stay in registers. Returns the first thread for which nothing has happened, and
        whether the interpreter has to run it.
        """
        frame = self._frame(x, is_direct=True)
        code, (function,) = frame.code, frame.functions
        (first, last, mask), stores = given, code.stores
        is_whole = bool(stores) or x.is_counted
        for _ in range(TRIES + len(code.accesses)):
            if self._looks(x, frame, code) is None:
                return first, False
            if stores:
                frame.runs.fill(0)
            reached = function(*frame.given_direct(first, last, mask))
            if reached == last:
                break
            first = first if is_whole else reached
            if not self._finds_outside(x, frame, code):
                return first, True
        else:
            return first, True
        if stores:
            frame.note_stores(x, stores)
        if x.events.accessed_together:
            x.events.accessed_together(x, frame.noted(x, code, given[0], last))
        return last, True

    def _finds_outside(self, x: Wave, frame: Frame, code: Code) -> bool:
        """Look for the arrays of a group's addresses that are outside of those known. False where no other one was
        found.
        """
        noted, is_new = frame.outside, False
        for access in code.of_global:
            row = noted[access.number]
            addresses = row[row != NOWHERE_AT].view(np.uint64)
            if len(addresses):
                region = x.launch.memory.holding(int(addresses.min()), int(addresses.max()) + access.size)
                if region is None or region.chunks is not None or region is frame.regions[access.number]:
                    is_new = False
                    break
                self._enter(frame, access, region)
                is_new = True
        noted[:] = NOWHERE_AT
        self._keep(x, frame, is_direct=True)
        return is_new

    @staticmethod
    def _enter(frame: Frame, access: Access, region: Any) -> None:
        """The array that an access of global memory is in."""
        where = region.words.ctypes.data + region.begin - region.words_begin
        frame.row(access.number)[:3] = np.uint64(region.begin).view(np.int64), max(0, len(region.data) - access.size + 1), where
        frame.regions[access.number] = region
        frame.begins = None

    def _keep(self, x: Wave, frame: Frame, *, is_direct: bool) -> None:
        """The results are for all waves of the launch."""
        self._found(x)[x.sel is not ALL, is_direct] = frame.table.copy(), list(frame.regions)

    def _whole(self, x: Wave, frame: Frame, code: Code, functions: Sequence[Any], given: tuple[int, int, int | None]) -> bool:
        """Check all addresses, ask the sanitizer, move all bytes. False, and nothing has happened, if the interpreter
        has to run.
        """
        arguments = frame.given(*given)
        frame.runs.fill(0)
        if functions[0](*arguments):
            places = {access.number: _places(x, frame, access, given[0])[1] for access in code.of_global}
            if not self._find(x, frame, code, places) or functions[0](*arguments):
                return False
        if x.checks is not None and not self._is_clear(x, frame, code, given):
            return False
        functions[-1](*arguments)
        if x.events.accessed_together:
            x.events.accessed_together(x, frame.accessed(x, code, frame.places, frame.shapes, given[0], given[1]))
        for access in code.stores:
            self._note(x, frame, access, given[0])
        return True

    def _in_tiles(
        self, x: Wave, frame: Frame, code: Code, functions: Sequence[Any], looks: Looks, given: tuple[int, int, int | None]
    ) -> int:
        """The same a tile at a time; the first thread for which nothing has happened, or the last one of all."""
        (first, last, mask), is_clear = given, False
        if frame.tiles is None:
            unit = x.stride if x.checks is not None else WARP if x.is_counted else LANES
            frame.tiles = Tiles(functions, *frame.pointers, frame.count, x.total, unit, is_counted=x.is_counted)
        if looks is not NO_LOOKS:
            shadow = _SHADOW(x)
            if shadow.is_folded:
                if not code.stores:
                    return self._load_the_same(x, frame, frame.tiles, code, looks, given)
                if not self._do_the_same(x, frame.tiles, code, looks, mask):
                    return first
                looks, is_clear = NO_LOOKS, True
            frame.tiles.asks(looks, shadow.at)
        if not code.stores:
            return frame.run_tiles(x, frame.tiles, given, RUN if is_clear else LOOK | RUN)
        # Nothing of a segment that stores is done before all of it is in order.
        if not is_clear and frame.tiles.go(first, last, mask, LOOK) < last:
            return first
        frame.runs.fill(0)
        frame.run_tiles(x, frame.tiles, given, RUN)
        frame.note_stores(x, code.stores)
        return last

    @staticmethod
    def _do_the_same(x: Wave, tiles: Tiles, code: Code, looks: Looks, mask: int | None) -> bool:
        """Do all CTAs do the same, without a finding for the first one?"""
        shadow = _SHADOW(x)
        tiles.asks(shadow.alike(code), shadow.at)
        return tiles.go(0, x.total, mask, LOOK) == x.total and shadow.looks_at_one(looks, mask)

    @staticmethod
    def _load_the_same(x: Wave, frame: Frame, tiles: Tiles, code: Code, looks: Looks, given: tuple[int, int, int | None]) -> int:
        """The loads of a segment without stores, tile by tile as long as all CTAs do the same, without a finding for
        the first one. Returns the first thread for which nothing has happened.
        """
        shadow = _SHADOW(x)
        first, last, mask = given
        tiles.asks(shadow.alike(code), shadow.at)
        before = x.checks.shared.table.reads_of_one()
        if tiles.go(0, x.stride, mask, LOOK) < x.stride or not shadow.looks_at_one(looks, mask):
            return first
        reached = frame.run_tiles(x, tiles, (0, x.total, mask), LOOK | RUN)
        if reached < x.total:
            x.checks.shared.table.unfold_where_others_read(reached // x.stride, before)
        return min(max(reached, first), last)

    def _looks(self, x: Wave, frame: Frame, code: Code) -> Looks | None:
        """The compiled checks of the sanitizer for each access; None if other checks are needed."""
        sanitizer = x.checks
        for access in code.of_global:
            # None: that a thread does it is an address outside until its array is found
            region = frame.regions[access.number]
            if (
                region is not None
                and sanitizer is not None
                and sanitizer.globals is not None
                and not (access.is_load and sanitizer.globals.history.is_unwritten(region.words))
            ):
                return None
        if not code.of_shared or (sanitizer is None and not x.memories.has_owners):
            return NO_LOOKS
        if x.memories.has_owners and code.stores_shared:
            return None
        if sanitizer is None:
            return NO_LOOKS
        if sanitizer.apart.missing_writes.concerns(code) or any(id(access.instruction) in sanitizer.lost.stores for access in code.stores):
            return None
        shadow = self._shadow(x)
        return None if shadow is None else shadow.looks(code)

    @staticmethod
    def _note(x: Wave, frame: Frame, access: Access, first: int) -> None:
        """Record what a store changes besides bytes, as the interpreter does; the sanitizer has recorded it."""
        if access.space == "global" or not x.memories.has_owners:  # that something was stored is all
            frame.note_stores(x, (access,))
            return
        threads, places = _places(x, frame, access, first)
        if len(places):
            kept = x.sel
            x.select(threads)
            try:
                own(x, Piece("shared", x.shared, places - x.shared.ctypes.data), access.size)
            finally:
                x.select(kept)

    def _finds(self, x: Wave, frame: Frame, code: Code, first: int) -> bool:
        """Look for the arrays by the addresses of the first tile, where this launch has not looked for them yet."""
        if not code.of_global or frame.tiles is None or (x.sel is not ALL, False) in self._found(x):
            return False
        begin = first // frame.tiles.tile * frame.tiles.tile
        threads = x.threads[(x.threads >= first) & (x.threads < begin + frame.tiles.tile)] - begin
        rows = {number: frame.tiles.places[number][threads] for number in {access.row.number for access in code.of_global}}
        rows = {number: row[row != NOWHERE_AT] for number, row in rows.items()}
        return self._find(x, frame, code, {access.number: rows[access.row.number] + access.apart for access in code.of_global})

    def _find(self, x: Wave, frame: Frame, code: Code, places: dict[int, np.ndarray]) -> bool:
        """Look for the array that each access of global memory is in, those of a row in one, by where threads do it.
        False where it is not one.
        """
        ends: dict[int, list[int]] = {}  # of a row: where its accesses begin and end
        for access in code.of_global:
            begin, _, host, _ = frame.row(access.row.lead).tolist()
            address = (places[access.number] + (begin - host)).view(np.uint64)
            if len(address):
                ends.setdefault(access.row.number, []).extend((int(address.min()), int(address.max()) + access.size))
        found = {row: x.launch.memory.holding(min(of), max(of)) for row, of in ends.items()}
        if any(region is None or region.chunks is not None for region in found.values()):
            return False
        for access in code.of_global:
            region = found.get(access.row.number)
            if region is not None:
                self._enter(frame, access, region)
        self._keep(x, frame, is_direct=False)
        return True

    @staticmethod
    def _shadow(x: Wave) -> Shadow | None:
        """The check of accesses that an epoch orders; None if the sanitizer needs another check, or checks the first
        CTA for all.
        """
        if x.checks.is_of_first or x.checks.follows_values():
            return None
        shadow = _SHADOW.peek(x)
        if shadow is None or shadow.is_stale:
            shadow = _SHADOW.put(x, Shadow(x, NOWHERE_AT))
        return shadow

    def _is_clear(self, x: Wave, frame: Frame, code: Code, given: tuple[int, int, int | None]) -> bool:
        """Are the accesses without a finding? Then the sanitizer has recorded them. `given` are the groups, and the
        mask.
        """
        kept, sanitizer = x.sel, x.checks
        if sanitizer.apart.missing_writes.concerns(code) or _may_lose(x, frame, code, given[0]):
            return False
        shadow = self._shadow(x) if any(access.space == "shared" for access in code.accesses) else None
        first = given[0]
        cross = functools.cache(lambda: _cross(x, frame, code, first))
        filled: set[int] = set()
        runs = frame.runs.tolist()
        for access in code.accesses:
            if not access.is_load and access.instruction.guard is not None and not runs[access.number]:
                continue
            is_global, i, size = access.space == "global", access.instruction, access.size
            region = frame.regions[access.number]
            memory = x.shared if not is_global else NOWHERE if region is None else region.words
            if is_global and (sanitizer.globals is None or (access.is_load and sanitizer.globals.history.is_unwritten(memory))):
                continue
            if self._is_noted(x, frame, code, access, shadow, given, filled):
                continue
            threads, places = _places(x, frame, access, first)
            if not len(places):
                continue
            crosses = is_global and not access.is_load and access is not code.stores[0] and cross()
            x.select(threads)
            try:
                at = places - memory.ctypes.data
                if is_global:
                    watches = sanitizer.globals.passes_read if access.is_load else sanitizer.globals.passes_write
                    passes = watches(i, Piece("global", memory, at), size)
                else:
                    passes = (sanitizer.passes_read if access.is_load else sanitizer.passes_write)(x, i, at, size)
                if crosses or not passes:
                    return False
            finally:
                x.select(kept)
        return True

    def _is_noted(
        self, x: Wave, frame: Frame, code: Code, access: Access, shadow: Shadow | None, given: tuple[int, int, int | None], filled: set[int]
    ) -> bool:
        """Is an access of the simple kind that machine code looks at? Then it is noted; `filled` gets those that are
        noted with it.
        """
        if access.space == "shared":
            return shadow is not None and shadow.passes(access, *frame.rows(access), given[2], *given[:2])
        region = frame.regions[access.number]
        if access.is_load or region is None or x.stride % WARP:
            return False
        if access.number in filled:
            return True
        if access.number in code.filling and self._fills(x, frame, code.filling[access.number], given):
            filled |= {store.number for store in code.filling[access.number]}
            return True
        stores = _STORES(x)
        return bool(stores.passes(x, access, region.words, frame.rows(access)[0], given))

    @staticmethod
    def _fills(x: Wave, frame: Frame, stores: Sequence[Access], given: tuple[int, int, int | None]) -> bool:
        """Do all threads, by these stores, fill bytes of one array without another access? Then the sanitizer has
        recorded it.
        """
        region = frame.regions[stores[0].number]
        if given[2] is not None or region is None or any(frame.regions[access.number] is not region for access in stores):
            return False
        rows, apart = (np.array(of, np.int64) for of in ([access.row.number for access in stores], [access.apart for access in stores]))
        fills = x.checks.globals.fills
        instructions = [access.instruction for access in stores]
        return bool(fills(instructions, region.words, stores[0].size, frame.places, rows, apart, NOWHERE_AT, *given[:2]))


def _places(x: Wave, frame: Frame, access: Access, first: int) -> tuple[Any, np.ndarray]:
    """The threads from one on that execute an access (as `Wave.sel` has them), and where in the host's memory."""
    places = _own(frame.places[access.row.number], x, first)
    if access.apart:
        places = places + access.apart
    whole = x.sel if not first else x.threads[x.threads >= first]
    if access.instruction.guard is None:
        return whole, places
    runs = places != NOWHERE_AT
    return (x.threads if not first else whole)[runs], places[runs]


def _may_lose(x: Wave, frame: Frame, code: Code, first: int) -> bool:
    """May lanes of a warp lose updates by one of the stores?"""
    lost = x.checks.lost
    return any(lost.may_lose(*_places(x, frame, access, first)) for access in code.stores if id(access.instruction) in lost.stores)


def _cross(x: Wave, frame: Frame, code: Code, first: int) -> bool:
    """Do several stores to one array write bytes of each other from different threads? A warp does one after the
    other; machine code all of a group of threads.
    """
    of_array: dict[int, list[Access]] = {}
    for access in code.of_global:
        if not access.is_load:
            of_array.setdefault(id(frame.regions[access.number]), []).append(access)
    return any(len(stores) > 1 and _cross_in_one(x, frame, stores, first) for stores in of_array.values())


def _cross_in_one(x: Wave, frame: Frame, stores: Sequence[Access], first: int) -> bool:
    where = [_places(x, frame, access, first) for access in stores]
    everybody = np.arange(x.total)
    own = [(everybody[threads], places, access.size) for access, (threads, places) in zip(stores, where, strict=True) if len(places)]
    return len(own) > 1 and not (_are_threads_apart(own) or _are_warps_apart(own, x.total // WARP + 1)) and _share_bytes(own)


def _are_threads_apart(own: Sequence[tuple[np.ndarray, np.ndarray, int]]) -> bool:
    """Does each thread write after the last byte of all earlier threads? For each store: the threads, the places, the
    number of bytes.
    """
    if any(not np.array_equal(threads, own[0][0]) for threads, _, _ in own):
        return False
    least = np.minimum.reduce([places for _, places, _ in own])
    last = np.maximum.reduce([places + size for _, places, size in own])
    return bool((least[1:] >= last[:-1]).all())


def _are_warps_apart(own: Sequence[tuple[np.ndarray, np.ndarray, int]], warps: int) -> bool:
    """Does each warp write, by each store, after or before all that it writes by the others?"""
    least, last = np.full((len(own), warps), -1), np.full((len(own), warps), -1)
    for n, (threads, places, size) in enumerate(own):
        begins = np.flatnonzero(np.diff(threads // WARP, prepend=-1))
        of = threads[begins] // WARP
        least[n, of], last[n, of] = np.minimum.reduceat(places, begins), np.maximum.reduceat(places, begins) + size
    order = np.argsort(least, axis=0)
    least, last = np.take_along_axis(least, order, 0), np.take_along_axis(last, order, 0)
    return bool((least[1:] >= last[:-1]).all())


def _share_bytes(own: Sequence[tuple[np.ndarray, np.ndarray, int]]) -> bool:
    """Is there something that different threads write by different stores?"""
    unit, parts = min(size for _, _, size in own), []
    for n, (threads, places, size) in enumerate(own):
        cells = (places[:, None] // unit + np.arange(size // unit)).ravel()
        parts.append(np.stack([cells, np.repeat(threads, size // unit), np.full(len(cells), n)]))
    cells, *who = np.concatenate(parts, axis=1)
    order = np.argsort(cells, kind="stable")
    begins = np.flatnonzero(np.diff(cells[order], prepend=-1))
    several = [np.minimum.reduceat(one[order], begins) != np.maximum.reduceat(one[order], begins) for one in who]
    return bool(np.logical_and(*several).any())


def _own(row: np.ndarray, x: Wave, first: int) -> np.ndarray:
    """The entries of a row for running threads, from one on."""
    if x.sel is ALL:
        return row[first:]
    threads = x.sel if not first else x.sel[x.sel >= first]
    return np.asarray(row[threads])


def _range(x: Wave) -> tuple[int, int, np.ndarray | None]:
    """The groups to look at, and the mask of the threads that run; None for all."""
    if x.sel is ALL:
        return 0, x.total, None
    mask = np.zeros(x.total, np.uint8)
    mask[x.sel] = 1
    return int(x.sel[0]) // LANES * LANES, int(x.sel[-1]) // LANES * LANES + LANES, mask


class Loop:
    """A block that jumps back to itself, as machine code."""

    def __init__(self, program: Any, block: Block) -> None:
        self.program, self.block = program, block
        self.function: Any = None
        self.counted_function: Any = None

    def code(self, *, is_counted: bool) -> Code:
        """The code, with or without counts."""
        return self._counted if is_counted else self._code

    @functools.cached_property
    def _code(self) -> Code:
        return code_of_loop(self.program, tuple(self.block.instructions))

    @functools.cached_property
    def _counted(self) -> Code:
        return code_of_loop(self.program, tuple(self.block.instructions), self.block)

    def __call__(self, x: Wave) -> None:
        """Run until all threads have left, or for some trips; the keys say where threads are."""
        first, last, mask = _range(x)
        if mask is None:
            mask = np.ones(x.total, np.uint8)
        most = max(1, min(MOST_TRIPS, x.launch.limit // CALLS))
        trips = (self._runs_counted if x.is_counted else self._runs)(x, mask.ctypes.data, first, last, most)
        at, threads = self.block.index, x.threads
        if mask.any():
            x.pc[threads] = np.where(mask[threads], at, at + 1)
        else:
            x.jump(at + 1)
        x.progress.steps += trips - 1

    def _runs(self, x: Wave, mask: int, first: int, last: int, most: int) -> int:
        if self.function is None:
            (self.function,) = objects.functions(self._code.text, ("run", _LOOP))
        return int(self.function(Frame.of(x, self, self._code).pointers[0], mask, first, last, most))

    def _runs_counted(self, x: Wave, mask: int, first: int, last: int, most: int) -> int:
        """The same, counted without the first trip: `Observer.executes` has reported that one."""
        code = self._counted
        if self.counted_function is None:
            (self.counted_function,) = objects.functions(code.text, ("run", _COUNTED_LOOP))
        frame, trips = Frame.of(x, self, code), np.zeros(x.total // LANES, np.int64)
        longest = self.counted_function(frame.pointers[0], mask, first, last, most, frame.counts.ctypes.data, trips.ctypes.data)
        assert code.counts is not None
        ((_, warps, lanes),) = code.counts.blocks
        of_warps = trips.reshape(-1, WARP // LANES).max(axis=1)
        frame.counts[warps] += int(of_warps.sum()) - int(np.count_nonzero(of_warps))
        frame.counts[lanes] -= x.n
        return int(longest)


class CompiledChain:
    """A chain of blocks as machine code; `steps` are what is left of the last one."""

    def __init__(self, program: Any, chain: Chain) -> None:
        self.chain = chain  # first: a profile looks at it while its code is made
        self.program = program
        self.last = chain.blocks[-1]
        self.begins = chain.begins
        self.steps = _steps(program, self.last, chain.left)
        self._functions: dict[bool, Any] = {}

    def code(self, *, is_counted: bool) -> Code:
        """The code, with or without counts."""
        return self._counted if is_counted else self._code

    @functools.cached_property
    def _code(self) -> Code:
        return self.chain.code(self.program)

    @functools.cached_property
    def _counted(self) -> Code:
        return self.chain.code(self.program, counted=True)

    @functools.cached_property
    def _reported(self) -> tuple[Block, ...]:
        """The blocks that all lanes run, without the one that `run_block` reports."""
        counts = self._counted.counts
        counted = {id(instructions) for instructions, _, _ in counts.blocks} if counts is not None else set()
        blocks = self.chain.blocks[1:] if self.chain.is_tail else self.chain.blocks[:-1]
        return tuple(block for block in blocks if id(block.instructions) not in counted)

    def __call__(self, x: Wave) -> None:
        """Run the chain. Lanes have synchronised as often as its blocks let them."""
        code = self.code(is_counted=x.is_counted)
        if x.is_counted not in self._functions:
            (self._functions[x.is_counted],) = objects.functions(code.text, ("run", _RUN))
        self._functions[x.is_counted](*Frame.of(x, self, code).given(0, x.total, None))
        if x.events.executes:
            for block in self._reported:
                x.events.executes(x, block.instructions)
        if x.events.lanes_met and self.chain.joint:
            x.events.lanes_met(x, self.chain.meets_at, times=self.chain.joint)
        x.progress.steps += len(self.chain.blocks) - 1
        x.at, x.step = self.last.index, self.begins


def _steps(program: Any, block: Block, begin: int) -> list[Any]:
    """The steps of a block from one on: segments, and interpreted steps between them."""
    steps: list[Any] = []
    for piece in pieces(program, block, begin):
        steps += block.steps[begin + len_of(steps) : piece.first]
        steps.append(Segment(program, piece, block.steps[piece.first : piece.last]))
    return steps + block.steps[begin + len_of(steps) :]


class Tier:
    """The measured cost of a block: interpreted until compilation pays; then `steps`, or `loop`. `chain` begins with
    it, `tail` with its branch.
    """

    def __init__(self, program: Any, block: Block) -> None:
        self.program, self.block = program, block
        self.cost = 0
        self.next = LOADING
        self.steps: list[Any] | None = None
        self.loop: Loop | None = None
        self.chain: CompiledChain | None = None
        self.tail: CompiledChain | None = None
        self.is_done = False
        self.made: tuple[list[Any], Loop | None, CompiledChain | None, CompiledChain | None] | None = None

    @functools.cached_property
    def _accesses(self) -> float:
        """How many of the block's instructions are loads and stores."""
        instructions = self.block.instructions
        return sum(is_access(i) for i in instructions) / max(1, len(instructions))

    def pays(self, n: int, *, is_watched: bool, is_counted: bool) -> None:
        """The block runs for n threads: it is compiled where an instruction of it, on average, has cost enough."""
        self.cost += int((CALL + n) * (1 + self._accesses * (WATCHED if is_watched else ACCESS)))
        if self.cost >= self.next:
            self._look(is_watched=is_watched, is_counted=is_counted)

    def _look(self, *, is_watched: bool, is_counted: bool) -> None:
        """Compile, or, if that costs too much yet, wait."""
        if self.made is None:
            self.made = self._make()
        steps, loop, chain, tail = self.made
        left = [step for one in (chain, tail) if one is not None for step in one.steps]
        compiled = [step for step in (*steps, *left) if isinstance(step, Segment)]
        whole = [one for one in (loop, chain, tail) if one is not None]
        if not compiled and not whole:
            self.is_done, self.made = True, None
            return
        if self.cost >= COMPILING or (
            all(objects.is_kept(one.code(is_counted=is_counted).text) for one in whole)
            and all(segment.is_kept(is_watched=is_watched, is_counted=is_counted) for segment in compiled)
        ):
            self.steps, self.loop, self.chain, self.tail, self.is_done = steps, loop, chain, tail, True
        else:
            self.next = COMPILING

    def _make(self) -> tuple[list[Any], Loop | None, CompiledChain | None, CompiledChain | None]:
        if loop_of(self.program, self.block) is not None:
            return [], Loop(self.program, self.block), None, None
        chains = chain_of(self.program, self.block), tail_of(self.program, self.block)
        chain, tail = (None if one is None else CompiledChain(self.program, one) for one in chains)
        return _steps(self.program, self.block, 0), None, chain, tail


def len_of(steps: list[Any]) -> int:
    """How many instructions these steps are."""
    return sum(len(step.steps) if isinstance(step, Segment) else 1 for step in steps)


def tier_of(program: Any, block: Block) -> Tier:
    """The tier of a block, made when it first runs."""
    if block.tier is None:
        block.tier = Tier(program, block)
        if program.tiers == "closures":
            block.tier.is_done = True
        elif program.tiers == "compiled":
            block.tier.cost = COMPILING
    tier: Tier = block.tier
    return tier


def obey_environment(program: Any) -> None:
    """A launch of a program begins: it runs as the environment now says, also if earlier ones ran in another way."""
    mode = os.environ.get(TIERS, "")
    if program.tiers != mode:
        begin_again(program)
        program.tiers = mode


def begin_again(program: Any) -> None:
    """The next launch of a program runs as the first one: no block is compiled, and no register holds what a launch
    before has left.
    """
    for block in program.blocks:
        block.tier = None
    forget_rooms(program)
