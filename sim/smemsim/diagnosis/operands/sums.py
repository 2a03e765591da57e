"""Do all products of one sum multiply the same rows of A and of B, and the same k of both? The loads that do not."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from smemsim.base.lazily import cached_property
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.ptx.module import Address, slots_in
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.operands.looked_up import MEANT, are_looked_up
from smemsim.diagnosis.operands.pairings import SPLIT, UNDECIDED, are_terms
from smemsim.diagnosis.operands.places import SURE
from smemsim.diagnosis.operands.read import OperandRead, Product
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.lower.program import Program

__all__ = ["Sum", "exchanged", "mismatches", "sums_of", "undecided"]

NAMES = ("A", "B")
FEW, SMALLER = 8, 32  # rows that are looked at; how much smaller the low parts of split numbers are
_NONE, _BOTH = (False, False), (True, True)  # of which operands the coordinates are exchanged


class _At(NamedTuple):
    """The contribution of a product to a sum: the first rows of A and B, and how much further A's k is than B's."""

    rows: tuple[int, int]
    apart: int


@dataclasses.dataclass(frozen=True, eq=False)
class _Entry:
    """A product of a sum with both operands from tensor loads. Each axis of an operand is one dimension of its map."""

    product: Product
    reads: tuple[OperandRead, OperandRead]
    scales: tuple[int, int]  # k of the sum for each k that is stored: 2 for sparse A

    @property
    def is_fill(self) -> bool:
        """Is an operand nothing but fill? Then its k says little."""
        a, b = self.reads
        return a.is_fill or b.is_fill

    @property
    def has_one_k(self) -> bool:
        """Have both tensors as many k? Else one of them may be packed, such as the blocks of a sparse matrix."""
        a, b = (read.modes[1][0].extent * scale for read, scale in zip(self.reads, self.scales, strict=True))
        return a == b

    def place(self, side: int, *, is_exchanged: bool = False) -> tuple[int, int]:
        """(row, k) of an operand's first element; if the coordinates of its load were exchanged."""
        if not is_exchanged:
            return self._places[side]
        read = self.reads[side]
        (row, k), (first, begin) = read.at, read.corner
        return row - first + begin, (k - begin + first) * self.scales[side]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """(row, k) of the first element of A and of B."""
        return [(row, k * scale) for (row, k), scale in zip((read.at for read in self.reads), self.scales, strict=True)]

    def at(self, by: tuple[bool, bool] = _NONE) -> _At:
        """Its contribution, if the coordinates of these operands were exchanged."""
        return self._at(by) if any(by) else self._as_it_is

    @cached_property
    def _as_it_is(self) -> _At:
        return self._at(_NONE)

    def _at(self, by: tuple[bool, bool]) -> _At:
        (a_row, a_k), (b_row, b_k) = (self.place(side, is_exchanged=by[side]) for side in (0, 1))
        return _At((a_row, b_row), a_k - b_k)

    def line(self, side: int) -> int:
        """The line of the load that brought an operand."""
        return self.reads[side].loads[0].event.instruction.line

    def may_be_exchanged(self, side: int) -> bool:
        """Are exchanged coordinates others, and inside of the tensor?"""
        read = self.reads[side]
        (row, k), (rows, depth) = read.corner, read.modes
        return row != k and 0 <= k < rows[0].extent and 0 <= row < depth[0].extent


def _largest(entry: _Entry, side: int, memory: GlobalMemory) -> float:
    """The largest number, whatever its sign, in the first rows of the box that brought an operand; NaN does not count.
    Infinity: the numbers are not looked at.
    """
    load = entry.reads[side].loads[0]
    tm, at = load.transfer.tensor_map, load.event.coordinates
    event = entry.product.events[0]
    kind = event.b_type if side else event.a_type
    size = element_format(kind).bits // 8
    if size not in (1, 2, 4) or len(at) != tm.rank or load.event.mode != "tile":
        return math.inf
    begin = tm.global_address + at[0] * size + sum(c * stride for c, stride in zip(at[1:], tm.global_strides, strict=True))
    most = 0.0
    for row in range(min(FEW, tm.box_dim[1] if tm.rank > 1 else 1)):
        address, count = begin + row * (tm.global_strides[0] if tm.rank > 1 else 0), tm.box_dim[0] * size
        if memory.holding(address, address + count) is None:
            return math.inf
        values = np.abs(to_float64(memory.span(address, count).view(f"u{size}"), kind))
        most = max(most, float(np.fmax.reduce(values, initial=0.0, axis=None)))
    return most


