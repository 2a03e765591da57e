"""The accesses of the waves of a launch to global memory: the last writer and readers of each piece of each array, and
races that wait for a use.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.finding import TensorMapError
from smemsim.core.machine.uninitialised import Garbage
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.tensor_map import MAP_BYTES
from smemsim.core.words.tensor_map import TensorMap
from smemsim.run.lower.dataflow import Root, written
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.epoch_numbers import Numbers, scope_of
from smemsim.run.sanitizer.unused_reads import UnusedReads
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.core.machine.uninitialised import Blank
    from smemsim.run.lower.program import Program
    from smemsim.run.views import Launch, Wave

__all__ = [
    "LINE",
    "MOST_BYTES",
    "ArrayShadow",
    "History",
    "ProxyFence",
    "Written",
    "addresses_of",
    "may_be_written",
    "may_lack_fence",
    "releases_dependents",
]


WIDEST = 16  # bytes of a cell at most
LINE = 7  # of a line, 1 << LINE bytes
MOST_BYTES = 1 << 32  # of an array that is checked
# earlier launches that are compared with the next one; the first ones of a longer chain without waits are forgotten
MOST_IN_FRONT = 8
SUSPECTS = 1 << 14  # of one instruction, that are looked at
MOST_FENCES = 1 << 12  # proxy fences of a launch; with more, missing fences of other waves are not reported
WORD = 8  # bytes of a pointer
NEAR = 1 << 20  # bytes beside arrays in which pointers may begin
NOTHING = np.zeros(0, np.int64)
SEVERAL = -1  # in place of a CTA


def addresses_of(root: Root, launch: Launch) -> list[int]:
    """The addresses that something is computed from in a launch."""
    if root.kind == "variable":
        return [int(launch.addresses[root.name])]
    given = launch.parameters
    whole = given[: len(given) // WORD * WORD].view(np.uint64)
    if root.kind == "map":
        raw = bytes(given[root.offset : root.offset + MAP_BYTES])
        try:
            return [TensorMap.from_bytes(raw).global_address]
        except (InputError, TensorMapError):  # no map there
            pass
    if root.kind != "parameter" or root.offset % WORD or root.offset // WORD >= len(whole):
        return [int(word) for word in whole]
    return [int(whole[root.offset // WORD])]


def may_lack_fence(program: Program) -> bool:
    """Can a thread of the program read a flag or a ticket by a relaxed operation without a later fence?"""
    return program.has(_may_read_flag)


def _may_read_flag(i: Instruction) -> bool:
    return i.op == "atom" or (i.op == "ld" and bool(scope_of(i)))


def has_device_fence(program: Program) -> bool:
    """Has the program a fence that reaches other launches?"""
    return program.has(_is_device_fence)


def _is_device_fence(i: Instruction) -> bool:
    return i.op in {"fence", "membar"} and not {"gl", "gpu", "sys"}.isdisjoint(i.modifiers)


def may_be_written(launch: Launch) -> set[int] | None:
    """The arrays, by their words, that the program may write to; None: any."""
    found = set()
    regions = launch.memory.table()[2]
    first, last = (regions[0].begin - NEAR, regions[-1].end + NEAR) if regions else (0, 0)
    for root in written(launch.program):
        if root.kind == "unknown":
            return None
        for address in addresses_of(root, launch):
            region = launch.memory.holding(address, address + 1)
            if region is not None:
                found.add(id(region.words))
            elif first <= address < last:  # a pointer to somewhere beside an array
                return None
    return found


def releases_dependents(launch: Launch) -> bool:
    """Can launches after this one start before it has ended?"""
    program: Program = launch.program
    return program.has(_lets_others_begin)


def _lets_others_begin(i: Instruction) -> bool:
    return i.op == "griddepcontrol" and "launch_dependents" in i.modifiers


class Observed(NamedTuple):
    """A strong read, and the strong writes of others that it has found: epochs (`global_loops`)."""

    read: int
    writes: tuple[int, ...]


class ArrayShadow:
    """The shadow of one array: its cells, as small as the smallest access, and lines of them."""

    def __init__(self, region: Region, size: int) -> None:
        self.region = region
        self.is_copied = False  # have copies read it, which may go on?
        shift = min(size, WIDEST).bit_length() - 1
        line = min(shift + WARP.bit_length() - 1, LINE)
        split = np.zeros((region.words.nbytes >> line) + 1, bool)
        self.cells = loops.Cells(shift, line, split, *(NOTHING,) * 7, np.zeros((1, 3), np.int64))
        self.unfenced: dict[
            int, int
            # by line of the L1: the only CTA that has loaded there after a relaxed read without a fence (rule
            # order.reader_fence)
        ] = {}
        self.observed: dict[int, dict[int, Observed]] = {}  # by cell and warp of the launch (rule order.observation)

    @functools.cached_property
    def blank(self) -> Blank | None:
        """Which of its bytes are uninitialised; None: none were when the launch first accessed it."""
        blank = self.region.blank
        return blank if blank is not None and blank.remains() else None

    @functools.cached_property
    def is_untouched(self) -> bool:
        """Had nothing written any byte of an allocation when the launch first read uninitialised ones? Then these are
        no padding.
        """
        return isinstance(self.blank, Garbage) and self.blank.is_untouched()

    @functools.cached_property
    def loaded(self) -> np.ndarray:
        """For each line of the L1: the CTA that has loaded there by a plain load, counted through the launch from 1 on;
        SEVERAL: more than one.
        """
        return np.zeros((self.region.words.nbytes >> LINE) + 1, np.int32)

    def loads(self, at: np.ndarray, ctas: np.ndarray) -> None:
        """CTAs load at byte offsets."""
        lines, loaded = at >> LINE, self.loaded
        before = loaded[lines]
        loaded[lines] = np.where((before == 0) | (before == ctas), ctas, SEVERAL)
        loaded[lines[loaded[lines] != ctas]] = SEVERAL

    def fit(self, size: int) -> None:
        """Make the cells no larger than an access of `size` bytes."""
        shift = min(size & -size, WIDEST).bit_length() - 1
        if shift < self.cells.shift:
            times = 1 << self.cells.shift - shift
            cells = self.cells
            writers, earlier, readers, others = (
                _repeated(table, times) for table in (cells.writers, cells.earlier, cells.readers, cells.others)
            )
            self.cells = cells._replace(shift=shift, writers=writers, earlier=earlier, readers=readers, others=others)
            self.observed = {cell * times + n: dict(of) for cell, of in self.observed.items() for n in range(times)}

    def observes(self, cell: int, warp: int, own: int, writes: tuple[int, ...]) -> None:
        """A strong read of a warp has observed these strong writes in a cell; `own` is its epoch. The first of several
        reads with the same result is ordered before most accesses.
        """
        reads = self.observed.setdefault(cell, {})
        if warp not in reads or reads[warp].writes != writes:
            reads[warp] = Observed(own, writes)

    def split(self, lines: np.ndarray) -> None:
        """Keep the cells of lines from now on."""
        cells = self.cells
        lines = distinct(lines[~cells.split[lines]])
        fine = (lines[:, None] << cells.line - cells.shift) + np.arange(1 << cells.line - cells.shift)
        tables = (cells.writers, cells.readers, cells.others), (cells.line_writers, cells.line_readers, cells.line_others)
        for table, of_lines in zip(*tables, strict=True):
            if len(table):
                table[fine] = of_lines[lines, None]
        cells.split[lines] = True

    def for_reads(self) -> None:
        """Make room for readers."""
        if not len(self.cells.readers):
            fine, lines = self._sizes
            self.cells = self.cells._replace(
                readers=np.zeros(fine, np.int64), others=np.zeros(fine, np.int64), line_readers=np.zeros(lines, np.int64),
                line_others=np.zeros(lines, np.int64), further=np.zeros((loops.MOST_FURTHER + 1, 3), np.int64),
            )  # fmt: skip

    def for_writes(self, scope: int) -> None:
        """Make room for writers, by strong operations where they have a `scope`."""
        if not len(self.cells.writers):
            fine, lines = self._sizes
            self.cells = self.cells._replace(writers=np.zeros(fine, np.int64), line_writers=np.zeros(lines, np.int64))
        if scope and not len(self.cells.earlier):
            self.cells = self.cells._replace(earlier=np.zeros(self._sizes[0], np.int64))

    @property
    def _sizes(self) -> tuple[int, int]:
        return len(self.cells.split) << self.cells.line - self.cells.shift, len(self.cells.split)


def _repeated(table: np.ndarray, times: int) -> np.ndarray:
    """`np.repeat` of a table (n,), most of which is 0 for a large array: memory that holds
    zeros alone is not touched.
    """
    held = np.flatnonzero(table)
    if 4 * len(held) > len(table):
        return np.repeat(table, times)
    found = np.zeros(len(table) * times, table.dtype)
    found.reshape(-1, times)[held] = table[held, None]
    return found


@dataclasses.dataclass(frozen=True)
class Written:
    """A write of a thread of this wave that lies in memory: the warp, its clock, the instruction."""

    warp: int
    when: int
    instruction: Instruction


@dataclasses.dataclass(frozen=True, eq=False)
class ProxyFence:
    """A proxy fence for global memory: the number of its wave's `VectorClocks`, its warp, the clock, and the knowledge
    of the warp. That is its own wave's warps from `first` on, and other waves by number.
    """

    number: int
    warp: int
    when: int
    first: int
    seen: np.ndarray
    foreign: dict[int, np.ndarray]

    def covers(self, number: int, warps: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Which writes of warps of a wave had the warp seen?"""
        known, at = (self.seen, warps - self.first) if number == self.number else (self.foreign.get(number, NOTHING), warps)
        inside = (at >= 0) & (at < len(known))
        found: np.ndarray = np.zeros(len(warps), bool)
        found[inside] = known[at[inside]] >= when[inside]
        return found


