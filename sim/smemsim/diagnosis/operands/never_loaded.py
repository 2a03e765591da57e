"""Parts of a tensor that no tensor load of a launch brings, if a load or a product is there that was probably meant for
them.

A launch may leave parts of a tensor unread. So an unread part alone is nothing, and all of these are remarks.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.fills import is_plain, lies_outside
from smemsim.diagnosis.operands.read import OperandRead, Product, Reach
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.operands.steps import are_whole
from smemsim.diagnosis.operands.sums import Sum, sums_of
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Bulk, Load

__all__ = ["never_loaded"]

MOST_BYTES = 1 << 28  # of an array that is looked at
Interval = tuple[int, int]  # the first index, and the one after the last


def never_loaded(reads: Reads, launch: Launch) -> list[Finding]:
    """At most one remark: T209 for a tile that lies past the end, R508 for a tile or a product that comes twice. The
    caller knows that the whole grid ran.
    """
    unread = _Unread(launch)
    of_fill = (_past_the_end(p, unread) for p in reads.products)
    of_sums = (_twice(again, unread) for again in _again(reads))
    found = itertools.chain(of_fill, of_sums, _same_part_of_k(reads, launch, unread))
    return [f for f in found if f is not None][:1]


@dataclasses.dataclass
class _Boxes:
    """The boxes of an array that are loaded: maps by their identity, and (map, coordinates). `is_plain`: are these all
    loads, each of whole elements side by side?
    """

    maps: dict[int, TensorMap]
    at: set[tuple[int, tuple[int, ...]]]
    is_plain: bool = True


class _Unread:
    """The indices of tensors that no tensor load brings. Tensors in arrays that a bulk copy reads, too, have none."""

    def __init__(self, launch: Launch) -> None:
        self.launch, self.memory = launch, launch.memory

    @functools.cached_property
    def _boxes(self) -> dict[int, _Boxes]:
        """The boxes that tensor loads bring, by array."""
        found: dict[int, _Boxes] = collections.defaultdict(lambda: _Boxes({}, set()))
        arrays: dict[int, int] = {}  # of a map by its identity
        for event in self.launch.result.events.transfers():
            if isinstance(event, Load):
                tm = event.tensor_map
                if id(tm) not in arrays:
                    arrays[id(tm)] = self._array(tm.global_address)
                own = found[arrays[id(tm)]]
                own.maps[id(tm)] = tm
                own.at.add((id(tm), event.coordinates))
                own.is_plain &= event.mode == "tile" and is_plain(tm)
            elif isinstance(event, Bulk):
                for move in event.transfers:
                    if move.src_space == "global":
                        found[self._array(move.src)].is_plain = False
        return found

    def _array(self, address: int) -> int:
        try:
            return self.memory.region(address)[0]
        except SmemsimError:
            return -1

    def along(self, tm: TensorMap, n: int) -> list[Interval]:
        """Along dimension n, the indices of which no element is loaded, if any element there is not zero."""
        boxes = self._boxes[self._array(tm.global_address)]
        if not boxes.is_plain or len({_tensor_of(one) for one in boxes.maps.values()}) != 1:
            return []
        each = ((boxes.maps[number], at) for number, at in boxes.at)
        ends = sorted((at[n], at[n] + one.box_dim[n]) for one, at in each if not lies_outside(at, one))
        found, begin = [], 0
        for first, end in [*ends, (tm.global_dim[n], 0)]:
            found.append((begin, min(first, tm.global_dim[n])))
            begin = max(begin, end)
        return [part for part in found if part[0] < part[1] and self._has_data(tm, n, part)]

    def _has_data(self, tm: TensorMap, n: int, part: Interval) -> bool:
        size, strides = tm.type_row.bits // 8, (tm.type_row.bits // 8, *tm.global_strides)
        span = sum((extent - 1) * stride for extent, stride in zip(tm.global_dim, strides, strict=True)) + size
        if span > MOST_BYTES:
            return False
        try:
            raw = self.memory.span(tm.global_address, span)
        except SmemsimError:
            return False
        shape = [extent if m != n else part[1] - part[0] for m, extent in enumerate(tm.global_dim)]
        each = np.lib.stride_tricks.as_strided(raw[part[0] * strides[n] :], (*shape[::-1], size), (*strides[::-1], 1))
        return bool(each.any())


def _tensor_of(tm: TensorMap) -> tuple[object, ...]:
    return tm.global_address, tm.global_dim, tm.global_strides, tm.type_row.bits


# ---- a tile past the end


def _past_the_end(p: Product, unread: _Unread) -> Finding | None:
    """T209 as a remark for an operand that is nothing but fill, because its tile begins past the end of its tensor,
    while a tile inside is never loaded. The other operand does not matter.

    A grid that is rounded up has tiles past the end, too. But it loads all that lies inside, unless it skips tiles on
    purpose: so nothing is certain.
    """
    for name, read in zip("AB", p.first, strict=True):
        if read is None or not read.is_plain or any(load.is_looked_up or not load.is_outside for load in read.loads):
            continue
        load, tm = read.loads[0], read.loads[0].transfer.tensor_map
        for modes, what in zip(read.modes, ("rows", "k"), strict=True):
            n = modes[0].dimension
            at, extent = load.event.coordinates[n], tm.global_dim[n]
            if at < extent:
                continue
            part = next((part for part in unread.along(tm, n) if part[1] - part[0] >= min(tm.box_dim[n], extent)), None)
            if part is not None:
                return at_instruction(
                    "T209",
                    load.event.instruction,
                    f"the tile of {name} at coordinates {list(load.event.coordinates)} is all out-of-bounds fill",
                    f"check the coordinate of dimension {n} in the load, and global_dim = {list(tm.global_dim)}; both count elements, dimension 0 first; unless a tile of fill is meant",
                    why=f"coordinate {at} of dimension {n} is outside the extent {extent} of the map, and no tensor load brings {what} {_named(part)} of {name}",
                    arrays=(tm.global_address,),
                    other=p.events[0].instruction,
                    milder=Severity.NOTE,
                )
    return None


# ---- a tile that comes twice


class _Again(NamedTuple):
    """Two sums of a CTA that multiply the same rows and k. The tiles of the operand `side` were loaded again for the
    second sum. The CTA has such sums several `times`.
    """

    sums: tuple[Sum, Sum]
    side: int
    times: int


def _again(reads: Reads) -> list[_Again]:
    """The sums that a CTA has several times."""
    alike: dict[tuple[object, ...], dict[tuple[object, ...], Sum]] = {}
    for its in sums_of(reads):
        if its.is_one_tile and not its.is_split:
            first = its.entries[0]
            k = tuple([tuple([read.at[1] for read in entry.reads]) for entry in its.entries])
            key = (first.product.cta, *((read.base, read.matrix.address) for read in first.reads), first.at(), k)
            alike.setdefault(key, {}).setdefault(first.product.accumulator, its)
    found = []
    for sums in alike.values():
        one, two = (*sums.values(), None)[:2]
        if one is None or two is None:
            continue
        again = [side for side in (0, 1) if one.entries[0].reads[side].loads[0] is not two.entries[0].reads[side].loads[0]]
        if len(again) == 1:
            found.append(_Again((one, two), again[0], len(sums)))
    return found


def _twice(again: _Again, unread: _Unread) -> Finding | None:
    """R508 as a remark for a tile of rows that is loaded and multiplied again. The rows after it are never loaded, and
    they are as many as all of these sums need.
    """
    entry = again.sums[1].entries[0]
    read, event = entry.reads[again.side], entry.product.events[0]
    n, row, rows = read.modes[0][0].dimension, read.at[0], event.rows_of("ab"[again.side])
    name, other = "AB"[again.side], "AB"[1 - again.side]
    load, wanted = read.loads[0].event, (row + rows, row + again.times * rows)
    if read.loads[0].is_looked_up or not any(a <= wanted[0] and wanted[1] <= b for a, b in unread.along(load.tensor_map, n)):
        return None
    return at_instruction(
        "R508",
        load.instruction,
        f"rows {_named((row, row + rows))} of {name} are loaded and multiplied {again.times} times, with the same rows and k of {other}",
        f"coordinate {load.coordinates[n] + rows} instead of {load.coordinates[n]} in dimension {n} of the second load, unless this is meant",
        why=f"no tensor load brings rows {_named(wanted)} of {name}",
        arrays=(load.tensor_map.global_address,),
        other=event.instruction,
        milder=Severity.NOTE,
    )


# ---- CTAs that all multiply one part of K


def _same_part_of_k(reads: Reads, launch: Launch, unread: _Unread) -> list[Finding | None]:
    """R508 as a remark if several CTAs load and multiply the same part of K, and no load brings the rest of K.

    Each of them was probably meant to have its own part. The CTAs are as many as the parts of K.
    """
    parts = [reach for reach in reads.reaches.values() if 0 < reach.a_end - reach.a_begin < reach.a.modes[1][0].extent]
    missing = any(read is None for p in reads.products for read in p.first)
    if not reads.complete or reads.missed_instructions or missing or not parts:
        return []
    groups = _alike(launch)
    counts = {len(group) for group in groups}
    if len(counts) != 1 or (count := counts.pop()) < 2:
        return []
    return [_of_reach(reads, reach, groups[0], count, unread) for reach in parts]


def _alike(launch: Launch) -> list[list[int]]:
    """The CTAs that get the same boxes in the same order, if they get any; none where it is not known who gets them."""
    size = launch.cluster_size
    if launch.ctas < 2 or launch.cluster[0] != size:
        return []
    boxes: dict[int, list[object]] = {n: [] for n in range(launch.ctas)}
    numbers: dict[TensorMap, int] = {}
    of_map: dict[int, int] = {}  # by the identity of a map
    for event in launch.result.events.transfers():
        if isinstance(event, Load):
            tm = event.tensor_map
            if id(tm) not in of_map:
                of_map[id(tm)] = numbers.setdefault(tm, len(numbers))
            for delivery in event.deliveries:
                to = event.cta - event.cta % size + delivery.cta_rank
                if to != event.cta:  # CTAs that share a tile may each multiply a part of its rows
                    return []
                boxes[to].append((of_map[id(tm)], event.coordinates, event.im2col_offsets))
    groups: dict[tuple[object, ...], list[int]] = {}
    for cta, got in boxes.items():
        if got:
            groups.setdefault(tuple(got), []).append(cta)
    return list(groups.values())


def _of_reach(reads: Reads, reach: Reach, group: list[int], count: int, unread: _Unread) -> Finding | None:
    extent, begin, end = reach.a.modes[1][0].extent, reach.a_begin, reach.a_end
    own = end - begin
    if (begin, end, extent) != (reach.b_begin, reach.b_end, reach.b.modes[1][0].extent) or not (count - 1) * own < extent <= count * own:
        return None
    rest = [part for part in ((0, begin), (end, extent)) if part[0] < part[1]]
    parts = [unread.along(read.loads[0].transfer.tensor_map, read.modes[1][0].dimension) for read in (reach.a, reach.b)]
    if not rest or parts != [rest, rest] or not are_whole(reads, reach):
        return None
    load: OperandRead = reach.a
    ctas = f"CTAs {' and '.join(map(str, group))}" if count == 2 else f"CTAs {group[0]}, {group[1]} and {count - 2} more"
    return at_instruction(
        "R508",
        load.loads[0].event.instruction,
        f"{ctas} multiply the same tiles of A and of B, k = {_named((begin, end))}",
        "let the k of the loads depend on the number of the CTA, unless these CTAs repeat the work on purpose",
        why=f"the maps have K = {extent}, and no tensor load brings k = {' and '.join(map(_named, rest))}",
        other=reach.event.instruction,
        milder=Severity.NOTE,
    )


def _named(part: Interval) -> str:
    return f"{part[0]} to {part[1] - 1}"