@dataclasses.dataclass(eq=False)
class Sum:
    """Products that add up.

    The products that read each load are counted in `uses`. The maps with a tile that no product reads are `idle`. If
    `has_planes` is set, other planes of the same tensors are added, too. If `has_other_rows` is set, other rows of
    other tensors are added. If `is_split` is set, each product begins its own sum, and other instructions add these up
    (two-level accumulation).
    """

    entries: list[_Entry]
    uses: collections.Counter[int]
    idle: set[tuple[str, int]]
    has_planes: bool = False
    has_other_rows: bool = False
    is_split: bool = False

    @property
    def is_one_tile(self) -> bool:
        """Do all products multiply the same rows, and k of A and B that are as far apart?"""
        return len({entry.at() for entry in self.entries}) == 1

    def most(self) -> _At | None:
        """The place that more than half of the products have. In split sums three quarters must have it, since heads
        may go on along k, too.
        """
        solid = [entry.at() for entry in self.entries if not entry.is_fill]
        if not solid:
            return None
        at, count = collections.Counter(solid).most_common(1)[0]
        return at if count >= 2 and (4 * count >= 3 * len(solid) if self.is_split else 2 * count > len(solid)) else None

    @property
    def pairs_other_k(self) -> bool:
        """May the products multiply different k on purpose?

        Complex or split numbers do that if their parts are next to each other along k. Each k then occurs as often in
        A as in B. Either some k occur several times, as one wrong stage never makes those of both operands. Or each k
        occurs once, and A and B never have the same one. In the second case a wrong stage must not explain it: the
        loads are issued in the order of the products, or several products read each load. A tile that was loaded once
        for several products is also meant, if all tiles are read and A has the same k as B. So is a circular
        convolution of tiles, if the loads are issued for it.
        """
        pairs = [(entry.place(0)[1], entry.place(1)[1]) for entry in self.entries]
        is_reused = any(entry.product.pairs_freely for entry in self.entries) or self.has_shared_tile
        if is_reused and {pair[0] for pair in pairs} == {pair[1] for pair in pairs}:
            return True
        k = [collections.Counter(pair[side] for pair in pairs) for side in (0, 1)]
        if k[0] != k[1] or len(set(pairs)) < len(pairs):
            return False
        if len(k[0]) < len(pairs):
            return True
        loads = [[entry.reads[side].loads[0] for entry in self.entries] for side in (0, 1)]
        is_issued_so = all(one.number < two.number for side in loads for one, two in itertools.pairwise(side))
        if any(a == b for a, b in pairs):
            return is_issued_so and _is_convolution(pairs)
        return is_issued_so or all(self.uses[id(load)] > 1 for side in loads for load in side)

    def split(self, memory: GlobalMemory) -> str:
        """Why it may multiply one part of split numbers, which is loaded once, with all parts of others: the parts
        after the first one are small. Numbers that are all 0 leave it open. "": it may not.
        """
        pairs = [(entry.place(0)[1], entry.place(1)[1]) for entry in self.entries]
        if not (self.has_shared_tile and are_terms(pairs, fewest=1)):
            return ""
        counts = [len({pair[side] for pair in pairs}) for side in (0, 1)]
        side = int(counts[1] > counts[0])
        first = sorted({pair[side] for pair in pairs})[: counts[1 - side]]
        of_first, of_others = 0.0, 0.0
        for entry, pair in zip(self.entries, pairs, strict=True):
            most = _largest(entry, side, memory)
            if pair[side] in first:
                of_first = max(of_first, most)
            else:
                of_others = max(of_others, most)
        if not of_first and not of_others:
            return UNDECIDED
        return SPLIT if SMALLER * of_others <= of_first else ""

    @property
    def has_shared_tile(self) -> bool:
        """Was a tile loaded once, and multiplied with several tiles of the other operand?"""
        if any(read.loads[0].key_of_map in self.idle for entry in self.entries for read in entry.reads):
            return False
        partners: dict[tuple[int, int], set[tuple[int, int]]] = collections.defaultdict(set)
        for entry in self.entries:
            for side in (0, 1):
                partners[side, id(entry.reads[side].loads[0])].add(entry.place(1 - side))
        return any(len(others) > 1 for others in partners.values())

    def wanted(self) -> _At | None:
        """The coordinates that the products should have: the same k of A and B, if one product has that with most
        products' rows; else those of most products.
        """
        most = self.most()
        if most is not None and not self.is_split and any(e.at() == most._replace(apart=0) and not e.is_fill for e in self.entries):
            return most._replace(apart=0)
        return most


