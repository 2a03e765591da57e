"""One MMA of each kind whose D shows which alternative of the arithmetic holds: `python -m
smemsim.capture.blackwell.separate [KIND]`.

These are design values, computed by the model under each alternative (`smemsim.core.spec.alternatives`, rule
arithmetic.tcgen05); no card has run them. The probes are those of the suite tcgen05_dots_directed, where each stands in
a row and a column of its own.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from smemsim.capture.blackwell.builder import SCALES, DotProbe, Instruction, instructions
from smemsim.capture.blackwell.directed import directed
from smemsim.core.arithmetic.multiply import Factors, multiply
from smemsim.core.spec.alternatives import assuming, of_rule

__all__ = ["RULE", "Separation", "separations"]

RULE = "arithmetic.tcgen05"
MOST = 16  # probes of one MMA: as many as it has columns
AT_ONCE = 32  # probes that are multiplied at once: each is a row and a column, of which D's diagonal alone is wanted
AS_IT_IS = ""  # the name of the rule itself among its alternatives


@dataclasses.dataclass(frozen=True)
class Separation:
    """One MMA: probes with the same scale factors, and the results of each alternative. Integers have the same saturate
    bit.

    By the alternative's name, `results` has D's bits of every probe. The name "" is the rule as it is. Alternatives for
    which all probes of this kind give the same bits are `alike`.
    """

    instruction: Instruction
    probes: tuple[DotProbe, ...]
    results: dict[str, tuple[int, ...]]
    alike: tuple[tuple[str, ...], ...]
    saturate: bool = False

    @property
    def told(self) -> tuple[str, ...]:
        """Alternatives that this MMA distinguishes from the rule."""
        return tuple(name for name, found in self.results.items() if found != self.results[AS_IT_IS])


def _results(i: Instruction, probes: Sequence[DotProbe], saturate: bool) -> tuple[int, ...]:
    """D of each probe as the rules are now."""
    return tuple(bits for n in range(0, len(probes), AT_ONCE) for bits in _diagonal(i, probes[n : n + AT_ONCE], saturate))


def _diagonal(i: Instruction, probes: Sequence[DotProbe], saturate: bool) -> tuple[int, ...]:
    names = [name.removesuffix("x2") for name in (i.a, i.b)]
    kinds = [np.uint32 if name == "tf32" else np.uint16 if name in ("f16", "bf16") else np.uint8 for name in names]
    a, b = (np.array([[codes[side] for codes in p.codes] for p in probes]).astype(kind) for side, kind in enumerate(kinds))
    c = np.array([p.c if p.enable else 0 for p in probes]).astype(np.uint16 if i.d == "f16" else np.uint32)
    factors = None
    if i.vector:
        sides = [np.array([[p.scales[side] >> 8 * n & 0xFF for n in range(i.scales)] for p in probes], np.uint8) for side in (0, 1)]
        factors = Factors(*sides, "ue8m0" if i.ue8m0 else "ue4m3", SCALES[i.vector])
    with np.errstate(all="ignore"):
        found = multiply(
            a, b, np.broadcast_to(c, (len(c), len(c))).copy(), kind=i.kind, a_type=names[0], b_type=names[1], d_type=i.d, saturate=saturate,
            factors=factors,
        )[0]  # fmt: skip
    return tuple(int(x) for x in np.diagonal(np.atleast_2d(found)))


def _chosen(results: dict[str, tuple[int, ...]]) -> list[int]:
    """The fewest probes, taken one by one, that part the alternatives as far as all do."""
    parts, chosen = [list(results)], []
    count = len(next(iter(results.values())))
    while len(chosen) < MOST:
        best = max(range(count), key=lambda p: sum(len({results[n][p] for n in part}) for part in parts))
        finer = []
        for part in parts:
            by_result = collections.defaultdict(list)
            for name in part:
                by_result[results[name][best]].append(name)
            finer += by_result.values()
        if len(finer) == len(parts):
            break
        parts = finer
        chosen.append(best)
    return chosen


def separations(of: Iterable[Instruction] | None = None) -> list[Separation]:
    """For each instruction that the kit can issue: the MMA that distinguishes the most alternatives, then those that
    distinguish further alternatives from the rule.
    """
    found: list[Separation] = []
    for i in instructions() if of is None else of:
        every, told = _of_instruction(i), set[str]()
        while set((best := max(every, key=lambda s: (len(set(s.told) - told), len(set(s.results.values()))))).told) - told:
            found.append(best)
            told |= set(best.told)
    return found


def _of_instruction(i: Instruction) -> list[Separation]:
    """An MMA for each set of scale factors that probes have; for integers one without and one with the saturate bit."""
    probes, found = directed(i), []
    for saturate in (False, True) if i.d == "s32" else (False,):
        results = {AS_IT_IS: _results(i, probes, saturate)}
        for a in of_rule(RULE):
            with assuming(str(a)):
                results[a.name] = _results(i, probes, saturate)
        for scales in dict.fromkeys(probe.scales for probe in probes):
            found.append(_separation(i, probes, [n for n, probe in enumerate(probes) if probe.scales == scales], results, saturate))
    return found


def _separation(
    i: Instruction, probes: list[DotProbe], alike: list[int], results: dict[str, tuple[int, ...]], saturate: bool
) -> Separation:
    """Choose probes that can be in one MMA and separate the most alternatives."""
    chosen = [alike[n] for n in _chosen({name: tuple(bits[p] for p in alike) for name, bits in results.items()})]
    few = {name: tuple(bits[p] for p in chosen) for name, bits in results.items()}
    groups = collections.defaultdict(list)
    for name, bits in few.items():
        groups[bits].append(name)
    return Separation(i, tuple(probes[p] for p in chosen), few, tuple(tuple(g) for g in groups.values() if len(g) > 1), saturate)


def main(argv: Sequence[str]) -> None:
    """Print them."""
    for s in separations([i for i in instructions() if not argv or i.kind in argv]):
        i = s.instruction
        print(
            f"{i.kind}{i.vector} {i.a} x {i.b} to {i.d}{', saturate' * s.saturate}: {len(s.told)} alternatives told by {len(s.probes)} dot products of one MMA"
        )
        for n, probe in enumerate(s.probes):
            by = collections.defaultdict(list)
            for name, bits in s.results.items():
                by[bits[n]].append(name or "the rule")
            others = {bits: names for bits, names in by.items() if "the rule" not in names}
            print(
                f"  {probe.name}, c = {probe.c:#x}: {s.results[AS_IT_IS][n]:#x}; "
                + "; ".join(f"{bits:#x} {' '.join(names)}" for bits, names in others.items())
            )


if __name__ == "__main__":
    main(sys.argv[1:])
