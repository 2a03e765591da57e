"""The pipeline of a launch: how many loads its barriers allow, and which wait holds a ring of stages back.

The verdict follows from the barriers alone. Order and dependences are exact; the lengths in the picture are assumed, and nothing was measured.
"""

from __future__ import annotations

import collections
import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from smemsim.core.picture.svg import MARGIN, rect, svg
from smemsim.core.picture.svg import text as svg_text
from smemsim.core.ptx.module import Instruction
from smemsim.run.pipeline import Filling, PipelineRecorder
from smemsim.run.pipeline.recorder import READERS, Origin

__all__ = ["Pipeline", "Ring", "pipeline_svg"]

WIDTH = 110  # columns of a text
LEAST_HELD = 0.9  # the share of a ring's loads that are held back in a ring that is
SAYS = "Order and dependences are exact, lengths are assumed, nothing was measured."


@dataclasses.dataclass(frozen=True)
class Held:
    """A load that waits without need: for the matrix instructions of `newer` fillings, though it overwrites `needs`."""

    load: int
    stage: int
    needs: int
    newer: tuple[int, ...]
    origin: Origin | None


@dataclasses.dataclass(frozen=True)
class Ring:
    """Stages in shared memory that loads fill in turn.

    `fillings` are in the order of issue, `stages` the places in shared memory. `allowed` is for each filling how many loads may be in flight then; `held` are the
    loads that wait without need.
    """

    fillings: tuple[Filling, ...]
    stages: tuple[tuple[int, int], ...]
    allowed: tuple[int, ...]
    held: tuple[Held, ...]

    @property
    def depth(self) -> int:
        """How many loads may be in flight at once."""
        return max(self.allowed, default=0)

    @property
    def refills(self) -> int:
        """How many loads overwrite an earlier one."""
        return len(self.fillings) - len(self.stages)

    @property
    def effective(self) -> int:
        """As how many stages the ring works: all of them, less those that most loads keep empty without need."""
        if not self.is_held_back:
            return len(self.stages)
        common = collections.Counter(len(one.newer) for one in self.held).most_common(1)[0][0]
        return max(1, len(self.stages) - common)

    @property
    def is_held_back(self) -> bool:
        """Do nearly all loads that overwrite another one wait for a newer one's matrix instructions?"""
        return self.refills > len(self.stages) and len(self.held) >= LEAST_HELD * self.refills

    @classmethod
    def of(cls, fillings: Sequence[Filling]) -> Ring:
        """The ring that these fillings make, in the order of their issue."""
        own = sum(1 << one.number for one in fillings)
        place = {one.number: n for n, one in enumerate(fillings)}
        stages = tuple(dict.fromkeys(one.stage for one in fillings))
        allowed = tuple((one.issued & own & ~one.loads).bit_count() + 1 for one in fillings)
        held: list[Held] = []
        last: dict[tuple[int, int], Filling] = {}
        for n, one in enumerate(fillings):
            before = last.get(one.stage)
            last[one.stage] = one
            if before is None or not before.readers:
                continue
            newer = tuple(h.number for h in fillings[place[before.number] + 1 : n] if h.readers and _is_read(h, one.reads))
            if newer:
                bit = newer[-1] * READERS + (fillings[place[newer[-1]]].readers.bit_length() - 1)
                held.append(Held(n, stages.index(one.stage), place[before.number], tuple(place[h] for h in newer), one.origins.get(bit)))
        return cls(tuple(fillings), stages, allowed, tuple(held))


def _is_read(filling: Filling, reads: int) -> bool:
    """Are all matrix instructions that read a filling complete, as far as this is known?"""
    wanted = filling.readers << (filling.number * READERS)
    return bool(reads & wanted == wanted)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """The rings of a launch's first cluster. `place` says where an instruction is, in the words of a finding."""

    rings: tuple[Ring, ...]
    place: Callable[[Instruction], str]
    is_cut: bool = False
    is_over: bool = True

    @classmethod
    def of(cls, recorder: PipelineRecorder, place: Callable[[Instruction], str], *, is_over: bool = True) -> Pipeline:
        """What was recorded, by rings. `is_over`: the kernel came to its end."""
        rings: dict[Any, list[Filling]] = collections.defaultdict(list)
        for one in recorder.fillings:
            rings[one.ring].append(one)
        made = (Ring.of(one) for one in rings.values() if len(one) > 1)
        return cls(tuple(made), place, recorder.is_cut, is_over)

    def sentences(self) -> list[str]:
        """The verdict of each ring, a sentence or two."""
        return [self._sentence(ring) for ring in self.rings] or [
            "No ring of stages: no thread loads shared memory in turn through mbarriers."
        ]

    def _sentence(self, ring: Ring) -> str:
        first, stages = ring.fillings[0], len(ring.stages)
        name = f"ring of {stages} stage{'s' * (stages > 1)}, loaded at {self.place(first.instruction)}"
        if not self.is_over:
            return f"{name}: {len(ring.fillings)} loads were issued before the kernel stopped; nothing is said of its stages."
        if stages == 1:
            return f"{name}: one load is in flight, and no load overlaps the matrix instructions of the one before."
        if not ring.is_held_back:
            if any(one.readers for one in ring.fillings):
                return f"{name}: all stages work; up to {ring.depth} loads are in flight."
            return f"{name}: up to {ring.depth} loads are in flight. What reads the stages was not followed."
        one = ring.held[-1]
        found = [
            f"{name}: {stages} stages work as {ring.effective}.",
            f"Load {one.load} into stage {one.stage} needs the MMAs of load {one.needs}, and waits for those of load {one.newer[-1]}",
        ]
        if one.origin is not None:
            found[-1] += f", at {self.place(one.origin.wait)}"
            if one.origin.barrier is not None:
                found[-1] += f" by mbarrier {one.origin.barrier[1]:#x} phase {one.origin.phase}"
            if one.origin.arrival is not None:
                found[-1] += f", arrived at {self.place(one.origin.arrival)}"
            if one.origin.first is not None and one.origin.first is not one.origin.arrival:
                found[-1] += f" after {_short(one.origin.first.name)} at {self.place(one.origin.first)}"
        found[-1] += f" ({len(ring.held)} of {ring.refills} loads)."
        return " ".join(found)

    def text(self) -> str:
        """The sentences, and for each ring a picture of its stages over time, at most 110 columns wide."""
        lines = [*self.sentences(), ""]
        for ring in self.rings:
            lines += [*_drawn(ring), ""]
        if self.is_cut:
            lines.append("Later loads repeat these and were not recorded.")
        return "\n".join([*lines, SAYS])

    def as_dict(self) -> dict[str, Any]:
        """The rings as data: order, dependences and assumed times of every load."""
        return {
            "says": SAYS,
            "rings": [
                {
                    "says": self._sentence(ring), "stages": len(ring.stages), "effective": ring.effective, "in_flight": ring.depth,
                    "held_back": ring.is_held_back,
                    "loads": [
                        {
                            "load": n, "stage": ring.stages.index(one.stage), "at": self.place(one.instruction), "bytes": sum(size for _, size in one.sizes),
                            "allowed": allowed, "issue": one.at, "full": one.full, "read": max(one.read, one.full), "free": max(one.free, one.full),
                        }
                        for n, (one, allowed) in enumerate(zip(ring.fillings, ring.allowed, strict=True))
                    ],
                    "held": [{"load": h.load, "needs": h.needs, "waits_for": h.newer[-1]} for h in ring.held],
                }
                for ring in self.rings
            ],
        }  # fmt: skip