def _is_convolution(pairs: list[tuple[int, int]]) -> bool:
    """Are these (k of A, k of B) those of a circular convolution of 4 tiles or more, as products of block-circulant
    matrices have them? The two k add up to one number, modulo all of K.
    """
    if len(pairs) < 4:
        return False
    ordered = sorted(a for a, _ in pairs)
    step, count = ordered[1] - ordered[0], len(ordered)
    is_whole = step > 0 and ordered == list(range(ordered[0], ordered[0] + step * count, step))
    return is_whole and len({(a + b) % (step * count) for a, b in pairs}) == 1


def _entry(p: Product) -> _Entry | None:
    """A product of two operands that tensor loads brought, each of one plane; None for others."""
    a, b = p.first
    if a is None or b is None:
        return None
    if not (a.is_plain and b.is_plain) or min(a.share, b.share) < SURE:
        return None
    return _Entry(p, (a, b), (2 if p.events[0].is_sparse else 1, 1))


def sums_of(reads: Reads) -> list[Sum]:
    """The sums of the kept pieces: products of the same two matrices on one accumulator."""
    products = reads.products
    if reads.sums is None:
        reads.sums = _sums(reads, products)
    return reads.sums


def _sums(reads: Reads, products: list[Product]) -> list[Sum]:
    sums: list[Sum] = []
    uses = collections.Counter[int]({id(load): 0 for load in reads.loads})
    idle = set[tuple[str, int]]()
    running: dict[tuple[object, ...], dict[tuple[int, ...], Sum]] = {}
    for p in products:
        uses.update({id(load) for read in p.reads for load in read.loads})
        entry = _entry(p)
        if entry is None:
            running.pop(p.accumulator, None)
            continue
        if p.events[0].begins:
            running.pop(p.accumulator, None)
        of = running.setdefault(p.accumulator, {})
        matrices = tuple(x for read in entry.reads for x in (read.base, read.matrix.address, read.along_k))
        if matrices not in of:
            bases = [read.base for read in entry.reads]
            has_planes = any([read.base for read in its.entries[0].reads] == bases for its in of.values())
            has_other_rows = any(its.entries[0].at().rows != entry.at().rows for its in of.values())
            sums.append(of.setdefault(matrices, Sum([], uses, idle, has_planes, has_other_rows)))
        of[matrices].entries.append(entry)
    idle.update(load.key_of_map for load in reads.loads if not uses[id(load)] and not load.is_outside)
    return _joined(sums)


def _joined(sums: list[Sum]) -> list[Sum]:
    """The sums; those of one product each that go on along K on one accumulator are one."""
    found: list[Sum] = []
    last: dict[tuple[object, ...], Sum] = {}
    for its in sums:
        first = its.entries[0]
        key = (*first.product.accumulator, *(read.base for read in first.reads))
        before = last.get(key)
        if len(its.entries) > 1:
            last.pop(key, None)
        elif before is not None and _goes_on(before.entries[-1], first):
            before.entries.append(first)
            before.is_split = True
            before.has_planes |= its.has_planes
            continue
        else:
            last[key] = its
        found.append(its)
    return found


def _goes_on(before: _Entry, now: _Entry) -> bool:
    """Has a product further k than the one before, of the same rows of one operand?"""
    places = [(before.place(side), now.place(side)) for side in (0, 1)]
    return any(k < new_k for (_, k), (_, new_k) in places) and any(row == new_row for (row, _), (new_row, _) in places)


# ---- Coordinates of row and k that are exchanged


def exchanged(reads: Reads) -> list[Finding]:
    """R508 for loads whose coordinates of row and k are exchanged, one for each load and operand.

    It is certain if all of this holds. The products of a sum do not multiply the same rows and k. With the
    coordinates of some loads exchanged, they do, and every k once. Both tensors have as many k. If all loads of an
    operand are exchanged, the instructions step along k within a tile (with the wrong major-ness they do not).
    """
    explained = []
    right: set[int] = set()  # loads that another sum reads at their own coordinates: the wrong stage is read here
    for its in sums_of(reads):
        changes = _exchanges(its)
        explained.append((its.entries, changes))
        for entry, by in zip(its.entries, changes or [_NONE] * len(its.entries) * its.is_one_tile, strict=False):
            right |= {id(load) for side in (0, 1) if not by[side] for load in entry.reads[side].loads}
    findings: dict[tuple[int, int], Finding] = {}
    for entries, changes in explained:
        wrong = [(entry, side) for entry, by in zip(entries, changes, strict=False) for side in (0, 1) if by[side]]
        if any(id(load) in right for entry, side in wrong for load in entry.reads[side].loads):
            continue
        for entry, side in wrong:
            findings.setdefault((side, entry.line(side)), _found_exchanged(entry, side, changes))
    return list(findings.values())


