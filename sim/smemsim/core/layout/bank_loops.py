"""The cost of accesses of warps in the banks of shared memory and in sectors, one row for each warp."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.spec.shared_memory import BANKS

__all__ = ["LINE", "WORK", "busiest_banks", "count_accesses", "different_sectors", "fewest", "load_costs", "paired_lanes"]

LINE = BANKS.count * BANKS.width  # bytes that the banks serve at once
NO_PLACE = -1
KINDS = 8  # of warps that access alike, of one instruction: so many are remembered
WORK = 32 + 3 * KINDS + 6  # rows of the work space of `count_accesses`


def fewest(lanes: Any, size: int, unit: int) -> Any:
    """How many pieces of `unit` bytes hold `size` bytes of each lane, if they lie together."""
    return -(-lanes * size // unit)


@compiled
def is_row(at, active, warp, first, together, words):  # type: ignore[no-untyped-def]
    """Do neighbours of a group lie in a row that fills every bank once, as in most accesses?"""
    mask = (1 << together) - 1
    if words * together != 32 or (active[warp] >> first) & mask != mask:
        return False
    in_row = 1
    for lane in range(first + 1, first + together):
        in_row += at[warp, lane] - at[warp, lane - 1] == 4 * words
    return in_row == together


@compiled
def is_so_far(a, b, moved, nowhere):  # type: ignore[no-untyped-def]
    """Does a lane access, with place `a`, what is `moved` bytes from `b`; or does it access nothing in both?"""
    return ((a == nowhere) == (b == nowhere)) & ((a == nowhere) | (a - b == moved))


@compiled
def is_like_before(at, active, warp, unit):  # type: ignore[no-untyped-def]
    """Does a warp access what the warp before it accesses, a multiple of `unit` bytes further?"""
    if not warp or active[warp] != active[warp - 1]:
        return False
    lead = 0
    while lead < 31 and at[warp, lead] == NO_PLACE:
        lead += 1
    moved = at[warp, lead] - at[warp - 1, lead]
    differs = moved & (unit - 1)
    for lane in range(32):
        differs |= not is_so_far(at[warp, lane], at[warp - 1, lane], moved, NO_PLACE)
    return differs == 0


@compiled
def is_put(kept, count, word, by_lane):  # type: ignore[no-untyped-def]
    """Add a word to those of its bank; unless `by_lane`, only if it is not there."""
    bank = word & 31
    n = count[bank]
    if not by_lane:
        for j in range(n):
            if kept[bank, j] == word:
                return False
    kept[bank, n] = word
    count[bank] = n + 1
    return True


@compiled
def busiest_banks(at, active, words, together, by_lane, cost, worst):  # type: ignore[no-untyped-def]
    """For byte offsets `at` (warps, 32) with masks `active`: the accesses of the busiest bank, summed over groups of
    `together` lanes, and the largest of them.

    Each lane has `words` words of 4 bytes. `by_lane`: lanes at one word count each, else once.
    """
    count = np.zeros(32, np.int64)
    kept = np.zeros((32, 32), np.int64)
    for warp in range(len(at)):
        if is_like_before(at, active, warp, 4):  # banks turn with the addresses: the cost is the same
            cost[warp] = cost[warp - 1]
            worst[warp] = worst[warp - 1]
            continue
        cost[warp], worst[warp] = busiest_of(at, active, warp, words, together, by_lane, kept, count)


@compiled
def busiest_of(at, active, warp, words, together, by_lane, kept, count):  # type: ignore[no-untyped-def]
    """The same of one warp; `kept` (32, 32) and `count` (32) are work space."""
    total = 0
    largest = 0
    for first in range(0, 32, together):
        if is_row(at, active, warp, first, together, words):
            total += 1
            largest = max(largest, 1)
            continue
        count[:] = 0
        for lane in range(first, first + together):
            if not (active[warp] >> lane) & 1:
                continue
            for k in range(words):
                is_put(kept, count, (at[warp, lane] >> 2) + k, by_lane)
        most = 0
        for bank in range(32):
            most = max(most, count[bank])
        total += most
        largest = max(largest, most)
    return total, largest


@compiled
def paired_lanes(at, active, distance, out):  # type: ignore[no-untyped-def]
    """For each warp: does every active lane have the address of lane XOR `distance`, if that one is active?"""
    for warp in range(len(at)):
        out[warp] = is_paired(at, active, warp, distance)


@compiled
def is_paired(at, active, warp, distance):  # type: ignore[no-untyped-def]
    """The same of one warp."""
    same = True
    for lane in range(32):
        other = lane ^ distance
        if (active[warp] >> lane) & 1 and (active[warp] >> other) & 1 and at[warp, lane] != at[warp, other]:
            same = False
    return same


@compiled
def different_sectors(at, active, shift, out):  # type: ignore[no-untyped-def]
    """For each warp: how many different pieces of 2^`shift` bytes its active lanes' addresses lie in."""
    kept = np.zeros(32, np.int64)
    for warp in range(len(at)):
        if is_like_before(at, active, warp, 1 << shift):
            out[warp] = out[warp - 1]
            continue
        out[warp] = pieces_of(at, active, warp, shift, kept)


