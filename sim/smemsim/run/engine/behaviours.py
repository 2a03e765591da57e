"""The results of a kernel's bounds tests for each cluster of a grid, before anything runs.

Many predicates follow from %ctaid, %tid and the parameters alone, by instructions that compute. These instructions
are executed for all clusters, and nothing else is. Clusters with the same outcomes behave alike as far as this can be
known. A test that a loop decides, or a value that is loaded, is not known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.ptx.module import Instruction, Special
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.wave import Wave
from smemsim.run.isa.registry import Plain
from smemsim.run.lower.fused import COMPUTING

__all__ = ["Outcome", "outcomes"]


MOST_CLUSTERS = 4096  # of a grid that are looked at: of a larger one as many, from both ends
MOST_THREADS = 8192  # that are computed at once
_PLACES = (
    "ctaid",
    "nctaid",
    "tid",
    "ntid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
    "cluster_ctarank",
    "cluster_nctarank",
    "laneid",
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Clusters that behave otherwise than those before: the first of them, how many there are, and the test that
    differs.
    """

    cluster: int
    count: int
    test: Instruction


def outcomes(launch: Launch, chosen: Sequence[int]) -> list[Outcome]:
    """A cluster for each set of outcomes that none of the `chosen` clusters has."""
    known = _known(launch)
    tests = [(step, i) for step, i in known if i.op == "setp"]
    if not tests:
        return []
    count = launch.ctas // launch.cluster_size
    half = MOST_CLUSTERS // 2
    clusters = list(range(count)) if count <= MOST_CLUSTERS else [*range(half), *range(count - half, count)]
    clusters = sorted({*clusters, *chosen})
    try:
        told = _told(launch, known, [i for _, i in tests], clusters)
    except SmemsimError:
        return []  # a division by zero, or memory that is not there: nothing is known
    seen = {told[clusters.index(n)].tobytes() for n in chosen}
    first: dict[bytes, list[int]] = {}
    for n, row in zip(clusters, told, strict=True):
        if (key := row.tobytes()) not in seen:
            first.setdefault(key, []).append(n)
    usual = told[clusters.index(chosen[len(chosen) // 2])]
    return [Outcome(own[0], len(own), tests[_apart(told[clusters.index(own[0])], usual)][1]) for own in first.values()]


def _apart(one: np.ndarray, other: np.ndarray) -> int:
    """The first test of which two clusters have another outcome."""
    return int(np.flatnonzero((one != other).any(axis=-1))[0])


def _known(launch: Launch) -> list[tuple[Plain, Instruction]]:
    """The steps, in order, whose results follow from places in the grid and parameters: of registers that one
    instruction alone gives a value.
    """
    program = launch.program
    writers: dict[int, int] = {}
    for i in program.inlined.body:
        for slot in i.given:
            writers[slot] = writers.get(slot, 0) + 1
    computed: set[int] = set()
    found = []
    for block in program.blocks:
        own = block.instructions[1:] if block.gate is not None else block.instructions
        for step, i in zip(block.steps, own, strict=False):
            is_pure = i.op in COMPUTING or (i.op == "ld" and "param" in i.modifiers)
            if is_pure and i.guard is None and _from_places(i) and i.used <= computed and all(writers[slot] == 1 for slot in i.given):
                computed |= i.given
                found.append((step, i))
    return found


def _from_places(i: Instruction) -> bool:
    """Are its special registers places in the grid?"""
    return all(operand.name.split(".")[0].lstrip("%") in _PLACES for operand in i.operands if isinstance(operand, Special))


def _told(launch: Launch, known: Sequence[tuple[Plain, Instruction]], tests: Sequence[Instruction], clusters: Sequence[int]) -> np.ndarray:
    """For each cluster and each test: whether some threads, and whether all threads, pass it."""
    together = max(1, MOST_THREADS // (launch.threads * launch.cluster_size))
    rows = []
    for n in range(0, len(clusters), together):
        some = clusters[n : n + together]
        wave = Wave(launch, some)
        threads = np.flatnonzero(wave.tid < launch.threads)
        wave.select(threads)
        with np.errstate(all="ignore"):
            for step, _ in known:
                step(wave)
        values = [wave.r[min(i.given)][threads].reshape(len(some), -1).astype(bool) for i in tests]
        rows.append(np.stack([np.stack([v.any(axis=1), v.all(axis=1)], axis=-1) for v in values], axis=1))
        wave.leave()
        wave.let_go()
    return np.concatenate(rows)