def _exchanges(its: Sum) -> list[tuple[bool, bool]]:
    """The operands of each product whose coordinates are exchanged; empty if that does not explain the products."""
    entries = its.entries
    if its.is_split and its.most() is None:
        return []
    if len(entries) < 2 or len({entry.at() for entry in entries}) == 1 or not all(entry.has_one_k for entry in entries):
        return []
    ways = [_ways(entry) for entry in entries]
    found = []
    for wanted in dict.fromkeys(ways[0]):
        if all(wanted in some for some in ways):
            found.append((wanted, [some[wanted] for some in ways]))
    certain = [(sum(map(sum, by)), wanted.apart != 0, by) for wanted, by in found if _is_certain(entries, wanted, by)]
    return min(certain, key=lambda one: one[:2])[2] if certain else []


def _ways(entry: _Entry) -> dict[_At, tuple[bool, bool]]:
    """The terms that a product may be meant to add, with the fewest operands that are exchanged for it."""
    ways: dict[_At, tuple[bool, bool]] = {}
    for by in (_NONE, (True, False), (False, True), _BOTH):
        if all(entry.may_be_exchanged(side) for side in (0, 1) if by[side]):
            ways.setdefault(entry.at(by), by)
    return ways


def _is_certain(entries: list[_Entry], wanted: _At, by: list[tuple[bool, bool]]) -> bool:
    """Can nothing else be meant than products with these coordinates exchanged?"""
    k = [entry.place(1, is_exchanged=own[1])[1] for entry, own in zip(entries, by, strict=True)]
    right = by.count(_NONE)
    if len(set(k)) < len(k) or (wanted.apart and 2 * right <= len(by)):
        return False
    whole = [side for side in (0, 1) if all(own[side] or not entry.may_be_exchanged(side) for entry, own in zip(entries, by, strict=True))]
    if whole and not all(_steps_along_k(entry.product) for entry in entries):
        return False
    if len(whole) < 2 or _BOTH not in by:
        return True
    # Products of several matrices that lie below each other add up, too: one k, and rows that go on by whole tiles.
    steps = {abs(new - old) for old, new in itertools.pairwise(k)}
    rows = max(read.loads[0].transfer.tensor_map.box_dim[read.modes[0][0].dimension] for read in entries[0].reads)
    return min(steps) < rows or any(entry.at().apart for entry in entries)


def _steps_along_k(p: Product) -> bool:
    """Do the instructions of a product go on along the k of both tiles?"""
    steps = [(one, two, event.k) for side in (p.a, p.b) for one, two, event in zip(side, side[1:], p.events, strict=False)]
    return bool(steps) and all(
        one is None or two is None or (two.at[0] == one.at[0] and two.at[1] == one.at[1] + k) for one, two, k in steps
    )  # fmt: skip


def _found_exchanged(entry: _Entry, side: int, changes: list[tuple[bool, bool]]) -> Finding:
    name, other, wrong = NAMES[side], entry.reads[1 - side], entry.reads[side]
    load, at = wrong.loads[0], wrong.loads[0].event.coordinates
    names = "{k, row}" if wrong.along_k else "{row, k}"
    row, k = wrong.corner
    exchanged_at = list(at)
    dimensions = [modes[0].dimension for modes in wrong.modes]
    exchanged_at[dimensions[0]], exchanged_at[dimensions[1]] = at[dimensions[1]], at[dimensions[0]]
    why = f"the other products of this sum multiply rows from {k} on of {name}, and {NAMES[1 - side]} has k = {other.corner[1]} here"
    if all(by[side] for by in changes):
        why = f"in this sum the rows of {name} advance and its k stays {k}"
        why += "" if changes[0][1 - side] else f"; the k of {NAMES[1 - side]} advances ({other.corner[1]} here)"
    return at_instruction(
        "R508",
        load.event.instruction,
        f"the coordinates {list(at)} of {name}'s tile are swapped: k = {k}, rows from {row} on",
        f"coordinates {names}, dimension 0 (the contiguous one) first: {exchanged_at} here",
        why=why,
        kind=f"coordinates of {name}",
    )


# ---- Another k, or other rows