@compiled
def pieces_of(at, active, warp, shift, kept):  # type: ignore[no-untyped-def]
    """The same of one warp; `kept` (32) is work space."""
    n = 0
    for lane in range(32):
        if not (active[warp] >> lane) & 1:
            continue
        piece = at[warp, lane] >> shift
        is_new = True
        for j in range(n):
            if kept[n - 1 - j] == piece:  # the latest first: neighbours mostly share one
                is_new = False
                break
        if is_new:
            kept[n] = piece
            n += 1
    return n


@compiled
def load_cost(at, active, warp, words, together, distances, kept, count):  # type: ignore[no-untyped-def]
    """The cost of a load or store of one warp: its wavefronts and those of the worst group. If lanes are paired at one
    of `distances`, two groups go together if that is less.
    """
    cost, worst = busiest_of(at, active, warp, words, together, False, kept, count)
    for distance in distances:
        if is_paired(at, active, warp, distance):
            wide, wide_worst = busiest_of(at, active, warp, words, 2 * together, False, kept, count)
            if wide < cost:
                return wide, wide_worst
            break
    return cost, worst


@compiled(reads="at active distances")
def load_costs(at, active, words, together, distances, cost, worst):  # type: ignore[no-untyped-def]
    """`load_cost` of each warp."""
    count = np.zeros(32, np.int64)
    kept = np.zeros((32, 32), np.int64)
    for warp in range(len(at)):
        if is_like_before(at, active, warp, 4):
            cost[warp] = cost[warp - 1]
            worst[warp] = worst[warp - 1]
            continue
        cost[warp], worst[warp] = load_cost(at, active, warp, words, together, distances, kept, count)


@compiled
def spread(leads, step, places, shapes, steps, size, warp, nowhere, at):  # type: ignore[no-untyped-def]
    """Write the places of a warp to `at` (32). Lanes that do not access get `nowhere`. The places of a group of 16
    follow from its first one by its shape, if that is not 0.
    """
    for group in range(2 * warp, 2 * warp + 2):
        own, shape, lead = 16 * (group - 2 * warp), shapes[group], leads[group * step]
        apart = 0 if lead == nowhere else size * steps[shape]
        for lane in range(16):
            at[own + lane] = lead + apart * lane if shape else places[16 * group + lane]


@compiled
def warp_cost(own, nowhere, begin, group, distances, at, active, kept, count):  # type: ignore[no-untyped-def]
    """The cost of a warp whose places are `own`: wavefronts or sectors, the fewest of these, lanes, and the worst
    group. The last four arguments are work space.
    """
    size, together, shift = group[2], group[3], group[5]
    lanes = 0
    active[0] = 0
    for lane in range(32):
        here = own[lane] != nowhere
        at[0, lane] = own[lane] + begin if here else 0
        active[0] |= here << lane
        lanes += here
    if not lanes:
        return 0, 0, 0, 0
    if shift:
        cost = pieces_of(at, active, 0, shift, count)
        return cost, min(cost, fewest(lanes, size, 1 << shift)), lanes, 0
    cost, worst = load_cost(at, active, 0, max(size >> 2, 1), together, distances, kept, count)
    return cost, fewest(lanes, size, LINE), lanes, worst


@compiled
def count_group(  # type: ignore[no-untyped-def]
    leads,
    step,
    places,
    shapes,
    steps,
    warp,
    end,
    nowhere,
    group,
    begin,
    distances,
    out,
    count,
    kept,
    at,
    active,
    kinds,
    forms,
    then,
    costs,
    warps,
    own,
):
    """`count_accesses` of one group, for warps from one up to another. Warps that access alike cost the same: `kinds`
    of these are remembered, each with the places of its first warp, and which kind came after it. All after `out` is
    work space.
    """
    unit = 1 << group[5] if group[5] else 4
    then[:], warps[:] = 0, 0
    known, before, oldest = 0, 0, 0
    while warp < end:
        kind, more = then[before], warp
        if known:
            more = alike_from(leads, step, places, shapes, warp, end, kinds, forms, kind, unit, nowhere)
            other = 0
            while more == warp and other < known:
                more = alike_from(leads, step, places, shapes, warp, end, kinds, forms, other, unit, nowhere)
                kind = other
                other += 1
        if more == warp:
            kind = known
            if known == KINDS:
                kind, oldest = oldest, (oldest + 1) % KINDS
                put_costs(out, warps[kind], costs[kind])
                warps[kind] = 0
            known, then[kind] = max(known, kind + 1), kind
            spread(leads, step, places, shapes, steps, group[2], warp, nowhere, own)
            cost = warp_cost(own, nowhere, begin, group, distances, at, active, kept, count)
            for k in range(4):
                costs[kind, k] = cost[k]
            put_kind(own, shapes, warp, nowhere, kinds, forms, kind)
            more = warp + 1
        warps[kind] += more - warp
        then[before] = kind
        before, warp = kind, more
    for kind in range(known):
        put_costs(out, warps[kind], costs[kind])


