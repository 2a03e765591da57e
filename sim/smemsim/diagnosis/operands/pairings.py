"""Sums that multiply one tile with several others, or k of A with other k of B: complex and split numbers.

The parts of such numbers lie next to each other along K. A tile that several parts share is loaded once.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from smemsim.diagnosis.operands.cta_traces import CtaTrace, Step
from smemsim.diagnosis.operands.places import Noted
from smemsim.diagnosis.operands.read import Issued, OperandRead, Product
from smemsim.run.engine.records import Mma

__all__ = ["SPLIT", "UNDECIDED", "Pairings", "are_exchanged", "are_terms", "is_next", "partners"]


SPLIT = "a product of one part of split numbers with all parts of others looks the same"
UNDECIDED = f"{SPLIT}, and all numbers of these parts are 0: other inputs would decide it"
MOST_TERMS = 3  # of a number that is split: its high, middle and low part


def partners(each: Iterable[tuple[Mma, OperandRead | None, OperandRead | None]]) -> list[tuple[int, int]]:
    """The first k of A and of B of instructions whose operands tensor loads brought, without sparse ones."""
    return [(a.at[1], b.at[1]) for event, a, b in each if a is not None and b is not None and not event.is_sparse]


def are_exchanged(pairs: Collection[tuple[int, int]], step: int) -> bool:
    """Do products with these k of A and B multiply each k with the one of the other operand that is a step before or
    after it, and that one with it?

    >>> are_exchanged([(0, 16), (16, 0)], 16), are_exchanged([(0, 16), (16, 32)], 16), are_exchanged([(0, 0)], 16)
    (True, False, False)
    """
    return bool(pairs) and step > 0 and all((b, a) in pairs and abs(a - b) == step for a, b in pairs)


def are_terms(pairs: Sequence[tuple[int, int]], *, fewest: int = 2) -> bool:
    """Do products with these k of A and B multiply one part of split numbers with all parts of others, each once? The
    parts lie next to each other along K, as in A_high * (B_high + B_low). A part has at least `fewest` k.

    >>> are_terms([(0, 0), (16, 16), (0, 32), (16, 48)]), are_terms([(0, 0), (16, 16), (0, 32), (16, 64)])
    (True, False)
    """
    return any(_has_all_parts(each, fewest) for each in (pairs, [(b, a) for a, b in pairs]))


def _has_all_parts(pairs: Sequence[tuple[int, int]], fewest: int) -> bool:
    k, partners = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    terms = len(pairs) // len(k)
    if len(k) < fewest or not 2 <= terms <= MOST_TERMS:
        return False
    step = partners[1] - partners[0] if len(partners) > 1 else 0
    wanted = ((k[0] + step * n, partners[0] + step * (n + len(k) * term)) for n in range(len(k)) for term in range(terms))
    return step > 0 and sorted(pairs) == sorted(wanted)


def is_next(product: Product, event: Mma, a: OperandRead | None, b: OperandRead | None) -> bool:
    """Do the k of an instruction follow those of the product's last one, in the same rows of both operands?"""
    before = product.events[-1]
    return all(
        now is None or last is None or now.at == (last.at[0], last.at[1] + before.k_of(side))
        for side, now, last in (("a", a, product.a[-1]), ("b", b, product.b[-1]))
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Use:
    """An instruction with its operands that tensor loads brought."""

    step: Step
    reads: tuple[OperandRead | None, OperandRead | None]

    def places(self) -> Iterator[tuple[int, OperandRead, int]]:
        """(side, the operand, its number of k)."""
        for side, read in enumerate(self.reads):
            if read is not None and not read.is_fill:
                yield side, read, self.step.event.k_of("ab"[side])

    @property
    def k(self) -> int | None:
        """The first k of B, or of A if B is not known."""
        known = self.reads[1] or self.reads[0]
        return None if known is None else known.at[1]

    @property
    def is_whole(self) -> bool:
        """Is each operand a part of its tiles as an instruction's grid divides them?"""
        for side, read, count in self.places():
            row, k = (at - begin for at, begin in zip(read.at, read.corner, strict=True))
            if read.share < 1 or not read.is_plain or row % self.step.event.rows_of("ab"[side]) or k % min(count, read.k_of_box):
                return False
        return True


class Pairings:
    """The sums of a CTA that multiply k of A with other k of B on purpose.

    A wrong start address also looks like this. But then a part of a tile is not read, or an operand lies across two
    tiles. So all of this must hold: each operand is a whole part of its tiles; all k of each tile are read; each tile
    of these tensors is read. Besides, the sum reads a k again with another k of the other operand, or its runs of
    successive k have two instructions or more on average. Several accumulators may also do this together, see
    `_are_all_parts`.
    """

    def __init__(self, trace: CtaTrace, read_of: Callable[[Noted], OperandRead]) -> None:
        self._free: set[int] = set()  # steps
        self._whole: set[int] = set()  # steps of a product that multiplies each k once
        sums: dict[Any, list[list[_Use]]] = {}
        used: set[int] = set()
        for step in trace.steps:
            use = _Use(step, (step.a and read_of(step.a), step.b and read_of(step.b)))
            used.update(id(load) for _, read, _ in use.places() for load in read.loads)
            of = sums.setdefault(trace.accumulator(step.event), [])
            if not of or step.event.begins:
                of.append([])
            of[-1].append(use)
        idle = {load.key_of_map for load in trace.loads.values() if id(load) not in used and not load.is_outside}
        for of in sums.values():
            uses = [use for its in of for use in its]
            if all(use.is_whole for use in uses) and self._are_read(uses, idle):
                self._free.update(use.step.number for its in of for some in self._meant(its) for use in some)
        for its in _of_same_tiles([use for of in sums.values() for each in of for use in each]):
            if len({use.k for use in its}) == len(its) and all(use.is_whole for use in its) and self._are_read(its, idle):
                self._whole.update(use.step.number for use in its)
        for parts in _of_same_rows([each for of in sums.values() for each in of]):
            its = [use for part in parts for use in part]
            if _are_all_parts(parts) and all(use.is_whole for use in its) and self._are_read(its, idle):
                self._free.update(use.step.number for use in its)

    def is_of_whole(self, step: Step) -> bool:
        """Does an instruction belong to a product that multiplies each k of A once with the same k of B, as far as both
        are known? Then its k may come in any order, and in several accumulators.
        """
        return step.number in self._whole

    def is_free(self, step: Step) -> bool:
        """Does an instruction belong to such a sum?"""
        return step.number in self._free

    @staticmethod
    def _are_read(uses: list[_Use], idle: set[Any]) -> bool:
        """Are all tiles read, and all k of each?"""
        missing: dict[int, set[int]] = {}
        for use in uses:
            for _, read, count in use.places():
                for load in read.loads:
                    if load.key_of_map in idle:
                        return False
                    first = read.corner_of(load)[1]
                    missing.setdefault(id(load), _inside(load, read)).difference_update(
                        range(read.at[1] - first, read.at[1] - first + count)
                    )
        return not any(missing.values())

    @staticmethod
    def _meant(uses: list[_Use]) -> list[list[_Use]]:
        """The instructions of a sum that read a k again with another k, by their two tensors.

        Those count, too, whose runs of successive k have two instructions or more on average. Runs of other tensors say
        nothing about them.
        """
        partners: dict[tuple[Any, ...], set[Any]] = collections.defaultdict(set)
        visits: list[tuple[Any, ...]] = []
        of_tensors: dict[tuple[Any, ...], list[_Use]] = {}
        for use in uses:
            keys = [(side, id(read.loads[0]), read.at) for side, read, _ in use.places()]
            visits.append(tuple(keys))
            for key in keys:
                partners[key].add(tuple(other for other in keys if other != key))
            of_tensors.setdefault(tuple([(side, read.base) for side, read, _ in use.places()]), []).append(use)
        if any(len(others) > 1 for others in partners.values()):
            return [uses]
        if any(visits.count(visit) > 1 for visit in set(visits) if len(visit) < 2):
            return [uses]  # of the other operand nothing is known
        return [its for its in of_tensors.values() if _has_long_runs(its) or any(_are_exchanged(its, side) for side in (0, 1))]


def _of_same_tiles(uses: list[_Use]) -> Iterable[list[_Use]]:
    """The instructions that multiply the same rows of A and B, of all accumulators, by how far their k are apart. If
    only one operand is known, its rows decide: A may be in registers, or B come by an im2col load.
    """
    found: dict[Any, list[_Use]] = collections.defaultdict(list)
    for use in uses:
        (a, b), event = use.reads, use.step.event
        known = b or a
        if known is None:
            continue
        if a is not None and b is not None:  # a sparse A has fewer k
            found[a.base, a.at[0], b.base, b.at[0], a.at[1] * event.k_of("b") - b.at[1] * event.k_of("a")].append(use)
        else:
            found[a is None, known.base, known.at[0]].append(use)
    return found.values()


def _of_same_rows(sums: list[list[_Use]]) -> Iterable[list[list[_Use]]]:
    """The instructions that multiply the same rows of A and B, a list for each sum that has some."""
    found: dict[Any, list[list[_Use]]] = collections.defaultdict(list)
    for its in sums:
        of: dict[Any, list[_Use]] = collections.defaultdict(list)
        for use in its:
            a, b = use.reads
            if a is not None and b is not None and not use.step.event.is_sparse:
                of[a.base, a.at[0], b.base, b.at[0]].append(use)
        for key, some in of.items():
            found[key].append(some)
    return found.values()


def _are_all_parts(sums: list[list[_Use]]) -> bool:
    """Do sums multiply parts of complex numbers, such as A_re * B_im in one accumulator and A_im * B_re in another one?

    Each k of A then has two partners or more, all k equally many, and so has each k of B. In a sum, k of A and B are
    equally far apart, or have long runs. Without the real part, k have one partner: the parts are exchanged.
    """
    pairs = partners((use.step.event, *use.reads) for its in sums for use in its)
    counts = [set(collections.Counter(pair[side] for pair in pairs).values()) for side in (0, 1)]
    if len(set(pairs)) < len(pairs) or any(len(each) != 1 for each in counts):
        return False
    if any(min(each) < 2 for each in counts) and not (len(sums) > 1 and are_exchanged(pairs, abs(pairs[0][0] - pairs[0][1]))):
        return False
    return all(len({a.at[1] - b.at[1] for a, b in (use.reads for use in its) if a and b}) == 1 or _has_long_runs(its) for its in sums)


def _has_long_runs(uses: list[_Use]) -> bool:
    return 2 * (1 + sum(not _follows(*pair) for pair in itertools.pairwise(uses))) <= len(uses)


def _are_exchanged(uses: list[_Use], side: int) -> bool:
    """Do all instructions follow one another if those of each pair exchange one of their operands? The real and the
    imaginary part of complex numbers do this, where they take turns along K.
    """
    if len(uses) % 2:
        return False
    others = [uses[n ^ 1].reads[side] for n in range(len(uses))]
    again = [_Use(use.step, (other, use.reads[1]) if side == 0 else (use.reads[0], other)) for use, other in zip(uses, others, strict=True)]
    return all(_follows(*pair) for pair in itertools.pairwise(again))


def _follows(one: _Use, two: _Use) -> bool:
    pairs = zip(one.reads, two.reads, "ab", strict=True)
    return all(
        before is None or now is None or now.at == (before.at[0], before.at[1] + one.step.event.k_of(side)) for before, now, side in pairs
    )


def _inside(load: Issued, read: OperandRead) -> set[int]:
    """The k of a tile that lie inside the tensor, from the tile's first one on."""
    axis = read.modes[1][0].dimension
    low, high = load.clipped[axis]
    return set(range(low, load.transfer.tensor_map.box_dim[axis] - high))
