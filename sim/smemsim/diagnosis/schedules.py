"""A kernel under many schedules: outputs that differ, hangs and findings that appear, each with the schedules that show
it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.finding import Finding, InLaunch, at_instruction, told
from smemsim.core.ptx.module import Address, Instruction, Label, Operand, Symbol, slots_in
from smemsim.core.spec.findings import Severity
from smemsim.run.engine.schedule import EXTREMES
from smemsim.run.engine.traps import region_name
from smemsim.run.isa.registers import bits_of
from smemsim.run.lower.dataflow import Root, givers_of, read_back, takes_turns
from smemsim.run.sanitizer.history import addresses_of

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.run.engine.launch import Launch
    from smemsim.run.lower.program import Program

__all__ = ["Apart", "Appeared", "Outcome", "Schedules", "apart", "compared", "race_of", "schedules_of"]


MOST_SHOWN = 6  # schedules, or bytes, that a line lists
COPIED = 16  # bytes that a copy (cp) moves at least, if the list comes by copies
WRITES = ("st", "atom", "red", "cp", "multimem", "stmatrix")


def schedules_of(seeds: int) -> list[int | str]:
    """The schedules that "all:N" tries after the usual one.

    >>> schedules_of(2)
    ['earliest', 'latest', 0, 1]
    """
    return [*EXTREMES, *range(seeds)]


@dataclasses.dataclass(frozen=True)
class Apart:
    """An array whose bytes differ from those of the usual schedule: the number of different bytes, the offsets of the
    first ones, and the schedules.

    If `summed` is set, floats are added there atomically, so another order rounds differently. If `handed_on` is set,
    threads read there what others have written, and atomic operations order them, as in a queue. Then its final content
    is not a result. If `reordered` is set, the elements are the same in another order, as in a list whose places an
    atomic counter gives.
    """

    array: str
    name: str
    size: int
    bytes_: int
    first: tuple[int, ...]
    schedules: tuple[int | str, ...]
    summed: bool
    handed_on: bool = False
    reordered: bool = False
    address: int = 0  # where the array begins

    @property
    def short(self) -> str:
        """In a few words."""
        return f"{self.array} differs ({self.bytes_} of {self.size} bytes)"

    def __str__(self) -> str:
        where = ", ".join(map(str, self.first[:MOST_SHOWN])) + " ..." * (self.bytes_ > MOST_SHOWN)
        count = len(self.schedules)
        return (
            f"{self.array} differs from the default schedule in {count} schedule{'s' * (count > 1)} ({_listed(self.schedules)}): {self.bytes_} of its "
            f"{self.size} bytes, at offset{'s' * (self.bytes_ > 1)} {where}"
        )


@dataclasses.dataclass(frozen=True)
class Appeared:
    """A finding that the usual schedule does not show, and the schedules that do."""

    finding: Finding
    schedules: tuple[int | str, ...]

    @property
    def _at(self) -> str:
        """The line of the finding, that of the source first."""
        at = self.finding.at
        return at.instruction.at if isinstance(at, InLaunch) and at.instruction is not None else f"line {self.finding.line}"

    @property
    def short(self) -> str:
        """In a few words."""
        return f"{self.finding.code} at {self._at}"

    def __str__(self) -> str:
        f = self.finding
        return f"{f.code} at {self._at} with {_listed(self.schedules)}: {f.message}"


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one schedule. It has findings that the usual schedule does not have, the addresses of floats with
    atomic additions, and the arrays that differ from the default schedule, by address. The arrays are None if they have
    no meaning.
    """

    schedule: int | str
    interrupted: bool
    out_of_time: bool
    findings: tuple[Finding, ...]
    summed: tuple[np.ndarray, ...]
    changed: dict[int, np.ndarray] | None


def compared(launch: Launch, left: Mapping[int, np.ndarray], regions: Sequence[Region], outcomes: Sequence[Outcome]) -> Schedules:
    """The results of schedules, compared with the launch of the usual one and its arrays."""
    over = [one for one in outcomes if not one.interrupted]
    ended = [one for one in over if not one.out_of_time]
    others = {one.schedule: one.changed for one in ended if one.changed is not None}
    appeared: dict[tuple[str, frozenset[int]], tuple[Finding, list[int | str]]] = {}
    for one in ended:
        for f in one.findings:
            seeds = appeared.setdefault(race_of(f), (f, []))[1]
            if one.schedule not in seeds:
                seeds.append(one.schedule)
    return Schedules(
        launch, tuple(one.schedule for one in outcomes), apart(launch, left, others, regions, [at for one in ended for at in one.summed]),
        tuple(Appeared(f, tuple(seeds)) for f, seeds in appeared.values()), tuple(one.schedule for one in over if one.out_of_time),
    )  # fmt: skip


def race_of(f: Finding) -> tuple[str, frozenset[int]]:
    """The code and the sites of a finding: those of both accesses of a race, whichever comes first in a schedule."""
    other = f.at.other if f.code == "X008" and isinstance(f.at, InLaunch) else None
    return f.code, frozenset((f.site, f.site if other is None else other.site))