@compiled
def put_kind(own, shapes, warp, nowhere, kinds, forms, kind):  # type: ignore[no-untyped-def]
    """Remember a warp with these places: `kinds` gets them, `forms` its two shapes and the first lane that accesses."""
    lead = 0
    for lane in range(31, -1, -1):
        kinds[kind, lane] = own[lane]
        if own[lane] != nowhere:
            lead = lane
    forms[kind, 0], forms[kind, 1], forms[kind, 2] = shapes[2 * warp], shapes[2 * warp + 1], lead


@compiled
def alike_from(leads, step, places, shapes, warp, end, kinds, forms, kind, unit, nowhere):  # type: ignore[no-untyped-def]
    """The first warp from one on that is not of a kind: that does not access what the kind's first warp accesses, a
    multiple of `unit` bytes further.
    """
    lower, upper = forms[kind, 0], forms[kind, 1]
    if not lower or not upper:
        while warp < end and is_alike(leads, step, places, shapes, warp, kinds, forms, kind, unit, nowhere):
            warp += 1
        return warp
    c, d = kinds[kind, 0], kinds[kind, 16]  # the other lanes of a group follow from its first one
    while warp < end and shapes[2 * warp] == lower and shapes[2 * warp + 1] == upper:
        a, b = leads[2 * warp * step], leads[(2 * warp + 1) * step]
        moved = b - d if a == nowhere else a - c
        if moved & (unit - 1) or not is_so_far(a, c, moved, nowhere) or not is_so_far(b, d, moved, nowhere):
            break
        warp += 1
    return warp


@compiled
def is_alike(leads, step, places, shapes, warp, kinds, forms, kind, unit, nowhere):  # type: ignore[no-untyped-def]
    """Is a warp of a kind, of which a group has no simple shape?"""
    lead, first = forms[kind, 2], 2 * warp
    if shapes[first] != forms[kind, 0] or shapes[first + 1] != forms[kind, 1]:
        return False
    here = leads[(first + (lead >> 4)) * step] if forms[kind, lead >> 4] else places[32 * warp + lead]
    moved = here - kinds[kind, lead]
    if moved & (unit - 1):
        return False
    differs = 0
    for half in range(2):
        begin = 16 * half
        if forms[kind, half]:
            differs |= not is_so_far(leads[(first + half) * step], kinds[kind, begin], moved, nowhere)
            continue
        for lane in range(16):
            own = kinds[kind, begin + lane]
            differs |= places[32 * warp + begin + lane] ^ (nowhere if own == nowhere else own + moved)
    return differs == 0


@compiled
def put_costs(out, warps, costs):  # type: ignore[no-untyped-def]
    """Add what `warps` warps cost to the sums of a group: wavefronts or sectors, the fewest of these, lanes, and the
    worst group. A warp without a lane makes no request.
    """
    if costs[2]:
        out[0] += warps
        for k in range(3):
            out[k + 1] += warps * costs[k]
        out[4] = max(out[4], costs[3])


@compiled(reads="leads places shapes steps groups begins distances")
def count_accesses(leads, step, places, shapes, steps, first, last, nowhere, groups, begins, distances, out, work):  # type: ignore[no-untyped-def]
    """Add up what loads and stores cost, by groups that cost the same.

    The array `leads` (rows, groups of 16 threads) has the place of the first thread of each group, or `nowhere`. Only
    every `step`-th column counts. If all threads of a group access, or none, `shapes` (rows, threads / 16) says how
    many sizes the places of neighbours are apart, by `steps`. If a shape is 0, `places` (rows, threads) has a place for
    each thread, or `nowhere`. The warps are those of the threads from `first` up to `last`.

    A row of `groups` (groups, 6) has six numbers. They are the row, the distance from its places, the bytes of a lane,
    and the lanes that go together. Then follow how many of `distances` count for paired lanes, and the shift of a
    sector (0: shared memory). The numbers `begins` are added to places.

    A row of `out` (groups, 5) gets requests, wavefronts or sectors, the fewest of these, lanes, and the worst of any
    warp (as a maximum). Work space is `work` (WORK, 32), since a function that makes arrays counts references.
    """
    kept, kinds, forms, costs = work[:32], work[32 : 32 + KINDS], work[32 + KINDS : 32 + 2 * KINDS], work[32 + 2 * KINDS : 32 + 3 * KINDS]
    count, at, active, own, then, warps = work[-6], work[-5:-4], work[-4], work[-3], work[-2], work[-1]
    for g in range(len(groups)):
        row, apart, paired = groups[g, 0], groups[g, 1], groups[g, 4]
        count_group(
            leads[row], step, places[row], shapes[row], steps, first >> 5, (last + 31) >> 5, nowhere, groups[g], begins[g] + apart,
            distances[:paired], out[g], count, kept, at, active, kinds, forms, then, costs, warps, own,
        )  # fmt: skip