def mismatches(reads: Reads, program: Program, memory: GlobalMemory) -> list[Finding]:
    """R508 for loads that bring another k of one operand than of the other, or other rows than the rest of the sum.
    Another k is a remark if the kernel looks up the k of a load in memory, or if the numbers may be split.

    Rows that differ are certain if two things hold. Most products of the sum have the same rows. At the same place of
    another sum of the launch, the difference is another one. Else they may be meant: channels that are shifted in
    time, or rows that a table lists for each k. These are remarks.
    """
    sums = [its for its in sums_of(reads) if its.entries[0].has_one_k and not its.pairs_other_k]
    findings: dict[tuple[int, int], Finding] = {}
    for its in sums:
        wanted = its.wanted()
        odd = list(_parting(its) if wanted is None else _other_k(its, wanted))
        split = its.split(memory) if odd else ""
        for entry, side in odd:
            why = split or (MEANT if _is_looked_up(entry, program) else "")
            findings.setdefault((side, entry.line(side)), _found_k(entry, side, wanted, meant=why))
        if wanted is None and findings:
            break
    if not findings:
        rows = _Rows(sums)
        for its in sums:
            for entry, side, other in rows.odd(its):
                does_vary, has_most = rows.vary(its, entry, side), its.most() is not None
                if does_vary or has_most:
                    found = _found_rows(entry, side, other, is_sure=does_vary and has_most)
                    findings.setdefault((side, entry.line(side)), found)
    sure = [f for f in findings.values() if f.severity is not Severity.NOTE]
    return sure or list(findings.values())


def _other_k(its: Sum, wanted: _At) -> Iterator[tuple[_Entry, int]]:
    """The products in which the k of A and B are not as far apart as in the others; with the operand."""
    for n, entry in enumerate(its.entries):
        at = entry.at()
        others = [side for side in (0, 1) if at.rows[side] != wanted.rows[side]]
        if at.apart != wanted.apart and not entry.is_fill and len(others) < 2:
            yield entry, others[0] if others else _wrong_side(its.entries, n)


def _wrong_side(entries: list[_Entry], n: int) -> int:
    """The operand with a k that another product has, too, or that advances less evenly; else the one that advances
    less.
    """
    k = [[entry.place(side)[1] for entry in entries] for side in (0, 1)]
    twice = [k[side].count(k[side][n]) > 1 for side in (0, 1)]
    if twice[0] != twice[1]:
        return twice.index(True)
    uneven = [len({new - old for old, new in itertools.pairwise(of)}) for of in k]
    if uneven[0] != uneven[1]:
        return uneven.index(max(uneven))
    before = n - 1 if n else 1
    return 0 if abs(k[0][n] - k[0][before]) < abs(k[1][n] - k[1][before]) else 1


def _parting(its: Sum) -> Iterator[tuple[_Entry, int]]:
    """The first product in which the k of A and of B part, of the same rows as the one before."""
    for n, (before, now) in enumerate(itertools.pairwise(() if its.is_split else its.entries), 1):
        if before.at().rows != now.at().rows or before.is_fill or now.is_fill:
            continue
        a, b = (now.place(side)[1] - before.place(side)[1] for side in (0, 1))
        if a != b:
            yield now, _wrong_side(its.entries, n)
            return


class _Rows:
    """The rows of one operand that differ within sums, while both operands have the same k."""

    def __init__(self, sums: list[Sum]) -> None:
        self.rows: dict[tuple[int, int], set[int]] = {}  # that a load brings: by operand and line
        self.moved: dict[tuple[int, int, int, int], set[int]] = {}  # how far from those of the sum, see `_key`
        for its in sums:
            base = self._base(its)
            if any(entry.is_fill for entry in its.entries):
                continue
            for entry in its.entries:
                for side in (0, 1):
                    row = entry.place(side)[0]
                    self.rows.setdefault((side, entry.line(side)), set()).add(row)
                    self.moved.setdefault(self._key(its, entry, side), set()).add(row - base.rows[side])

    @staticmethod
    def _base(its: Sum) -> _At:
        return its.most() or its.entries[-1].at()

    @staticmethod
    def _key(its: Sum, entry: _Entry, side: int) -> tuple[int, int, int, int]:
        """Operand, line, the place in the sum, and the sum's length."""
        return side, entry.line(side), its.entries.index(entry), len(its.entries)

    def odd(self, its: Sum) -> Iterator[tuple[_Entry, int, _Entry]]:
        """The products with other rows of an operand than the sum's, the operand, and a product with the sum's rows.

        A load that always brings the same rows is the wrong one if those of the other load vary.
        """
        base, k = self._base(its), [entry.place(1)[1] for entry in its.entries]
        others = next(entry for entry in its.entries if entry.at() == base)
        is_certain = not its.is_split and len(set(k)) == len(k) and not any(entry.is_fill for entry in its.entries)
        if not is_certain or len({entry.at().apart for entry in its.entries}) > 1:
            return
        for entry in its.entries:
            sides = [side for side in (0, 1) if entry.at().rows[side] != base.rows[side]]
            if len(sides) == 1 and not entry.is_fill:
                own, usual = (len(self.rows[sides[0], one.line(sides[0])]) for one in (entry, others))
                yield (others, sides[0], entry) if own > usual == 1 else (entry, sides[0], others)

    def vary(self, its: Sum, entry: _Entry, side: int) -> bool:
        """Is the difference another one in other sums of the launch?"""
        return any(len(self.moved.get(self._key(its, one, side), ())) > 1 for one in its.entries)


