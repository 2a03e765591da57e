"""Stores of uninitialised values to global memory: a remark until something uses the value, then R507.

Many right kernels store what nothing reads. An example is the columns of a tile past the last one, in a buffer that the
next launch adds up. The words that hold such values are kept across launches in `core/machine/stored_taint.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.finding import Finding, Half
from smemsim.core.machine.padding import Rows
from smemsim.core.machine.stored_taint import Saved
from smemsim.core.ptx.demangle import shorter_name
from smemsim.core.spec.findings import Severity
from smemsim.run.following import Tell
from smemsim.run.lower.dataflow import decides_itself
from smemsim.run.sanitizer.history import MOST_BYTES

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.accesses import Piece
    from smemsim.run.views import Launch, Wave

__all__ = ["Before", "Doubt", "Left", "StoredValues", "begins", "ends"]


KEPT = "the value is stored to global memory, and nothing has used it so far"
UNUSED = "unused"  # in the numbers of a remark whose reason is KEPT
GOT = "the host has copied the value"  # after KEPT
OUTPUT = "an output of the launch contains the value"  # the same for the caller of a launch
ALONE = "it may be padding, and smemsim does not see whether the host uses it"
UNSEEN = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")  # what these read is not followed


@dataclasses.dataclass(eq=False)
class Doubt:
    """Stored values of one line of a launch. The report of their use is `finding`. The findings of the launch are
    `findings`.

    If `is_copied` is set, the value comes from allocated memory that nothing has written. Programs copy the padding of
    arrays, to the host too. So only a use by an instruction counts (rule memory.allocated). An instruction that
    replaces the value itself does not count, as in `if (x[i] < 0) x[i] = 0;`.

    If `is_pad` is set, the value may be the padding of a row. The host may copy it with the rest of the row. If
    `is_gap` is set, it was copied from the padding of a row in shared memory.
    """

    finding: Finding
    findings: Any  # `Findings` of the launch
    is_used: bool = False
    is_copied: bool = False
    is_pad: bool = False
    is_gap: bool = False
    is_told: bool = False  # does the remark say that the host has got such values?
    result: Result | None = None

    def padded(self) -> Doubt | Result:
        """The doubt of a value that may be padding."""
        return self if self.is_copied or self.is_pad else Result(self, None, is_pad=True)

    def made(self, by: Half) -> Doubt | Result:
        """The doubt of a value that is made of several such elements."""
        if not (self.is_copied or self.is_pad):
            return self
        if self.result is None:
            self.result = Result(self, by)
        return self.result

    def use(self, by: Half | Callable[[Doubt], Half] | None, *, in_kernel: bool = False, made: Half | None = None) -> bool:
        """Such a value is used. The remark becomes a finding, unless another finding replaces it by now. If `by` is
        None, the store is the use. The access `made` has computed the used value from it.
        """
        finding = self.finding
        if self.is_used or (self.is_copied and not in_kernel) or self.findings.before(finding) is None:
            return False
        self.is_used = True
        more = [half for half in (made, by if by is None or isinstance(by, Half) else by(self)) if half is not None]
        if more:
            finding = dataclasses.replace(finding, halves=(*_stores(finding), *more))
        self.findings.keep(finding)
        return True

    def copied(self, by: Half | None, offsets: np.ndarray, rows: Callable[[], Rows]) -> bool:
        """The host gets such bytes, at these distances from the first one that it gets, and that is no use. It is
        added to the remark once: of several values, by the first copy of each kind. `by` None: the launch is over.
        """
        finding = self.finding
        remark = self.findings.before(finding)
        if remark is None or not remark.is_milder or self.is_told:
            return False
        self.is_told = True
        kind = "outputs" if by is None else "copies"
        if kind in remark.numbers:  # by another value with this remark
            return True
        halves = _stores(remark) if by is None else (*_stores(remark), by._replace(does="copy"))
        got = f"{OUTPUT if by is None else GOT}: {_places(offsets, rows())}; {ALONE}"
        numbers = {**remark.numbers}
        why = got if numbers.pop(UNUSED, None) else f"{remark.why}; {got}"
        self.findings.replace(remark, dataclasses.replace(remark, halves=halves, why=why, numbers={**numbers, kind: 1}))
        return True


def _places(offsets: np.ndarray, rows: Rows) -> str:
    """The bytes of a copy at these distances from its first one: those of each row, or the first ones."""
    first = int(offsets.min())
    n = int(np.searchsorted(rows.at, first, side="right")) - 1
    if n >= 0 and rows.support[n] > 1 and rows.pitch[n]:
        pitch = int(rows.pitch[n])
        begin = int(rows.at[n]) % pitch
        return f"{_range(begin, begin + int(rows.lengths[n]))} of each {pitch} bytes"
    return f"{len(np.unique(offsets))} bytes, from byte {first} on"


def _range(begin: int, end: int) -> str:
    return f"byte {begin}" if end == begin + 1 else f"bytes {begin} to {end - 1}"


@dataclasses.dataclass(eq=False)
class Result:
    """The result of a launch from several elements that hold such values of another store: more than a copy of
    padding.
    """

    of: Doubt
    by: Half | None
    is_pad: bool = False

    def padded(self) -> Result:
        """That of a value that may be padding."""
        return Result(self.of, self.by, is_pad=True)

    def made(self, by: Half) -> Result:
        """That of a value that is made of several of these."""
        return Result(self.of, self.by or by) if self.is_pad else self

    @property
    def findings(self) -> Any:
        """Those of the launch that has stored the elements."""
        return self.of.findings

    @property
    def finding(self) -> Finding:
        """The report of a use."""
        return dataclasses.replace(self.of.finding, halves=(*_stores(self.of.finding), *((self.by,) if self.by else ())))

    is_copied = is_gap = False

    @property
    def is_used(self) -> bool:
        """Is the report made?"""
        return self.of.is_used

    def use(self, by: Half | Callable[[Doubt], Half] | None, *, in_kernel: bool = False) -> bool:
        """The result is used."""
        used = by if by is None or isinstance(by, Half) else by(self.of)
        return self.of.use(used, in_kernel=True, made=self.by)

    @property
    def is_told(self) -> bool:
        """Does the remark say that the host has got such values?"""
        return self.of.is_told

    def copied(self, by: Half | None, offsets: np.ndarray, rows: Callable[[], Rows]) -> bool:
        """The host gets bytes of the result."""
        return self.of.copied(by, offsets, rows)


def _stores(finding: Finding) -> tuple[Half, ...]:
    """The accesses of a finding, in which the store is no use."""
    *others, last = finding.halves or (None,)
    return () if last is None else (*others, last._replace(does="store") if last.does == "use" else last)


class StoredValues:
    """The stores of a wave to global memory, and its loads from there. The origins are those of its taint. The function
    `reports` calls the reports of a doubt, by its number, for a store.
    """

    def __init__(self, x: Wave, origins: Any, reports: weakref.WeakMethod[Callable[[int, Instruction], None]]) -> None:
        self.x, self.origins, self.reports = x, origins, reports
        self._made: dict[tuple[int, int], tuple[Doubt, ...]] = {}  # by origin and store
        # by the key of an origin and the line that makes a result of the value: the doubts of that
        self._results: dict[tuple[Any, int], int] = {}
        self._padded: dict[int, int] = {}  # by the number of doubts: that of these as padding
        self._itself: dict[int, bool] = {}  # by instruction: `_replaces_itself`

    @functools.cached_property
    def _follows(self) -> bool:
        """Is a store no use here? Loads have to be seen."""
        launch = self.x.launch
        is_seen = launch.history is not None and launch.program.uses.isdisjoint(UNSEEN)
        return launch.taint is not None and is_seen

    def put(self, i: Instruction, piece: Piece, size: int, marks: np.ndarray) -> bool:
        """Values with these marks, (n,) or of their bytes (n, bytes), have been stored to an array. If the store is
        their use, the result is False and nothing is done.
        """
        region = self._region(piece) if self._follows else None
        if region is None or self.x.launch.taint is None:
            return False
        self.x.launch.taint.put(region, piece.at, size, self._numbers(i, marks), is_late=self.x.in_flight is not None)
        return True

    def _numbers(self, i: Instruction, marks: np.ndarray) -> np.ndarray:
        """The numbers in the memory of the doubts of values with these marks."""
        known, which = np.unique(marks, return_inverse=True)
        numbers = np.array([self._held(i, mark) for mark in known.tolist()], np.int32)
        found: np.ndarray = numbers[which.reshape(marks.shape)]
        return found

    @functools.cached_property
    def stay(self) -> bool:
        """May such values stay in an array when the launch is over?"""
        return self._follows and not all(_is_wanted(self.x.launch, region) for region in self.x.launch.memory.table()[2])

    def add(self, piece: Piece, size: int, i: Instruction, marks: np.ndarray) -> bool:
        """The same of values that have been added to words of an array. Other threads may add more until the launch is
        over.
        """
        region = self._region(piece) if self.stay else None
        if region is None or self.x.launch.taint is None or _is_wanted(self.x.launch, region):
            return False
        own = marks != 0
        self.x.launch.taint.add(region, piece.at[own], size, self._numbers(i, marks[own]))
        return True

    def _region(self, piece: Piece) -> Region | None:
        memory = self.x.launch.memory
        found: Region | None = next((region for region in memory.table()[2] if region.words is piece.memory), None)
        if found is None or found.words.nbytes > MOST_BYTES or memory.is_hosts_too(piece.memory, int(piece.at[0])):
            return None
        return found

    def _held(self, i: Instruction, mark: int) -> int:
        """The doubts of values with a mark, by their number in the memory. Everything but uninitialised values is
        reported.
        """
        taint = self.x.launch.taint
        assert taint is not None
        doubts: list[Any] = []
        for number in sorted(self.origins.numbers(mark)):
            kept = self._kept(number)
            taint.carried += kept is not None
            doubts += self._doubts(number, i) if kept is None else taint.doubts_of(kept)
        found: int = taint.number_of(doubts)
        return found

    def _kept(self, number: int) -> int | None:
        """The number in the memory of the doubts of a value that was loaded, or of what has been made of it."""
        key: Any = self.origins.key(number)
        if key[0] == "pad":
            known = self._kept_by(key[1])
            return None if known is None else self._as_padding(known)
        if key[0] == "computed" and key[1][0] == "pad":  # the sum of what may be padding
            return self._results.get((key[1][1], key[2])) or self._kept_by(key[1][1])
        return self._kept_by(key)

    def _kept_by(self, key: Any) -> int | None:
        if key[0] == "computed" and key[1:] in self._results:
            return self._results[key[1:]]
        stored = key[1] if key[0] == "masked" else key
        return stored[1] if stored[0] == "stored" else None

    def _as_padding(self, number: int) -> int:
        """The number of the same doubts of what may be padding."""
        if number not in self._padded:
            taint = self.x.launch.memory.taint
            self._padded[number] = taint.number_of([doubt.padded() for doubt in taint.doubts_of(number)])
        return self._padded[number]

    def _doubts(self, number: int, i: Instruction) -> tuple[Doubt, ...]:
        made = self._made.get((number, id(i)))
        if made is not None:
            return made
        result = self.x.launch.result
        own, caught, used = result.findings, type(result.findings)(), type(result.findings)()
        report = self.reports()
        assert report is not None
        try:
            result.findings = caught
            report(number, i)
            if any(finding.code == "R507" and finding.is_milder for finding in caught.values()):
                result.findings = used
                self.origins.tell_one(number, i)
        finally:
            result.findings = own
        held = [key for key, finding in caught.items() if finding.code == "R507" and not finding.is_milder]
        kind = self.origins.key(number)[0]
        made = tuple(Doubt(caught.pop(key), own, is_pad=kind in ("gap", "pad"), is_gap=kind == "gap") for key in held)
        copied = tuple(
            Doubt(finding, own, is_copied=True)
            for key, finding in used.items()
            if key in caught and finding.code == "R507" and not finding.is_milder
        )
        is_all = caught.keys() <= used.keys()
        own.merge(caught)
        for doubt in made:
            own.keep(
                dataclasses.replace(
                    doubt.finding, severity=Severity.NOTE, source="", halves=_stores(doubt.finding), why=KEPT,
                    numbers={**doubt.finding.numbers, UNUSED: 1},
                )
            )  # fmt: skip
        made += copied
        if is_all:
            self._made[number, id(i)] = made
        return made

    def of(self, i: Instruction, memory: np.ndarray, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of the bytes that are loaded from an array, (n, size), as the wave's taint has them; None where
        there are none.
        """
        taint = self.x.launch.taint
        found = taint.of(memory, at, size) if taint else None
        if found is None:
            return None
        known, which = np.unique(found, return_inverse=True)
        marks = np.array([self._mark(number) if number else 0 for number in known.tolist()], np.int32)
        loaded: np.ndarray = marks[which.reshape(found.shape)]
        return loaded

    def _mark(self, number: int) -> int:
        key = ("stored", number)
        mark: int = self.origins.of(
            key, functools.partial(self._use, number), computed=functools.partial(self._made_of, key), only_results=True
        )
        return mark

    def _made_of(self, key: tuple[str, int], by: Instruction) -> Tell:
        """The function that reports the use of a value that an instruction makes of several elements with these
        doubts.
        """
        known = self._results.get((key, by.site))
        if known is None:
            taint, half = self.x.launch.memory.taint, self._half("compute", by)
            known = taint.number_of([doubt.made(half(doubt)) for doubt in taint.doubts_of(key[1])])
            self._results[key, by.site] = known
        return functools.partial(self._use, known)

    def _half(self, does: str, i: Instruction) -> Callable[[Doubt], Half]:
        """The row of an instruction in a report, which is of this launch or of an earlier one."""
        launch = self.x.launch
        later = Half(does, f"{i.name}, PTX line {i.line} of {shorter_name(launch.program.name)}, a later launch")
        same = Half(does, i.name, i)
        return lambda doubt: same if doubt.findings is launch.result.findings else later

    def _use(self, number: int, user: Instruction | None) -> None:
        """An instruction uses a value that it has loaded, or what it computes from one."""
        launch = self.x.launch
        if launch.taint is None or user is None:
            return
        launch.taint.use_numbers((number,), self._half("use", user), in_kernel=not self._replaces_itself(user))

    def _replaces_itself(self, user: Instruction) -> bool:
        """Has the value no effect there but on its own place in global memory?"""
        known = self._itself.get(id(user))
        if known is None:
            known = self._itself[id(user)] = decides_itself(self.x.launch.program, user)
        return known


