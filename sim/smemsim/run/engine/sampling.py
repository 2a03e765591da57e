"""A part of a grid that stands for all of it (`ctas = "sample"`), and what a launch of a part cannot show.

The sample has the clusters at the first, a middle and the last place of each dimension of the grid: corners, edges,
interior. In a grid of one dimension these are its first, a middle and its last cluster, as those of a persistent
kernel. It has one more for each other outcome of the kernel's bounds tests (`behaviours.py`). Example: the edges of a
matrix whose tiles the kernel numbers in its own order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.behaviours import outcomes
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.wave import GATHERING, YIELDED, Wave
from smemsim.run.lower.cfg import hears_outside, looks_outside, loop_around

__all__ = ["Sample", "Sampled", "line_of", "sample_of", "trap_of_part", "waits_for_others"]


AXES = "xyz"
SHOWN = 12  # CTAs that a sentence names
MOST_OTHERS = 16  # clusters that are added because a bounds test has another outcome
WHOLE = 2  # a sample of more than one in so many clusters is no sample: all of them run


@dataclasses.dataclass(frozen=True)
class Sampled:
    """One cluster of a sample: its number among the clusters of the grid, the %ctaid of its first CTA, and why it was
    chosen.
    """

    cluster: int
    ctaid: tuple[int, int, int]
    why: str

    def text(self, *, is_clustered: bool) -> str:
        """The cluster and the reason, as in a list.

        >>> Sampled(0, (0, 0, 0), "corner").text(is_clustered=False)
        'CTA (0, 0, 0) corner'
        """
        return f"{'cluster of ' * is_clustered}CTA {self.ctaid} {self.why}"


@dataclasses.dataclass(frozen=True)
class Sample:
    """The clusters that stand for a grid, and why each of them was chosen."""

    chosen: tuple[Sampled, ...]
    cluster_size: int
    left: int = 0  # sets of outcomes of bounds tests that no cluster of the sample has

    @property
    def clusters(self) -> list[int]:
        """Their numbers, in order."""
        return [one.cluster for one in self.chosen]

    def text(self) -> str:
        """The sample in one sentence."""
        told = [one.text(is_clustered=self.cluster_size > 1) for one in self.chosen[:SHOWN]]
        more = f"; and {len(self.chosen) - SHOWN} more" * (len(self.chosen) > SHOWN)
        left = f"; {self.left} further combinations of outcomes of bounds tests are left out" if self.left else ""
        return f"sample: {'; '.join(told)}{more}{left}"


def sample_of(launch: Launch) -> Sample | None:
    """The sample of a launch's grid; None if that is more than half of its clusters, so that all of them run.

    Source: a rule of this simulator. Bounds tests of kernels compare %ctaid and sizes, so CTAs at the same kind of
    place mostly do the same.
    """
    counts = [g // c for g, c in zip(launch.grid, launch.cluster, strict=True)]
    places = [sorted({0, count // 2, count - 1}) for count in counts]
    chosen = []
    for z, y, x in itertools.product(places[2], places[1], places[0]):
        number = x + counts[0] * (y + counts[1] * z)
        chosen.append(Sampled(number, launch.cta(number, 0)[1], _why((x, y, z), counts)))
    if len(chosen) * WHOLE > launch.ctas // launch.cluster_size:
        return None
    others = outcomes(launch, [one.cluster for one in chosen])
    for other in others[:MOST_OTHERS]:
        more = f", as in {other.count - 1} other{'s' * (other.count > 2)}" if other.count > 1 else ""
        chosen.append(
            Sampled(other.cluster, launch.cta(other.cluster, 0)[1], f"another outcome of the test at {line_of(other.test)}{more}")
        )
    return Sample(tuple(sorted(chosen, key=lambda one: one.cluster)), launch.cluster_size, max(0, len(others) - MOST_OTHERS))


def _why(at: Sequence[int], counts: Sequence[int]) -> str:
    """The place of a cluster in the grid, in words.

    >>> _why((0, 3, 0), (8, 4, 1)), _why((4, 2, 0), (8, 4, 1)), _why((7, 2, 0), (8, 4, 1)), _why((7, 0, 0), (8, 1, 1))
    ('corner: first of x, last of y', 'interior', 'edge: last of x', 'last')
    """
    wide = [n for n in range(3) if counts[n] > 1]
    ends = [("first" if at[n] == 0 else "last", AXES[n]) for n in wide if at[n] in (0, counts[n] - 1)]
    if not ends:
        return "interior"
    if len(wide) == 1:
        return ends[0][0]
    return f"{'corner' if len(ends) == len(wide) else 'edge'}: {', '.join(f'{end} of {axis}' for end, axis in ends)}"


# ---- A launch of a part that waits for a CTA that was left out


def _looking(wave: Wave) -> Iterable[tuple[Instruction, np.ndarray]]:
    """The loads and atomics on global memory in the loops in which threads of a wave still are, with these threads."""
    running = np.flatnonzero(wave.pc < GATHERING)
    for at in np.unique(wave.pc[running]).tolist():
        block = at - YIELDED if at >= YIELDED else at
        threads = running[wave.pc[running] == at]
        for n in sorted(loop_around(wave.program, block)):
            for i in wave.program.blocks[n].instructions:
                if looks_outside(i):
                    yield i, threads


def waits_for_others(launch: Launch) -> str:
    """The CTA that a launch of a part waits for, in words, if it may have been left out. "" if it cannot, or if nothing
    was left out.
    """
    if not launch.left_out:
        return ""
    for wave in launch.waves:
        for i, threads in _looking(wave):
            cta = wave.ctas[int(wave.cta_of[threads[0]])].ctaid
            return f"CTA {cta} waits in a loop at {line_of(i)} ({i.name}) for a value in global memory; {_missing(launch, 'bring it')}"
    return ""


def trap_of_part(launch: Launch, i: Instruction) -> str:
    """Why a `trap` in a launch of a part is no finding; "" if it is one. Kernels that wait for other CTAs with a
    limit on the time trap so.
    """
    if not launch.left_out or not any(hears_outside(other) for other in launch.program.inlined.body):
        return ""
    return f"the kernel executes trap at {line_of(i)}, and reads what other CTAs write; {_missing(launch, 'be what it lacks')}"


def line_of(i: Instruction) -> str:
    """The PTX line of an instruction, and its source line if the PTX has one."""
    return f"line {i.line}" + (f" ({i.location})" if i.location is not None else "")


def _missing(launch: Launch, does: str) -> str:
    return f"{launch.left_out} CTAs were left out, and one of them may {does}: run the whole grid, or a smaller one"
