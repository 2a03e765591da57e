"""Rings of stages: how many loads their barriers allow, and which wait holds them back.

The verdict follows from the barriers alone. No assumed length enters it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from smemsim.core.finding import Finding, Half, at_instruction
from smemsim.core.ptx.module import Instruction
from smemsim.run.pipeline import Filling, Lanes, Origin, PipelineRecorder
from smemsim.run.pipeline.barriers import Passes
from smemsim.run.pipeline.knowledge import READERS, WARP
from smemsim.run.pipeline.lanes import Stuck

__all__ = ["SAYS", "Held", "Ring", "Verdicts", "shorter", "warps_named"]

LEAST_HELD = 0.9  # the share of a ring's loads that are held back in a ring that is
FEWEST_STAGES = 3  # of a ring that is expected to have more than one load in flight
FEWEST_PASSES = 3  # of a wait that never waits
SAYS = "Order and arrows are exact, lengths are assumed, nothing was measured."
WORDS = {
    "load": ("load", "stage", "loaded"),
    "cp.async": ("group", "stage", "filled"),
    "accumulator": ("tile", "accumulator", "computed"),
    "answer": ("request", "place", "asked"),
}


@dataclasses.dataclass(frozen=True)
class Held:
    """A load that waits without need: for the readers of `newer` fillings, though it overwrites `needs`.

    Numbers are those of the ring's loads. `origin` is the wait by which its thread knows of the newest one.
    """

    load: int
    stage: int
    needs: int
    newer: tuple[int, ...]
    origin: Origin | None


class Awaited(NamedTuple):
    """What a thread that waits for ever would do next with a stage: issue load `load` into it, or read it;
    `is_next`: the load after it.
    """

    ring: Ring
    stage: int
    load: int
    is_issue: bool
    is_next: bool

    @property
    def doing(self) -> str:
        """`says` after "before"."""
        does, _, what = self.says.partition(" ")
        return f"{'issuing' if does == 'issues' else 'reading'} {what}"

    @property
    def says(self) -> str:
        """In words, after "it"."""
        load, stage, _ = WORDS[self.ring.kind]
        if self.is_issue:
            return f"issues {load} {self.load} into {stage} {self.stage}"
        return (
            f"reads the {load} after {load} {self.load} in {stage} {self.stage}"
            if self.is_next
            else f"reads {load} {self.load} in {stage} {self.stage}"
        )


@dataclasses.dataclass(frozen=True)
class Ring:
    """Stages in shared memory that loads fill in turn, or accumulators in tensor memory.

    - `fillings`: in the order of issue. `stages`: the places.
    - `allowed`: for each filling, how many loads may be in flight then. `held`: loads that wait without need.
    - `overwrites`: does the filling overwrite an earlier one?
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
            return 1
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
        """Is nearly every load issued only when the load before is complete, in a ring of three stages or more?"""
        if len(self.stages) < FEWEST_STAGES or self.refills <= len(self.stages) or self.kind in ("accumulator", "answer"):
            return False
        alone = sum(n == 1 for n, again in zip(self.allowed, self.overwrites, strict=True) if again)
        return alone >= LEAST_HELD * self.refills

    @property
    def overlaps(self) -> bool:
        """Does a filling begin before the readers of the one before are known to be done?"""
        return any(a.readers and not _is_read(a, b.reads) for a, b in itertools.pairwise(self.fillings))

    @property
    def is_late(self) -> bool:
        """Does the ring work as fewer stages than it has?"""
        return self.is_held_back or self.is_one_at_a_time

    @classmethod
    def of(cls, fillings: Sequence[Filling]) -> Ring:
        """The ring that these fillings make, in the order of their issue."""
        own = sum(1 << one.number for one in fillings)
        place = {one.number: n for n, one in enumerate(fillings)}
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
                held.append(Held(n, stages.index(one.stage), place[before.number], tuple(place[h] for h in newer), one.origins.get(bit)))
        return cls(tuple(fillings), stages, allowed, tuple(held), tuple(overwrites))

    def culprits(self) -> set[Instruction]:
        """The waits that hold a late ring back."""
        origins = [one.origin for one in self.held] if self.is_held_back else [self.awaited()] if self.is_one_at_a_time else []
        return {origin.wait for origin in origins if origin is not None}

    def awaited(self) -> Origin | None:
        """The wait by which the thread knows, at the last load, that the load before is complete."""
        *_, before, last = self.fillings
        return last.load_origins.get(before.number)