class Left(NamedTuple):
    """Values that the CTAs of another process have stored. The marks of each array are in `marks`, by its address. The
    doubts of each mark are in `sets`, by their place in `doubts`. Each doubt has its report, whether it is made,
    whether only instructions count as a use, and whether it may be padding.
    """

    marks: tuple[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray], ...]
    sets: dict[int, tuple[int, ...]]
    doubts: tuple[tuple[Finding, bool, bool, bool, bool], ...]

    def enter(self, launch: Launch) -> None:
        """Have the marks in a launch of this process, whose findings have the remarks."""
        taint = launch.memory.taint
        made = [
            Doubt(finding, launch.result.findings, is_used, is_copied=is_copied, is_pad=is_pad, is_gap=is_gap)
            for finding, is_used, is_copied, is_pad, is_gap in self.doubts
        ]
        numbers = {number: taint.number_of([made[place] for place in places]) for number, places in self.sets.items()}
        for address, at, own, parts, values in self.marks:
            region = launch.memory.find(address)
            taint.join(region, Saved(region, at, np.array([numbers[n] for n in own.tolist()], np.int32), parts, values))


class Before:
    """The stored values that exist when CTAs begin in another process than that of the launch."""

    def __init__(self, launch: Launch) -> None:
        self.taint = launch.memory.taint
        self.used = {id(doubt): doubt.is_used for doubt in self.taint.doubts}
        self.carried = self.taint.carried

    @property
    def are_touched(self) -> bool:
        """Has a CTA used such a value, or stored what it makes of one?"""
        uses = (doubt.is_used != self.used.get(id(doubt), doubt.is_used) for doubt in self.taint.doubts)
        return self.taint.carried != self.carried or any(uses)

    def left(self, findings: Any) -> Left | None:
        """What CTAs with these findings have stored; None if nothing."""
        if not self.taint:
            return None
        doubts = [doubt for doubt in self.taint.doubts if doubt.findings is findings]
        places = {id(doubt): n for n, doubt in enumerate(doubts)}
        sets, marks = dict[int, tuple[int, ...]](), list[Any]()
        for saved in self.taint.saved():
            of = {n: self.taint.doubts_of(n) for n in np.unique(saved.numbers).tolist()}
            own = {n: tuple(places[id(doubt)] for doubt in each) for n, each in of.items() if each and all(id(d) in places for d in each)}
            sets.update(own)
            mine = np.isin(saved.numbers, list(own))
            marks.append((saved.region.begin, *(table[mine] for table in saved[1:])))
        reports: Any = tuple((doubt.finding, doubt.is_used, doubt.is_copied, doubt.is_pad, doubt.is_gap) for doubt in doubts)
        return Left(tuple(marks), sets, reports) if sets else None


def begins(launch: Launch, *, sanitizer: bool) -> None:
    """A launch may read what earlier ones have stored. A load that is not followed counts as a use."""
    launch.taint = launch.memory.taint
    if launch.taint or launch.taint.doubts:
        launch.taint.sweep_if_due()
    if not launch.taint:
        return
    is_seen = sanitizer and launch.options.watch_global and launch.program.uses.isdisjoint(UNSEEN)
    name = shorter_name(launch.program.name)
    if not is_seen:
        launch.taint.use_all(Half("use", f"{name}, a later launch whose reads are not followed"))


def ends(launch: Launch) -> None:
    """A launch is over: its caller gets the values of arrays."""
    if launch.taint:
        launch.taint.settle()
        launch.taint.use_all(None, functools.partial(_is_wanted, launch))


def _is_wanted(launch: Launch, region: Any) -> bool:
    """Does the caller of a launch get the values of an array when it is over?"""
    wanted = launch.options.outputs
    if wanted is None:
        return bool(launch.memory.are_outputs(region))
    return any(region.begin <= address < max(region.end, region.begin + 1) for address in wanted)
