"""Rings of stages: how many loads their barriers allow, and which wait holds them back.

The verdict follows from the barriers alone. No assumed length enters it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from smemsim.core.finding import Finding, Half, at_instruction
from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.run.pipeline import Filling, Lanes, Origin, PipelineRecorder
from smemsim.run.pipeline.barriers import Passes
from smemsim.run.pipeline.knowledge import READERS, WARP, Waited
from smemsim.run.pipeline.lanes import Missing, Stuck

__all__ = ["SAYS", "SAYS_OF_TEXT", "Held", "Ring", "Verdicts", "shorter", "warps_named"]

LEAST_HELD = 0.9  # the share of a ring's loads that are held back in a ring that is
FEWEST_STAGES = 3  # of a ring that is expected to have more than one load in flight
FEWEST_PASSES = 3  # of a wait that never waits
SAYS = "Order and arrows are exact, lengths are assumed, nothing was measured."
SAYS_OF_TEXT = "Order is exact, lengths are assumed, nothing was measured."
WORDS = {
    "load": ("load", "stage", "loaded"),
    "cp.async": ("group", "stage", "filled"),
    "accumulator": ("tile", "accumulator", "computed"),
    "answer": ("request", "place", "asked"),
}


@dataclasses.dataclass(frozen=True)
class Held:
    """A load that waits without need: for the readers of `newer` fillings, though it overwrites `needs`. Numbers are
    those of the ring's loads.

    The wait by which its thread knows of the newest one is `origin`. The newest filling of any ring whose readers are
    complete at that wait is `until`. A wait before the load that ends with the readers of `needs`, and not with those
    of `newer`, is `enough`. Such a wait at any time, by an instruction that waits for this ring's readers, is `right`.
    If `is_own` is set, the wait comes just before the load.
    """

    load: int
    stage: int
    needs: int
    newer: tuple[int, ...]
    origin: Origin | None
    until: int
    enough: Waited | None = None
    right: Waited | None = None
    is_own: bool = True


class Awaited(NamedTuple):
    """The next action with a stage of a thread that waits for ever: issue load `load` into it, or read it. With
    `is_next` it is the load after it.
    """

    ring: Ring
    stage: int
    load: int
    is_issue: bool
    is_next: bool


@dataclasses.dataclass(frozen=True)
class Ring:
    """Stages in shared memory that loads fill in turn, or accumulators in tensor memory. The places are `stages`.
    Fillings are in the order of issue. For each filling, `allowed` has the number of loads that may be in flight then.
    Loads that wait without need are `held`. For each filling, `overwrites` says whether it overwrites an earlier one.
    """

    fillings: tuple[Filling, ...]
    stages: tuple[tuple[int, int], ...]
    allowed: tuple[int, ...]
    held: tuple[Held, ...]
    overwrites: tuple[bool, ...]

    @property
    def kind(self) -> str:
        """ "load", "cp.async", "accumulator" or "answer" (of clusterlaunchcontrol.try_cancel)."""
        kind: str = self.fillings[0].kind
        return kind

    @property
    def cta(self) -> int:
        """The CTA whose memory has the stages, by its index."""
        index: int = self.stages[0][0]
        return index

    @property
    def depth(self) -> int:
        """How many loads may be in flight at once."""
        return max(self.allowed, default=0)

    @property
    def refills(self) -> int:
        """How many loads overwrite an earlier one."""
        return sum(self.overwrites)

    @property
    def steady(self) -> int:
        """How many loads may be in flight at a quarter or more of those that overwrite an earlier one."""
        counts = sorted((n for n, again in zip(self.allowed, self.overwrites, strict=True) if again), reverse=True)
        return counts[len(counts) // 4] if counts else self.depth

    @property
    def effective(self) -> int:
        """The effective number of stages: all, minus those that most loads keep empty without need."""
        if self.is_one_at_a_time:
            return self.batch
        if not self.is_held_back:
            return len(self.stages)
        common = collections.Counter(len(one.newer) for one in self.held).most_common(1)[0][0]
        return max(1, len(self.stages) - common)

    @property
    def is_held_back(self) -> bool:
        """Do nearly all loads that overwrite another one wait for a newer one's readers? Groups of cp.async may be of
        several buffers, so they are not reported.
        """
        return self.kind != "cp.async" and self.refills > len(self.stages) and len(self.held) >= LEAST_HELD * self.refills

    @property
    def is_one_at_a_time(self) -> bool:
        """Is nearly every load issued only when the load before is complete, in a ring of three stages or more? Groups
        of cp.async may be issued several at a time: those of A and B.
        """
        if self.refills <= len(self.stages) or self.kind in ("accumulator", "answer"):
            return False
        again = {one.stage for one, yes in zip(self.fillings, self.overwrites, strict=True) if yes}
        return 0 < self.batch <= (1 if self.kind == "load" else len(again)) and len(again) >= FEWEST_STAGES * self.batch

    @functools.cached_property
    def batch(self) -> int:
        """How many loads nearly all batches have, if a batch is issued only when all loads before it are complete; 0 if
        loads are issued otherwise.
        """
        found = [0] * len(self.allowed)  # of each load its place in a batch, from 1 on
        for n, count in enumerate(self.allowed):
            if count == 1 or (n and found[n - 1] == count - 1):
                found[n] = count
        places = [place for place, again in zip(found, self.overwrites, strict=True) if again]
        return max(places, default=0) if sum(place > 0 for place in places) >= LEAST_HELD * self.refills else 0

    @property
    def last_alone(self) -> int:
        """The last load that was issued when all loads before it were complete."""
        return max(n for n, count in enumerate(self.allowed) if count == 1)

    @property
    def overlaps(self) -> bool:
        """Does a filling begin before the readers of the one before are known to be done?"""
        return any(a.readers and not _is_read(a, b.reads) for a, b in itertools.pairwise(self.fillings))

    @property
    def is_late(self) -> bool:
        """Does the ring work as fewer stages than it has?"""
        return self.is_held_back or self.is_one_at_a_time

    @classmethod
    def of(cls, fillings: Sequence[Filling], others: Sequence[Filling] = ()) -> Ring:
        """The ring that these fillings make, in the order of their issue; `others` are those of all rings."""
        own = sum(1 << one.number for one in fillings)
        place = {one.number: n for n, one in enumerate(fillings)}
        of = {one.number: one for one in fillings}
        releases = {origin.wait for one in fillings for bit, origin in one.origins.items() if bit // READERS in of}
        everywhere = [wait for one in others or fillings for wait in one.waits if wait.wait in releases]
        stages = tuple(dict.fromkeys(one.stage for one in fillings))
        allowed = tuple((one.issued & own & ~one.loads).bit_count() + 1 for one in fillings)
        held: list[Held] = []
        last: dict[tuple[int, int], Filling] = {}
        overwrites = []
        for n, one in enumerate(fillings):
            before = last.get(one.stage)
            overwrites.append(before is not None)
            last[one.stage] = one
            if before is None or not before.readers:
                continue
            newer = tuple(h.number for h in fillings[place[before.number] + 1 : n] if h.readers and _is_read(h, one.reads))
            if newer:
                bit = newer[-1] * READERS + (fillings[place[newer[-1]]].readers.bit_length() - 1)
                origin = one.origins.get(bit)
                until = next((o.number for o in reversed(others) if o.kind == one.kind and o.readers and _is_read(o, one.reads)), newer[-1])
                enough, right = (_enough(waits, before, [of[h] for h in newer]) for waits in (one.waits, everywhere))
                is_own = origin is None or origin.barrier is None or any(w.wait is origin.wait for w in one.waits)
                held.append(
                    Held(
                        n,
                        stages.index(one.stage),
                        place[before.number],
                        tuple(place[h] for h in newer),
                        origin,
                        until,
                        enough,
                        right,
                        is_own,
                    )
                )
        return cls(tuple(fillings), stages, allowed, tuple(held), tuple(overwrites))

    @property
    def releases_late(self) -> bool:
        """Does each stage have an mbarrier of its own that loads wait for, one phase a round? Then the wait is the
        right one, and what ends it comes late.
        """
        found = [(one.stage, one.origin.barrier, one.origin.phase - self._round(one)) for one in self.held if one.origin is not None]
        stages, barriers, shifts = ({entry[k] for entry in found} for k in range(3))
        return bool(found) and len(shifts) == 1 and len(stages) == len(barriers) == len({entry[:2] for entry in found})

    def _round(self, one: Held) -> int:
        """How often the stage was filled before."""
        return sum(self.fillings[n].stage == self.stages[one.stage] for n in range(one.load))

    def culprits(self) -> set[Instruction]:
        """The waits that hold a late ring back."""
        origins = [one.origin for one in self.held] if self.is_held_back else [self.awaited()] if self.is_one_at_a_time else []
        return {origin.wait for origin in origins if origin is not None}

    def awaited(self) -> Origin | None:
        """The wait by which the thread knows, at the last load, that the load before is complete."""
        n = self.last_alone
        return self.fillings[n].load_origins.get(self.fillings[n - 1].number)


def _separate(fillings: Sequence[Filling]) -> list[list[Filling]]:
    """Loads of one array and one size may fill several rings, each with mbarriers of its own: K and V in one tensor.

    Loads belong together if an instruction, a stage or an mbarrier is common to them. Two such sets that each fill
    their stages again can be two rings. They are two rings if their mbarriers are in variables of different names. They
    are two rings, too, if both have several stages, and all mbarriers of one are before those of the other. Otherwise a
    loop may be unrolled.
    """
    groups: list[tuple[set[Any], list[Filling]]] = []
    for one in fillings:
        keys = {id(one.instruction), ("stage", one.stage), ("mbarrier", one.barrier)}
        own = [group for group in groups if group[0] & keys]
        groups = [group for group in groups if not group[0] & keys]
        groups.append((keys.union(*(k for k, _ in own)), [*itertools.chain(*(f for _, f in own)), one]))
    found: list[list[Filling]] = []
    for _, own in groups:
        joined = [other for other in found if not _are_apart(own, other)]
        found = [other for other in found if _are_apart(own, other)]
        found.append([*itertools.chain(*joined), *own])
    return [sorted(own, key=lambda one: one.number) for own in found]


def _are_apart(a: Sequence[Filling], b: Sequence[Filling]) -> bool:
    """Are two sets of loads two rings?"""
    counts = [len({one.stage for one in own}) for own in (a, b)]
    if a[0].kind != "load" or any(len(own) <= count for own, count in zip((a, b), counts, strict=True)):
        return False
    if re.sub(r"\d+$", "", a[0].variable) != re.sub(r"\d+$", "", b[0].variable):
        return True
    (first, last), (begin, end) = ((min(at), max(at)) for at in ([one.barrier for one in own] for own in (a, b)))
    return min(counts) > 1 and (last < begin or end < first)


def _enough(waits: Sequence[Waited], needs: Filling, newer: Sequence[Filling]) -> Waited | None:
    """A wait that ends with the readers of a filling, and not with those of newer ones."""
    return next((w for w in waits if _is_read(needs, w.reads) and not any(_is_read(one, w.reads) for one in newer)), None)


def _is_read(filling: Filling, reads: int) -> bool:
    """Are all matrix instructions that read a filling complete, as far as this is known?"""
    wanted = filling.readers << (filling.number * READERS)
    return bool(reads & wanted == wanted)


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """The rings of a launch's first cluster, and the activity of its warps and engines over time.

    The function `place` returns the place of an instruction, in the words of a finding. The waits for a parity, and how
    they passed, are `passes`. The numbers of CTAs in the grid are `numbers`.
    """

    rings: tuple[Ring, ...]
    place: Callable[[Instruction], str]
    is_cut: bool = False
    is_over: bool = True
    lanes: Lanes = dataclasses.field(default_factory=Lanes)
    passes: dict[Instruction, Passes] = dataclasses.field(default_factory=dict)
    numbers: dict[int, int] = dataclasses.field(default_factory=dict)
    barrier_names: dict[int, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, recorder: PipelineRecorder, place: Callable[[Instruction], str], *, is_over: bool = True) -> Self:
        """The recorded rings. If `is_over` is set, the kernel came to its end."""
        # of rings that share stages, as those of K and V may: the one that they are part of
        joined: dict[Any, Any] = {}
        stages: dict[Any, Any] = {}

        def whole(ring: Any) -> Any:
            while (other := joined.get(ring, ring)) != ring:
                ring = other
            return ring

        for one in recorder.fillings:
            own = whole(one.ring)
            other = whole(stages.setdefault((one.kind, one.thread // WARP, one.stage), own))
            if other != own:
                joined[own] = other
        rings: dict[Any, list[Filling]] = collections.defaultdict(list)
        for one in recorder.fillings:
            rings[whole(one.ring)].append(one)
        made = (Ring.of(one, recorder.fillings) for whole in rings.values() for one in _separate(whole) if len(one) > 1)
        return cls(
            tuple(made), place, recorder.is_cut, is_over, recorder.lanes, dict(recorder.passes), recorder.numbers, recorder.barrier_names
        )

    def different(self) -> list[tuple[Ring, ...]]:
        """The rings, those of CTAs that do the same together: one sentence, one note and one picture are enough."""
        found: dict[Any, list[Ring]] = {}
        for ring in self.rings:
            places = tuple((ring.stages.index(one.stage), tuple(size for _, size in one.sizes)) for one in ring.fillings)
            waits = tuple((one.load, one.stage, one.needs, one.newer) for one in ring.held)
            found.setdefault((ring.kind, ring.fillings[0].instruction, places, ring.allowed, waits), []).append(ring)
        return [tuple(rings) for rings in found.values()]

    def _told(self) -> list[tuple[Ring, ...]]:
        """`different`, the rings that a wait of another one holds back last."""
        return sorted(self.different(), key=lambda rings: rings[0].is_held_back and self._owner(rings[0]) is not None)

    def sentences(self) -> list[str]:
        """The verdict of each ring, a sentence or two; of a hang also each wait that never ends."""
        return [says for says, _ in self.verdicts()]

    def summary(self) -> list[str]:
        """`sentences`, with those that P101 explains cut short."""
        if not self.is_over:
            return self.sentences()
        told = zip(self._told(), self.sentences(), strict=False)
        return [f"{self.name(*rings)}: {self._why(rings[0])[0]}" if rings[0].is_late else says for rings, says in told] or self.sentences()

    def verdicts(self) -> list[tuple[str, bool]]:
        """`sentences`, and whether each is bad news."""
        stuck = [(self.stuck_sentence(one), True) for one in sorted(self.lanes.stuck, key=self.is_consequence)]
        told = [(self.sentence(*rings), self.is_over and rings[0].is_late) for rings in self._told()]
        none = "No ring of stages: no thread loads one stage after another, with an mbarrier or a group of cp.async for each."
        return [*stuck, *(told or [(none, False)])]

    def notes(self) -> list[Finding]:
        """P101 for each ring that works as fewer stages than it has, P103 for each wait that never waits. None of a
        launch that did not end.
        """
        if not self.is_over:
            return []
        return [*(self._held_back(ring) for ring, *_ in self._told() if ring.is_late), *self._never_waits()]

    # ---- in words

    def name(self, ring: Ring, *alike: Ring) -> str:
        """A ring by its stages and the line of its first load; with others of the same verdict, of more CTAs."""
        _, stage, does = WORDS[ring.kind]
        count, where = len(ring.stages), self.place(ring.fillings[0].instruction)
        letter = self.letters.get(ring.fillings[0].number, "")
        if len({one.cta for one in self.rings}) > 1:
            ctas = sorted({self.numbers.get(one.cta, one.cta) for one in (ring, *alike)})
            where += f", {_ctas_named(ctas)}" if len(ctas) > 1 else f", CTA {ctas[0]}"
        if ring.kind == "accumulator":
            return f"ring{letter} of {count} accumulator{'s' * (count > 1)} in tensor memory, computed at {where}"
        if ring.kind == "answer":
            return f"ring{letter} of {count} answer{'s' * (count > 1)} of clusterlaunchcontrol, asked at {where}"
        return f"ring{letter} of {count} {stage}{'s' * (count > 1)}, {does}{' by cp.async' * (ring.kind == 'cp.async')} at {where}"

    @functools.cached_property
    def letters(self) -> dict[int, str]:
        """ " A", " B" … of the fillings of each ring, by number; "" if all rings do the same."""
        different = self.different()
        names = [f" {chr(ord('A') + k % 26)}" if len(different) > 1 else "" for k in range(len(different))]
        return {one.number: name for name, rings in zip(names, different, strict=True) for ring in rings for one in ring.fillings}

    @functools.cached_property
    def fillings(self) -> dict[int, Filling]:
        """The fillings of all rings, by number."""
        return {one.number: one for ring in self.rings for one in ring.fillings}

    @functools.cached_property
    def labels(self) -> dict[int, str]:
        """Names of fillings, by number: their number in the ring, after the letter of the ring."""
        return {one.number: f"{self.letters[one.number].strip()}{n}" for ring in self.rings for n, one in enumerate(ring.fillings)}

    def label(self, ring: Ring, n: int) -> str:
        """The name of the n-th load of a ring, also of one that was not issued."""
        return f"{self.letters[ring.fillings[0].number].strip()}{n}"

    def mbarrier(self, barrier: tuple[int, int], phase: int) -> str:
        """An mbarrier and a phase, in words."""
        address = barrier[1]
        name = self.barrier_names.get(address)
        return f"mbarrier {address:#x}{f' ({name})' if name else ''} phase {phase}"

    def sentence(self, ring: Ring, *alike: Ring) -> str:
        """The verdict of a ring, and of others of the same verdict."""
        name, load = self.name(ring, *alike), WORDS[ring.kind][0]
        if not self.is_over:
            return f"{name}: {len(ring.fillings)} {load}s were issued before the kernel stopped; {self._left(ring)}. Whether all stages work is not known."
        if ring.is_late:
            one = ring.held[-1] if ring.is_held_back else None
            fix = self._fix(ring, one, ring.awaited() if one is None else one.origin)
            return f"{name}: {' '.join(self._why(ring))} Fix: {fix}."
        if ring.kind == "accumulator":
            if ring.overlaps:
                return f"{name}: matrix instructions into one overlap the reads of another."
            return f"{name}: matrix instructions wait until the one before has been read."
        flying = f"its barriers allow {ring.steady} {load}{'s' * (ring.steady > 1)} in flight at once"
        if len(ring.stages) == 1 and ring.kind == "load":
            return f"{name}: one {load} is in flight, and no load overlaps the matrix instructions of the one before."
        if ring.kind in ("cp.async", "answer"):
            return f"{name}: {flying}."
        if ring.refills <= len(ring.stages):
            return f"{name}: {flying}. Whether all stages work is not known: a ring needs more loads than twice its stages, and this launch has {len(ring.fillings)}."
        if any(one.readers for one in ring.fillings):
            return f"{name}: all stages work; {flying}."
        return f"{name}: {flying}. What reads the stages was not followed."

    def awaited(self, stuck: Stuck) -> Awaited | None:
        """The purpose of a wait that never ends; None if it is for no stage. A thread that loads waits for a stage to
        be free where it has passed before: another wait may be for anything.
        """
        for ring in self.rings:
            filled = [(n, one) for n, one in enumerate(ring.fillings) if one.barrier == stuck.barrier and one.barrier[1] >= 0]
            if filled:
                n, one = filled[-1]
                return Awaited(ring, ring.stages.index(one.stage), n, is_issue=False, is_next=one.is_full)
            count, stages = len(ring.fillings), len(ring.stages)
            is_issuer = any(one.thread == stuck.thread for one in ring.fillings)
            readers = sum(one.readers << (one.number * READERS) for one in ring.fillings)
            is_release = stuck.instruction in self.passes or (stuck.missing is not None and bool(stuck.missing.reads & readers))
            if is_issuer and is_release and stuck.barrier is not None and count >= stages:
                return Awaited(ring, ring.stages.index(ring.fillings[count - stages].stage), count, is_issue=True, is_next=False)
        return None

    def purpose(self, stuck: Stuck) -> str:
        """The action that a wait that never ends delays, as in "issuing load 5 into stage 1". "" if it is not known."""
        found = self.awaited(stuck)
        if found is None:
            return ""
        load, stage, _ = WORDS[found.ring.kind]
        n = found.load if found.is_issue or not found.is_next else self._next(found)
        which = f"{load} {self.label(found.ring, n)}" if n >= 0 else f"the {load} after {load} {self.label(found.ring, found.load)}"
        return f"{'issuing' if found.is_issue else 'reading'} {which} {'into' if found.is_issue else 'in'} {stage} {found.stage}"

    def _next(self, found: Awaited) -> int:
        """The load that another thread waits for ever to issue into the stage; -1 for none."""
        others = (self.awaited(one) for one in self.lanes.stuck)
        return next((o.load for o in others if o is not None and o.is_issue and (o.ring, o.stage) == (found.ring, found.stage)), -1)

    def is_consequence(self, stuck: Stuck) -> bool:
        """Does it wait for a load that another wait holds up?"""
        found = self.awaited(stuck)
        return found is not None and found.is_next and self._next(found) >= 0

    def stuck_sentence(self, stuck: Stuck) -> str:
        """A wait that never ends: where, before what, what is missing, which warps came and which are overdue."""
        whole = f"{warps_named(stuck.warps).capitalize()} wait{'s' * (len(stuck.warps) == 1)} for ever at {self.place(stuck.instruction)}"
        if purpose := self.purpose(stuck):
            whole += f", before {purpose}"
        if self.is_consequence(stuck):
            return f"{whole}, which is never issued: a consequence."
        if stuck.missing is None or stuck.barrier is None:
            return f"{whole}: {stuck.why}{self._overdue(stuck)}."
        mbarrier = self.mbarrier(stuck.barrier, stuck.missing.phase)
        return f"{whole}, for {mbarrier}: {self.lacking(stuck.missing)}{self._came(stuck.missing)}{self._overdue(stuck)}."

    @staticmethod
    def lacking(missing: Missing) -> str:
        """The arrivals and bytes that a phase of an mbarrier lacks."""
        many, of = "is" if missing.pending == 1 else "are", f" of {missing.expected}" if missing.expected > 1 else ""
        parts = [f"{missing.pending}{of} arrival{'s' * (missing.expected > 1)} {many} missing"] if missing.pending else []
        if missing.tx:
            parts.append(f"{missing.tx} bytes are missing" if missing.tx > 0 else f"{-missing.tx} bytes too many have come")
        return " and ".join(parts) or "nothing is missing"

    def _came(self, missing: Missing) -> str:
        """The warps that have arrived, by instruction."""
        by: dict[Instruction, list[int]] = {}
        for warp, i in missing.came:
            by.setdefault(i, []).append(warp)
        of = "" if len(self.numbers) < 2 else f" of CTA {missing.cta}"
        return "".join(f"; {warps_named(warps)}{of} arrived at {self.place(i)}" for i, warps in by.items())

    def _overdue(self, stuck: Stuck) -> str:
        """The warps that have not arrived, and where they have."""
        absent = stuck.missing.absent if stuck.missing is not None and stuck.missing.pending else ()
        others = "".join(
            f"; CTA {cta} has arrived at the mbarrier of CTA {cta}, never at this one. Let it arrive here too" for cta in absent
        )
        late = self.overdue(stuck)
        if not late:
            return others
        has = "has" if len(late) == 1 else "have"
        if stuck.missing is not None and not set(late) & set(stuck.missing.before):
            has += " never arrived there"
        else:
            has += " not arrived in this phase"
        names = [self.barrier_names.get(address) or f"{address:#x}" for _, address in stuck.elsewhere] if stuck.overdue else []
        return f"; {warps_named(late)} {has}{f', but at {_listed(names)}' if names else ''}{others}"

    def overdue(self, stuck: Stuck) -> tuple[int, ...]:
        """The warps that have not arrived: those that have at other phases or stages, or that read the stage, too."""
        found = self.awaited(stuck)
        if stuck.overdue or found is None or not found.is_issue or stuck.missing is None:
            return stuck.overdue
        last = next(one for one in reversed(found.ring.fillings) if one.stage == found.ring.stages[found.stage])
        came = {warp for warp, _ in stuck.missing.came}
        groups = [warps for n, warps in self.lanes.readers.items() if last.readers >> n & 1]
        return tuple(sorted(warp for warps in groups if not came & set(warps) for warp in warps))

    def _left(self, ring: Ring) -> str:
        """The content of each stage at the end."""
        load, stage, _ = WORDS[ring.kind]
        last = {one.stage: one for one in ring.fillings}
        parts = []
        for k, where in enumerate(ring.stages):
            one = last[where]
            label = self.labels[one.number]
            does = (
                f"has been read ({load} {label})"
                if one.readers
                else f"is full ({load} {label})"
                if one.is_full
                else f"has {load} {label} under way"
            )
            parts.append(f"{stage} {k} {does}")
        return ", ".join(parts)

    def _why(self, ring: Ring, *, has_rows: bool = False) -> list[str]:
        """Why a ring works as fewer stages than it has: sentences. `has_rows`: rows of a message show the arrival."""
        load, stage, _ = WORDS[ring.kind]
        first = f"{len(ring.stages)} {stage}s work as {ring.effective}."
        if not ring.is_held_back:
            origin, last, batch = ring.awaited(), ring.last_alone, ring.batch
            by = "" if origin is None else f", because of {_with_number(origin.wait)} at {self.place(origin.wait)}"
            if origin is not None and origin.barrier is not None:
                by += f", where warp {ring.fillings[last].warp} waits for {self.mbarrier(origin.barrier, origin.phase)}"
            since = next((n for n in reversed(range(ring.overwrites.index(True))) if ring.allowed[n] > batch), 0)
            after = f" after {load} {self.label(ring, since)}" if since else ""
            text = f"Every {load}{after} waits for the one before it{by}. So one {load} is in flight at a time."
            if batch > 1:
                text = f"Every {batch} {load}s{after} wait for those before them{by}. So only {batch} {load}s are in flight at a time."
            return [first, text]
        one = ring.held[-1]
        owner = self._owner(ring)
        readers, those = ("epilogue", "that") if ring.kind == "accumulator" else ("MMAs", "those")
        text = f"{load.capitalize()} {self.label(ring, one.load)} into {stage} {one.stage} needs the {readers} of {load} {self.label(ring, one.needs)}, but waits for {those} of {load} {self.labels.get(one.until, one.until)}"
        if one.origin is not None and owner is not None:
            text += f": it is issued after the wait at {self.place(one.origin.wait)}, which holds ring{self.letters[owner.fillings[0].number]} back"
        elif one.origin is not None:
            text += f". Warp {ring.fillings[one.load].warp} waits at {self.place(one.origin.wait)}"
            if one.origin.barrier is not None:
                text += f", for {self.mbarrier(one.origin.barrier, one.origin.phase)}"
            if one.origin.arrival is not None and not has_rows:
                text += f". The arrival is at {self.place(one.origin.arrival)}"
            if one.origin.first is not None and one.origin.first is not one.origin.arrival and not has_rows:
                text += f", after {_with_number(one.origin.first)} at {self.place(one.origin.first)}"
            if one.enough is not None and one.enough.wait is not one.origin.wait:
                text += f". This wait comes in addition and can be left out: another one, at {self.place(one.enough.wait)}, for {self.mbarrier(one.enough.barrier, one.enough.phase)}, is there and is enough"
            elif ring.releases_late and one.origin.arrival is not None:
                text += f". This mbarrier is that of {stage} {one.stage}, but the arrival for {load} {self.label(ring, one.needs)} comes late: only after the {readers} of {load} {self.labels.get(one.until, one.until)}"
            elif one.right is not None and one.right.barrier != one.origin.barrier:
                text += f". Enough would be {self.mbarrier(one.right.barrier, one.right.phase)}"
        all_, many = ("all " if len(ring.held) == ring.refills else f"{len(ring.held)} of the "), ring.refills
        return [first, f"{text}. This holds for {all_}{many} {load}s that overwrite another."]

    def _owner(self, ring: Ring) -> Ring | None:
        """Another ring, just before whose loads the wait comes that holds this one back;
        None if it is the ring's own.
        """
        one = ring.held[-1]
        if one.is_own or one.origin is None:
            return None
        wait = one.origin.wait
        return next((other for other in self.rings if other is not ring and wait in other.culprits() and other.held[-1].is_own), None)

    def _held_back(self, ring: Ring) -> Finding:
        """P101, at the wait."""
        load, stage, _ = WORDS[ring.kind]
        one = ring.held[-1] if ring.is_held_back else None
        origin = ring.awaited() if one is None else one.origin
        at = ring.fillings[0].instruction if origin is None else origin.wait
        halves = [Half(load, f"the first of the ring ({shorter(ring.fillings[0].instruction.name)})", ring.fillings[0].instruction)]
        if origin is not None and (one is None or self._owner(ring) is None):
            halves += [Half("arrive", shorter(origin.arrival.name), origin.arrival)] if origin.arrival is not None else []
            if origin.first is not None and origin.first is not origin.arrival:
                halves.append(Half("after", _with_number(origin.first), origin.first))
            if one is not None and one.enough is not None and one.enough.wait is not origin.wait:
                halves.append(Half("enough", shorter(one.enough.wait.name), one.enough.wait))
        return at_instruction(
            "P101",
            at,
            f"a ring of {len(ring.stages)} {stage}s works as {ring.effective}",
            self._fix(ring, one, origin),
            why=self._why(ring, has_rows=True)[1].removesuffix("."),
            halves=tuple(halves),
            kind="held back by another ring" if one is not None and self._owner(ring) is not None else "",
        )

    def _fix(self, ring: Ring, one: Held | None, origin: Origin | None) -> str:
        """The change for a ring that works as fewer stages than it has."""
        load, stage, _ = WORDS[ring.kind]
        if ring.kind == "cp.async":
            return f"cp.async.wait_group {len(ring.stages) - 2 * ring.batch}, so that later groups stay in flight"
        if one is None or origin is None or origin.barrier is None:
            return f"leave this wait out in warp {ring.fillings[-1].warp}, which issues loads: wait for a load just before what reads it"
        owner = self._owner(ring)
        if owner is not None:
            return f"repair ring{self.letters[owner.fillings[0].number]} first: the same wait holds both back"
        if one.enough is not None and one.enough.wait is not origin.wait:
            return f"leave this wait out: the wait at {self.place(one.enough.wait)} is enough for {load} {self.label(ring, one.load)}"
        if ring.releases_late and origin.arrival is not None:
            done, readers = f"release {_a(stage)} as soon as its readers are done", "epilogue" if ring.kind == "accumulator" else "MMAs"
            until = self.labels.get(one.until, one.until)
            late = f"{done}: let the arrival at {self.place(origin.arrival)} for {load} {self.label(ring, one.needs)} not wait for the {readers} of {load} {until}"
            left = [value.value for value in origin.first.operands if isinstance(value, Immediate)] if origin.first is not None else []
            if origin.first is None or origin.first.op != "wgmma" or not left:
                return late
            return f"{late}; either {shorter(origin.first.name)} {left[0] + len(one.newer)} there, or an arrival for {load} {until} at once"
        free = f"wait for the release of {stage} {one.stage}, which {load} {self.label(ring, one.load)} overwrites"
        barriers = {held.origin.barrier for held in ring.held if held.origin is not None}
        return f"give each {stage} an mbarrier of its own, and {free}" if len(barriers) == 1 < len(ring.stages) else free

    def _never_waits(self) -> list[Finding]:
        """P103 for waits that pass every time by a phase that their thread has passed before."""
        return [
            at_instruction(
                "P103", i, f"this wait never waits: it passed {passes.again + 1} times, and for each thread the mbarrier was in the same phase each time",
                "if threads arrive at the mbarrier in each round: let the parity of the wait flip from round to round; or leave the wait out",
                why="a wait for a parity passes at once while the current phase has the other parity",
            )
            for i, passes in self.passes.items()
            if not passes.fresh and passes.again + 1 >= FEWEST_PASSES
        ]  # fmt: skip


def _with_number(wait: Instruction) -> str:
    """A wait, with the number of groups that it leaves in flight."""
    numbers = [str(one.value) for one in wait.operands if isinstance(one, Immediate)]
    return " ".join([shorter(wait.name), *(numbers if "wait_group" in wait.modifiers else [])])


def _listed(names: Sequence[str]) -> str:
    """Names in words.

    >>> _listed(["a", "b", "c"]), _listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _ctas_named(ctas: Sequence[int]) -> str:
    """CTAs in words.

    >>> _ctas_named([0, 1]), _ctas_named([0, 1, 2, 3])
    ('CTAs 0 and 1', 'CTAs 0 to 3')
    """
    if len(ctas) > 2 and ctas[-1] - ctas[0] == len(ctas) - 1:
        return f"CTAs {ctas[0]} to {ctas[-1]}"
    return f"CTAs {_listed([str(cta) for cta in ctas])}"


def warps_named(warps: Sequence[int]) -> str:
    """Warps in words.

    >>> warps_named((0,)), warps_named((4, 5, 6, 7)), warps_named((1, 3))
    ('warp 0', 'warps 4 to 7', 'warps 1, 3')
    """
    if len(warps) == 1:
        return f"warp {warps[0]}"
    if len(warps) > 2 and warps[-1] - warps[0] == len(warps) - 1:
        return f"warps {warps[0]} to {warps[-1]}"
    return f"warps {', '.join(map(str, warps))}"


def shorter(name: str) -> str:
    """An instruction's name without the words that every form of it has.

    >>> shorter("wgmma.wait_group.sync.aligned"), shorter("mbarrier.try_wait.parity.shared::cta.b64")
    ('wgmma.wait_group', 'mbarrier.try_wait.parity')
    """
    for word in (".aligned", ".sync", ".b64", ".shared::cta", ".shared"):
        name = name.removesuffix(word)
    return name