def _is_read(filling: Filling, reads: int) -> bool:
    """Are all matrix instructions that read a filling complete, as far as this is known?"""
    wanted = filling.readers << (filling.number * READERS)
    return bool(reads & wanted == wanted)


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """The rings of a launch's first cluster, and the activity of its warps and engines over time.

    `place` gives the place of an instruction, in the words of a finding. `passes` are the waits for a parity and how
    they passed. `numbers` are those of CTAs in the grid.
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
        """What was recorded, by rings. `is_over`: the kernel came to its end."""
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
        made = (Ring.of(one) for one in rings.values() if len(one) > 1)
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

    def sentences(self) -> list[str]:
        """The verdict of each ring, a sentence or two; of a hang also each wait that never ends."""
        return [says for says, _ in self.verdicts()]

    def summary(self) -> list[str]:
        """`sentences`, with those that P101 explains cut short."""
        if not self.is_over:
            return self.sentences()
        told = zip(self.different(), self.sentences(), strict=False)
        return [f"{self.name(*rings)}: {self._why(rings[0])[0]}" if rings[0].is_late else says for rings, says in told] or self.sentences()

    def verdicts(self) -> list[tuple[str, bool]]:
        """`sentences`, and whether each is bad news."""
        stuck = [
            (
                f"{warps_named(one.warps)} never go{'es' * (len(one.warps) == 1)} on at {self.place(one.instruction)}{self._awaits(one)}: {one.why}{f'; overdue: {warps_named(one.overdue)}' * bool(one.overdue)}.",
                True,
            )
            for one in self.lanes.stuck
        ]
        told = [(self.sentence(*rings), self.is_over and rings[0].is_late) for rings in self.different()]
        none = "No ring of stages: no thread loads shared memory in turn through mbarriers or groups of cp.async."
        return [*stuck, *(told or [(none, False)])]

    def notes(self) -> list[Finding]:
        """P101 for each ring that works as fewer stages than it has, P103 for each wait that never waits. None of a
        launch that did not end.
        """
        if not self.is_over:
            return []
        return [*(self._held_back(ring) for ring, *_ in self.different() if ring.is_late), *self._never_waits()]

    # ---- in words

    def name(self, ring: Ring, *alike: Ring) -> str:
        """A ring by its stages and the line of its first load; with others of the same verdict, of more CTAs."""
        _, stage, does = WORDS[ring.kind]
        count, where = len(ring.stages), self.place(ring.fillings[0].instruction)
        if len({one.cta for one in self.rings}) > 1:
            ctas = sorted({self.numbers.get(one.cta, one.cta) for one in (ring, *alike)})
            where += f", {_ctas_named(ctas)}" if len(ctas) > 1 else f", CTA {ctas[0]}"
        if ring.kind == "accumulator":
            return f"ring of {count} accumulator{'s' * (count > 1)} in tensor memory, computed at {where}"
        if ring.kind == "answer":
            return f"ring of {count} answer{'s' * (count > 1)} of clusterlaunchcontrol, asked at {where}"
        return f"ring of {count} {stage}{'s' * (count > 1)}, {does}{' by cp.async' * (ring.kind == 'cp.async')} at {where}"

    def sentence(self, ring: Ring, *alike: Ring) -> str:
        """The verdict of a ring, and of others of the same verdict."""
        name, load = self.name(ring, *alike), WORDS[ring.kind][0]
        if not self.is_over:
            return f"{name}: {len(ring.fillings)} {load}s were issued before the kernel stopped; {self._left(ring)}. No verdict."
        if ring.is_late:
            return f"{name}: {' '.join(self._why(ring))}"
        if ring.kind == "accumulator":
            if ring.overlaps:
                return f"{name}: matrix instructions into one overlap the reads of another."
            return f"{name}: matrix instructions wait until the one before has been read."
        flying = f"up to {ring.steady} {load}{'s are' if ring.steady > 1 else ' is'} in flight"
        if len(ring.stages) == 1 and ring.kind == "load":
            return f"{name}: one {load} is in flight, and no load overlaps the matrix instructions of the one before."
        if ring.kind in ("cp.async", "answer"):
            return f"{name}: {flying}."
        if ring.refills <= len(ring.stages):
            return f"{name}: {flying}. No verdict: a ring needs more loads than twice its stages, and this launch has {len(ring.fillings)}."
        if any(one.readers for one in ring.fillings):
            return f"{name}: all stages work; {flying}."
        return f"{name}: {flying}. What reads the stages was not followed."

    def awaited(self, stuck: Stuck) -> Awaited | None:
        """The purpose of a wait that never ends; None if it is for no stage. A thread that loads waits for a stage to be
        free where it has passed before: another wait may be for anything.
        """
        for ring in self.rings:
            filled = [(n, one) for n, one in enumerate(ring.fillings) if one.barrier == stuck.barrier and one.barrier[1] >= 0]
            if filled:
                n, one = filled[-1]
                return Awaited(ring, ring.stages.index(one.stage), n, is_issue=False, is_next=one.is_full)
            count, stages = len(ring.fillings), len(ring.stages)
            is_issuer = stuck.instruction in self.passes and any(one.thread == stuck.thread for one in ring.fillings)
            if is_issuer and stuck.barrier is not None and count >= stages:
                return Awaited(ring, ring.stages.index(ring.fillings[count - stages].stage), count, is_issue=True, is_next=False)
        return None

    def _awaits(self, stuck: Stuck) -> str:
        found = self.awaited(stuck)
        return "" if found is None else f", before {found.doing}"

    def _left(self, ring: Ring) -> str:
        """What each stage holds at the end."""
        load, stage, _ = WORDS[ring.kind]
        last = {one.stage: (n, one) for n, one in enumerate(ring.fillings)}
        parts = []
        for k, where in enumerate(ring.stages):
            n, one = last[where]
            does = f"has been read ({load} {n})" if one.readers else f"is full ({load} {n})" if one.is_full else f"has {load} {n} under way"
            parts.append(f"{stage} {k} {does}")
        return ", ".join(parts)

    def _why(self, ring: Ring) -> list[str]:
        """Why a ring works as fewer stages than it has: sentences."""
        load, stage, _ = WORDS[ring.kind]
        count, readers = len(ring.stages), "epilogue" if ring.kind == "accumulator" else "MMAs"
        first = f"{count} {stage}s work as {ring.effective}."
        if not ring.is_held_back:
            origin, last = ring.awaited(), len(ring.fillings) - 1
            by = "" if origin is None else f", at {self.place(origin.wait)} ({shorter(origin.wait.name)})"
            return [
                first,
                f"{load.capitalize()} {last} is issued only when {load} {last - 1} is complete{by}: one {load} is in flight at a time.",
            ]
        one = ring.held[-1]
        text = f"{load.capitalize()} {one.load} into {stage} {one.stage} needs the {readers} of {load} {one.needs}, but waits for those of {load} {one.newer[-1]}"
        if one.origin is not None:
            text += f". The wait is at {self.place(one.origin.wait)}"
            if one.origin.barrier is not None:
                address = one.origin.barrier[1]
                name = self.barrier_names.get(address)
                text += f", for mbarrier {address:#x}{f' ({name})' if name else ''} phase {one.origin.phase}"
            if one.origin.arrival is not None:
                text += f". The arrival is at {self.place(one.origin.arrival)}"
            if one.origin.first is not None and one.origin.first is not one.origin.arrival:
                text += f". It comes after {shorter(one.origin.first.name)} at {self.place(one.origin.first)}"
        return [first, f"{text}. This holds for {len(ring.held)} of {ring.refills} {load}s."]

    def _held_back(self, ring: Ring) -> Finding:
        """P101, at the wait."""
        load, stage, _ = WORDS[ring.kind]
        one = ring.held[-1] if ring.is_held_back else None
        origin = ring.awaited() if one is None else one.origin
        at = ring.fillings[0].instruction if origin is None else origin.wait
        halves = [Half(load, f"the first of the ring ({shorter(ring.fillings[0].instruction.name)})", ring.fillings[0].instruction)]
        halves += (
            [Half("arrive", shorter(origin.arrival.name), origin.arrival)] if origin is not None and origin.arrival is not None else []
        )
        if origin is not None and origin.first is not None and origin.first is not origin.arrival:
            halves.append(Half("after", shorter(origin.first.name), origin.first))
        _, why = self._why(ring)
        fix = "wait for the load that is needed now, just before what reads it"
        if ring.kind == "cp.async":
            fix = f"cp.async.wait_group {len(ring.stages) - 2}, so that later groups stay in flight"
        elif one is not None and origin is not None and origin.barrier is not None:
            fix = f"wait for the release of {stage} {one.stage}, which {load} {one.load} overwrites; or release a {stage} as soon as its readers are done"
        return at_instruction(
            "P101",
            at,
            f"a ring of {len(ring.stages)} {stage}s works as {ring.effective}",
            fix,
            why=why.removesuffix("."),
            halves=tuple(halves),
        )

    def _never_waits(self) -> list[Finding]:
        """P103 for waits that pass every time by a phase that their thread has passed before."""
        return [
            at_instruction(
                "P103", i, f"a wait that never waits: {passes.again + 1} times it passed, and no phase had ended since its thread passed before",
                "wait for the parity of the phase that is to come, which flips each time; or leave the wait out",
                why="a wait for a parity passes at once while the current phase has the other parity",
            )
            for i, passes in self.passes.items()
            if not passes.fresh and passes.again + 1 >= FEWEST_PASSES
        ]  # fmt: skip


def _ctas_named(ctas: Sequence[int]) -> str:
    """CTAs in words.

    >>> _ctas_named([0, 1]), _ctas_named([0, 1, 2, 3])
    ('CTAs 0 and 1', 'CTAs 0 to 3')
    """
    if len(ctas) > 2 and ctas[-1] - ctas[0] == len(ctas) - 1:
        return f"CTAs {ctas[0]} to {ctas[-1]}"
    return f"CTAs {', '.join(map(str, ctas[:-1]))} and {ctas[-1]}"


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