class History:
    """The accesses of the waves of a launch to global memory. `before` are those of earlier launches that may still
    run, the last one first.
    """

    def __init__(self, launch: Launch, before: tuple[History, ...] = ()) -> None:
        self.launch, self.before, self.name = launch, before, launch.program.name
        self.program = launch.program
        written(launch.program)  # the analysis of the program is made now, not with the first access
        self.proxy_fences: list[ProxyFence] | None = []  # None: there were more than are kept
        if len(before) == MOST_IN_FRONT:
            launch.result.bounds.add(
                f"races with earlier launches that may still run: the last {MOST_IN_FRONT} are compared, earlier ones are not"
            )
        self.waits = False  # has a warp waited for the end of those in front?
        self.is_ordered = False  # has it, or acquired what one of them has released?
        self._triggers: dict[int, tuple[int, np.ndarray]] = {}  # by CTA: see `triggers`
        # have warps let the next launch begin that had waited for that (True), and others?
        self.releases: set[bool] = set()
        self.warps = 0  # that have a number
        self.others = 0  # of CTAs that are recorded (`record`): the warps below this number are others
        self.has_met = False  # one of these?
        self.told: set[tuple[str, int, int]] = set()
        self.suspects = np.empty((SUSPECTS, 4), np.int64)
        self.numbers = Numbers(launch.result.bounds)
        self.unused = UnusedReads(launch.program, self.told)
        self._arrays: dict[int, ArrayShadow | None] = {}
        self.waves: list[tuple[int, int]] = []  # the first warp of each wave, and the number of its `VectorClocks`
        self.ctas: list[tuple[int, list[int]]] = []  # by wave: warps of a CTA, the CTAs by their number in the grid
        self._unwritten: dict[int, bool] = {}  # by the words of an array: does no thread write it in this launch?

    def enters(self, x: Wave, number: int) -> int:
        """A wave begins, whose `VectorClocks` has a number; returns the number of its first warp."""
        first = self.warps
        self.waves.append((first, number))
        self.ctas.append((x.stride // WARP, x.numbers.tolist()))
        self.warps += x.total // WARP
        return first

    def fences(self, fence: ProxyFence) -> None:
        """A warp has executed a proxy fence for global memory."""
        if self.proxy_fences is not None:
            self.proxy_fences.append(fence)
            if len(self.proxy_fences) > MOST_FENCES:
                self.proxy_fences = None
                self.launch.result.bounds.add(
                    f"proxy fences between waves (X003): the launch has executed more than {MOST_FENCES:,} for global memory"
                )

    def has_run(self, first: int, number: int, per_cta: int, ctas: list[int]) -> None:
        """A wave has run elsewhere: its first warp, the number of its `VectorClocks`, warps of a CTA, the CTAs."""
        self.waves.append((first, number))
        self.ctas.append((per_cta, ctas))

    def meets(self, epochs: np.ndarray) -> None:
        """CTAs that are recorded have come to where these accesses have been, and nothing orders the two."""
        self.has_met |= bool(((epochs >> loops.WHO) <= self.others).any())

    # ---- arrays that no thread writes: nothing can race there, and reads need no record

    def changes(self, address: int) -> bool:
        """Does the launch, or one that may still run, write to the array in which an address lies?"""
        region = self.launch.memory.holding(address, address + 1)
        return region is not None and not self.is_unwritten(region.words)

    def is_unwritten(self, memory: np.ndarray) -> bool:
        """Does no instruction of the program have an address in an array with these words, to write there?"""
        known = self._unwritten.get(id(memory))
        if known is None:
            written = self._may_be_written
            is_kept = self._is_blank(memory) or self.releases_dependents or any(before.kept(memory) is not None for before in self.before)
            known = self._unwritten[id(memory)] = written is not None and id(memory) not in written and not is_kept
        return known

    def leaves(self) -> tuple[History, ...]:
        """The launches with which the next launch may overlap: this one, and earlier ones, unless a CTA has waited for
        their end before it let the next one start.
        """
        if self.waits and self.releases != {False}:
            self.before = ()
        for before in self.before:
            before.before = ()  # which would keep the earlier ones
        return (self, *self.before)[:MOST_IN_FRONT]

    def ends(self) -> None:
        """The launch is over. Kept is what the next one may race with: writes, and reads if that may begin before
        CTAs of this one have exited.
        """
        if not self.releases_dependents:
            for key, shadow in list(self._arrays.items()):
                if shadow is None or not len(shadow.cells.writers):
                    self._arrays[key] = None
                    continue
                shadow.observed.clear()
                shadow.cells = shadow.cells._replace(
                    earlier=NOTHING, readers=NOTHING, others=NOTHING, line_readers=NOTHING, line_others=NOTHING
                )
        del self.launch  # which has this history

    def triggers(self, cta: int, first: int, known: np.ndarray) -> None:
        """A warp of a CTA (counted through the launch) executes griddepcontrol.launch_dependents. The fence before it
        synchronises with the start of the next launch. The clocks `known` are those of the CTA's warps, from `first`
        on, at its last fence of device scope. Any warp of the CTA may be the one that counts.
        """
        before = self._triggers.get(cta)
        self._triggers[cta] = first, known.copy() if before is None else np.minimum(before[1], known)

    def are_published(self, epochs: np.ndarray) -> np.ndarray:
        """Which accesses does the start of the next launch follow, because a fence and
        griddepcontrol.launch_dependents come after them?
        """
        released = np.zeros(self.warps, np.int64)
        for first, known in self._triggers.values():
            released[first : first + len(known)] = np.maximum(released[first : first + len(known)], known)
        when, index = epochs >> loops.WHEN & loops.CLOCK, epochs & loops.INDEX
        copies = self.numbers.asynchronous[index]
        when = np.where(copies, self.numbers.waited[np.where(copies, when, 0)], when)
        found: np.ndarray = (epochs != 0) & (when <= released[np.maximum((epochs >> loops.WHO) - 1, 0)])
        for at in zip(*np.nonzero(copies & (epochs != 0) & ~found), strict=True):
            place = int(epochs[at] >> loops.WHEN & loops.CLOCK)
            found[at] = any(clock <= released[warp] for warp, clock, is_private in self.numbers.tellers_of(place) if not is_private)
        return found

    def kept(self, memory: np.ndarray) -> ArrayShadow | None:
        """The record of the array with these words, so far."""
        return self._arrays.get(id(memory))

    @functools.cached_property
    def may_lack_fence(self) -> bool:
        return may_lack_fence(self.launch.program)

    @functools.cached_property
    def releases_dependents(self) -> bool:
        """May the next launch begin while CTAs of this one still run, and overwrite what they read? Else it begins
        when all have exited.
        """
        return releases_dependents(self.launch)

    @functools.cached_property
    def publishes(self) -> bool:
        """Has the program a fence of device scope, so that its relaxed writes may release something?"""
        return has_device_fence(self.program)

    def _is_blank(self, memory: np.ndarray) -> bool:
        """Is an array with these words partly uninitialised, or has it uninitialised values that were stored there?"""
        if self.launch.memory.taint.has(memory):
            return True
        return any(
            region.words is memory and region.blank is not None and region.blank.remains() for region in self.launch.memory.table()[2]
        )

    @functools.cached_property
    def _may_be_written(self) -> set[int] | None:
        """Can a thread of the launch write the array with these words?"""
        return may_be_written(self.launch)

    # ---- waves, arrays, instructions

    def wave_of(self, warps: np.ndarray) -> np.ndarray:
        """Which of the `waves` warps are of."""
        found: np.ndarray = np.searchsorted(np.array([first for first, _ in self.waves]), warps, "right") - 1
        return found

    def place_of(self, warp: int) -> tuple[int, int]:
        """(CTA, warp in it) of a warp of the launch."""
        n = bisect.bisect_right(self.waves, warp, key=lambda wave: wave[0]) - 1
        per_cta, ctas = self.ctas[n]
        cta, own = divmod(warp - self.waves[n][0], per_cta)
        return ctas[cta], own

    def array(self, memory: np.ndarray, size: int) -> ArrayShadow | None:
        """The record of the array with these words; None if there is none."""
        key = id(memory)
        if key not in self._arrays:
            self._unwritten[key] = False  # if it is not known to be read alone
            region = next((r for r in self.launch.memory.table()[2] if r.words is memory), None)
            is_watched = region is not None and region.words.nbytes <= MOST_BYTES
            self._arrays[key] = ArrayShadow(region, size) if is_watched and region is not None else None
            if region is not None and not is_watched:
                self.launch.result.bounds.add(f"races in {region} are not looked for: it is larger than {MOST_BYTES >> 30} GiB")
        return self._arrays[key]

    def shadows(self) -> list[ArrayShadow]:
        """The shadows of all arrays."""
        return [shadow for shadow in self._arrays.values() if shadow is not None]