def _short(name: str) -> str:
    """An instruction's name without the words that every form of it has.

    >>> _short("wgmma.wait_group.sync.aligned")
    'wgmma.wait_group'
    """
    return name.removesuffix(".aligned").removesuffix(".sync")


def _shown(ring: Ring) -> tuple[Filling, ...]:
    """The first fillings of a ring: each stage four times."""
    return ring.fillings[: 4 * len(ring.stages) + 4]


def _intervals(one: Filling) -> tuple[float, float, float, float]:
    """When its loads are issued, when it is full, when matrix instructions read it first and when they are done."""
    read = max(one.read, one.full) if one.read >= 0 else one.full
    return one.at, one.full, read, max(one.free, read)


def _drawn(ring: Ring) -> list[str]:
    """A row for each stage: `-` loading, `=` full, `#` being read, with the number of the load."""
    shown = _shown(ring)
    scale = (WIDTH - 12) / (max(_intervals(one)[3] for one in shown) or 1.0)
    lines = []
    for number, stage in enumerate(ring.stages):
        row = [" "] * (WIDTH - 10)
        for n, one in enumerate(shown):
            if one.stage == stage:
                _draw(row, one, n, scale)
        lines.append(f"stage {number:<3} {''.join(row).rstrip()}")
    lines.append("          - load under way, = full, # read by matrix instructions; the number is that of the load")
    return lines


def _draw(row: list[str], one: Filling, n: int, scale: float) -> None:
    begin, full, read, free = (int(time * scale) for time in _intervals(one))
    for mark, a, b in (("-", begin, full), ("=", full, read), ("#", read, free)):
        for k in range(a, min(b, len(row))):
            row[k] = mark
    label = str(n)
    for k, letter in enumerate(label):
        if begin + k < len(row):
            row[begin + k] = letter


# ---- The same as SVG

ROW, TOP, LEFT, SPAN = 26, 74, 84, 900  # pixels
FILLS = (("load under way", "k1"), ("full", "k0"), ("read by matrix instructions", "k2"))


def pipeline_svg(pipeline: Pipeline) -> str:
    """A row for each stage over time, light and dark. Lengths are assumed, and the picture says so."""
    parts, y = [svg_text(MARGIN, 28, "t", "Pipeline"), svg_text(MARGIN, 49, "s", SAYS)], float(TOP)
    for ring in pipeline.rings:
        for line in textwrap.wrap(pipeline._sentence(ring), 130):
            parts.append(svg_text(MARGIN, y, "s", line))
            y += 18
        y += _rows_svg(ring, parts, y) + 12
    for n, (says, fill) in enumerate(FILLS):
        parts += [rect(MARGIN + 240 * n, y, 18, 14, f"g {fill}"), svg_text(MARGIN + 26 + 240 * n, y + 11, "s", says)]
    return svg(LEFT + SPAN + MARGIN, y + 34, parts, " ".join(pipeline.sentences()))


def _rows_svg(ring: Ring, parts: list[str], y: float) -> float:
    shown = _shown(ring)
    scale = SPAN / (max(_intervals(one)[3] for one in shown) or 1.0)
    for number, stage in enumerate(ring.stages):
        top = y + number * ROW
        parts.append(svg_text(LEFT - 8, top + 15, "s r", f"stage {number}"))
        parts.append(rect(LEFT, top, SPAN, ROW - 6, "g e"))
        for n, one in enumerate(shown):
            if one.stage == stage:
                times = _intervals(one)
                for k, (says, fill) in enumerate(FILLS):
                    width = (times[k + 1] - times[k]) * scale
                    if width > 0:
                        parts.append(rect(LEFT + times[k] * scale, top, width, ROW - 6, f"g {fill}", f"<title>load {n}: {says}</title>"))
                parts.append(svg_text(LEFT + times[0] * scale + 4, top + 14, "c n", n))
    return len(ring.stages) * ROW