def _is_global(i: Instruction) -> bool:
    """May an instruction write to global memory?"""
    return "global" in i.modifiers or not any(m.startswith(("shared", "local")) for m in i.modifiers)


@dataclasses.dataclass(frozen=True)
class Schedules:
    """The results of a kernel under the schedules `tried` besides the usual one. The time of the `unfinished` ones was
    over.
    """

    launch: Launch
    tried: tuple[int | str, ...]
    differing: tuple[Apart, ...] = ()
    appeared: tuple[Appeared, ...] = ()
    unfinished: tuple[int | str, ...] = ()

    def __repr__(self) -> str:
        return f"<Schedules: {self.text().partition(chr(10))[0]}>"

    def only(self, names: Iterable[str]) -> Schedules:
        """With the arrays of these names alone."""
        kept = set(names)
        return dataclasses.replace(self, differing=tuple(one for one in self.differing if one.name in kept))

    @property
    def findings(self) -> list[Finding]:
        """X030 for arrays that differ, and what appears."""
        found = [dataclasses.replace(one.finding, what=f"with {_listed(one.schedules)}: {one.finding.what}") for one in self.appeared]
        writer = next((i for i in self.launch.program.inlined.body if i.op in WRITES and _is_global(i)), None)
        if not self.differing or writer is None:
            return found
        summed = any(one.summed for one in self.differing)
        only_sums = all(one.summed for one in self.differing)
        why = "the order of threads, CTAs and asynchronous operations is not determined"
        if summed:
            why += "; floats are added atomically, and sums in another order round differently" + (
                "" if only_sums else ", and so may what is computed from them"
            )
        placed = self.launch.program.names_multiprocessors
        if placed:
            why += "; the multiprocessor of a CTA (%smid) differs too, and with it the contents of a workspace of each multiprocessor"
        handed_on = all(one.handed_on for one in self.differing)
        if handed_on:
            why += "; the threads take turns by atomic operations and read these arrays themselves: the contents may be no result"
        reordered = [one.array for one in self.differing if one.reordered]
        if reordered:
            why += f"; the elements of {' and '.join(reordered)} are the same in another order, as in a list whose places an atomic counter gives"
        is_free = all(one.reordered or one.handed_on for one in self.differing)
        message = f"the result depends on the schedule: {'; '.join(map(str, self.differing))}"
        repair = "order the accesses (a flag, a barrier), or use an atomic whose result does not depend on the order (red.max)"
        repair = f"add in a fixed order, or {repair}" if summed else repair
        repair = f"no change is needed if any order is right; else {repair}" if reordered and is_free else repair
        milder = Severity.NOTE if reordered and is_free else Severity.LUCK if summed or placed or handed_on else None
        found.append(
            at_instruction(
                "X030",
                writer,
                message,
                repair,
                because="PTX ISA 9.1 §8 (memory consistency)",
                why=why,
                milder=milder,
                arrays=tuple(one.address for one in self.differing),
            )
        )
        return found

    def text(self) -> str:
        """One line, and one for each group of schedules that differ from the default schedule in the same things. The
        findings have the details.
        """
        groups: dict[tuple[int | str, ...], list[str]] = {}
        for schedules, what in (
            *((one.schedules, one.short) for one in self.differing), *((one.schedules, one.short) for one in self.appeared),
            *(((self.unfinished, "time was over"),) if self.unfinished else ()),
        ):  # fmt: skip
            groups.setdefault(schedules, []).append(what)
        count = len({schedule for schedules in groups for schedule in schedules})
        what = (
            "nothing differs from the default schedule" if not groups else f"{count} differ{'s' * (count == 1)} from the default schedule"
        )
        lines = [f"      {_listed(schedules)}: {'; '.join(dict.fromkeys(whats))}" for schedules, whats in groups.items()]
        return told("\n".join([f"{len(self.tried)} schedules tried: {what}", *lines]))

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `schedule` is what `--schedule` takes to see it again."""
        return {
            "tried": list(self.tried),
            "differences": [
                {"array": one.array, "name": one.name, "bytes": one.bytes_, "of": one.size, "first": list(one.first),
                 "schedules": list(one.schedules), "atomic_float_sums": one.summed}
                for one in self.differing
            ],
            "findings": [{**one.finding.as_dict(), "schedules": list(one.schedules)} for one in self.appeared],
            "unfinished": list(self.unfinished),
        }  # fmt: skip


def _listed(schedules: Sequence[int | str]) -> str:
    more = f" and {len(schedules) - MOST_SHOWN} more" if len(schedules) > MOST_SHOWN else ""
    shown = [str(one) for one in schedules[:MOST_SHOWN]]
    last = f" and {shown.pop()}" if len(shown) > 1 and not more else ""
    return f"--schedule {', '.join(shown)}{last}{more}"


def apart(
    launch: Launch, usual: Mapping[int, np.ndarray], others: Mapping[int | str, Mapping[int, np.ndarray]], regions: Sequence[Region],
    summed: Sequence[np.ndarray],
) -> tuple[Apart, ...]:  # fmt: skip
    """Which regions other schedules leave with other bytes; the bytes of each region are given by its address. `summed`
    are the addresses of float sums.
    """
    found = []
    sums = np.unique(np.concatenate(summed)) if summed else np.zeros(0, np.int64)
    read, placed = _read_back(launch), list[_Placed]()
    if any(
        usual[region.begin].tobytes() != left[region.begin].tobytes()
        for region in regions
        for left in others.values()
        if region.begin in left
    ):
        placed = list(_placed_by_atoms(launch))
    for region in regions:
        by = {seed: np.flatnonzero(usual[region.begin] != left[region.begin]) for seed, left in others.items() if region.begin in left}
        by = {seed: at for seed, at in by.items() if at.size}
        if by:
            at = np.unique(np.concatenate(list(by.values())))
            is_sum = bool(np.isin((region.begin + at) // 2 * 2, sums).all())
            array = region_name(launch, region.begin, region.end)
            first, is_read = tuple(at[:MOST_SHOWN].tolist()), region.begin in read
            sizes = {one.size for one in placed if one.arrays is None or not one.arrays.isdisjoint(range(region.begin, region.end))}
            moved = any(all(_are_the_same(usual[region.begin], others[seed][region.begin], size) for seed in by) for size in sizes)
            found.append(Apart(array, region.name, len(region.data), len(at), first, tuple(by), is_sum, is_read, moved, region.begin))
    return tuple(found)


def _are_the_same(one: np.ndarray, other: np.ndarray, size: int) -> bool:
    """Do the bytes of two arrays hold the same elements of this size in another order?"""
    if len(one) % size:
        return False
    first, second = (np.ascontiguousarray(x).view(f"V{size}").tolist() for x in (one, other))
    return sorted(first) == sorted(second)


class _Placed(NamedTuple):
    """What an instruction writes at a place that depends on the result of an atomic operation: the bytes of an element,
    and the arrays' addresses. None: any array.
    """

    size: int
    arrays: frozenset[int] | None


def _placed_by_atoms(launch: Launch) -> Iterator[_Placed]:
    """The writes to global memory whose address depends on the result of an atomic operation."""
    program = launch.program
    given, givers = _given_by_atoms(program), givers_of(program)
    for i in program.inlined.body:
        if i.op not in WRITES or not _is_global(i) or len(i.operands) < 2:
            continue
        address = i.operands[i.op == "atom"]
        if not given.isdisjoint(slots_in(address)):
            roots = _roots_of(address, launch, givers)
            size = COPIED if i.op == "cp" else bits_of(i.modifiers[-1]) // 8
            yield _Placed(size, frozenset(at for root in roots for at in addresses_of(root, launch)) if roots else None)


def _given_by_atoms(program: Program) -> set[int]:
    """The registers that depend on the result of an atomic operation: by arithmetic, by shared memory, or because it
    decides how often a loop runs.
    """
    body, labels = program.inlined.body, program.inlined.labels
    branches = [(n, labels[i.operands[0].name]) for n, i in enumerate(body) if i.op == "bra" and isinstance(i.operands[0], Label)]
    loops = [body[to : n + 1] for n, to in branches if to <= n]
    found, before = {slot for i in body if i.op == "atom" for slot in i.given}, -1
    while len(found) != before:
        before = len(found)
        for i in body:
            if not found.isdisjoint(i.used):
                found |= i.given
        if any(i.op == "st" and _is_shared(i) and not found.isdisjoint(slots_in(i.operands[-1])) for i in body):
            found.update(slot for i in body if i.op == "ld" and _is_shared(i) for slot in i.given)
        for loop in loops:
            if any(i.op == "bra" and i.guard is not None and i.guard.slot in found for i in loop):
                found.update(slot for i in loop for slot in i.given)
    return found


def _is_shared(i: Instruction) -> bool:
    return any(m.startswith("shared") for m in i.modifiers)


def _roots_of(address: Operand, launch: Launch, givers: Mapping[int, Sequence[Instruction]]) -> set[Root]:
    """The parameters and the variables that an address is computed from; empty if it comes from memory."""
    places, found, seen = launch.program.places, set[Root](), set[int]()
    known, pending = {p.name for p in places.parameters}, [address]
    while pending:
        operand = pending.pop()
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            is_parameter = base.name in known
            moved = base.offset + (operand.offset if isinstance(operand, Address) else 0)
            found.add(Root("parameter", places.of(base.name).offset + moved) if is_parameter else Root("variable", 0, base.name))
        for slot in slots_in(operand) - seen:
            seen.add(slot)
            for i in givers.get(slot, ()):
                if i.op != "atom" and (i.op != "ld" or "param" in i.modifiers[0]):
                    pending += i.operands[1:]
    return found


def _read_back(launch: Launch) -> set[int]:
    """The begins of arrays that the kernel loads from, if its threads take turns by atomic operations."""
    if not takes_turns(launch.program):
        return set()
    addresses = (at for root in read_back(launch.program) if root.kind != "unknown" for at in addresses_of(root, launch))
    regions = (launch.memory.holding(at, at + 1) for at in addresses)
    return {region.begin for region in regions if region is not None}