def _is_looked_up(entry: _Entry, program: Program) -> bool:
    """Does the kernel look up the k of a load of this product in memory?"""
    for read in entry.reads:
        i, dimension = read.loads[0].event.instruction, read.modes[1][0].dimension
        for operand in i.operands:
            at = operand.coordinates if isinstance(operand, Address) else None
            if at is not None and dimension < len(at) and are_looked_up(program, slots_in(at[dimension])):
                return True
    return False


def _found_k(entry: _Entry, side: int, most: _At | None, *, meant: str) -> Finding:
    name, wrong, other = NAMES[side], entry.reads[side], entry.reads[1 - side]
    k = [read.at[1] for read in entry.reads]
    if most is None:
        why = "A and B advance by different steps of k in this sum"
    elif most.apart:
        why = f"in the other products of this sum the k of A is {most.apart} from that of B"
    else:
        why = "the other products of this sum multiply the same k of both"
    return at_instruction(
        "R508",
        wrong.loads[0].event.instruction,
        f"the product at {entry.product.events[0].instruction.at} multiplies k = {k[0]} of A with k = {k[1]} of B",
        f"load {name} at k = {_k_wanted(entry, side, most)}, or read it from the stage that holds that k",
        why=f"{why}; the coordinates are {list(wrong.loads[0].event.coordinates)} for {name}, {list(other.loads[0].event.coordinates)} for {NAMES[1 - side]}"
        + f"; {meant}" * bool(meant),
        milder=Severity.NOTE if meant else None,
        kind=f"k of {name}",
    )


def _k_wanted(entry: _Entry, side: int, most: _At | None) -> int:
    """The k that an operand should have, in its own elements."""
    apart = 0 if most is None else most.apart
    k = entry.place(1 - side)[1] + (apart if side == 0 else -apart)
    return k // entry.scales[side]


def _found_rows(entry: _Entry, side: int, other: _Entry, *, is_sure: bool) -> Finding:
    name, wrong = NAMES[side], entry.reads[side]
    load = wrong.loads[0].event
    (row, k), (others_row, others_k) = entry.reads[side].at, other.reads[side].at
    meant = list(load.coordinates)
    meant[wrong.modes[0][0].dimension] += others_row - row
    return at_instruction(
        "R508",
        load.instruction,
        f"the sum at {entry.product.events[0].instruction.at} multiplies {name}'s rows from {row} on at k = {k}, and from {others_row} on at k = {others_k}",
        f"coordinates {meant} instead of {list(load.coordinates)}{'' if is_sure else ', unless shifted rows are meant'}",
        why=f"a sum is one tile of D: it has the same rows of {name} at every k",
        milder=None if is_sure else Severity.NOTE,
        kind=f"rows of {name}",
    )


# ---- What is not decided


def undecided(reads: Reads) -> bool:
    """Is there a sum of products of two operands from tensor loads of which nothing shows
    whether both have the same k?
    """
    for its in sums_of(reads):
        first = its.entries[0]
        if not first.has_one_k or its.has_planes or its.has_other_rows or its.pairs_other_k or (its.is_one_tile and first.at().apart):
            return True
        if not its.is_one_tile and its.most() is None and not _exchanges(its) and not any(_parting(its)):
            return True
    running: set[tuple[object, ...]] = set()
    for p in reads.products:
        if any(read is not None and not read.is_plain for read in p.first):
            if p.accumulator in running and not p.events[0].begins:
                return True
            running.add(p.accumulator)
    return False
