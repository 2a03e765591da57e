"""What accesses of warps cost in the banks of shared memory and in sectors, a warp a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.spec.shared_memory import BANKS

__all__ = ["LINE", "busiest_banks", "count_accesses", "different_sectors", "fewest", "load_costs", "paired_lanes"]

LINE = BANKS.count * BANKS.width  # bytes that the banks serve at once
NO_PLACE = -1
KINDS = 8  # of warps that access alike, of one instruction: so many are remembered


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
def is_moved(before, after, unit, nowhere):  # type: ignore[no-untyped-def]
    """Do 32 lanes access what those before access, a multiple of `unit` bytes further? Lanes that do not access are
    `nowhere` in both.
    """
    lead = 0
    while lead < 31 and after[lead] == nowhere:
        lead += 1
    moved = after[lead] - before[lead]
    differs = moved & (unit - 1)
    for lane in range(32):
        differs |= not is_so_far(after[lane], before[lane], moved, nowhere)
    return differs == 0


@compiled
def is_like_before(at, active, warp, unit):  # type: ignore[no-untyped-def]
    """Does a warp access what the warp before it accesses, a multiple of `unit` bytes further?"""
    return warp > 0 and active[warp] == active[warp - 1] and is_moved(at[warp - 1], at[warp], unit, NO_PLACE)


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
    """What a load or store of one warp costs: its wavefronts and those of the worst group. If lanes are paired at one
    of `distances`, two groups go together where that is less.
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
def gather(places, mask, base, first, last, nowhere, at):  # type: ignore[no-untyped-def]
    """The places of a warp from thread `base` on go to `at` (32), `nowhere` for lanes that do not access."""
    for lane in range(32):
        t = base + lane
        runs = first <= t < last and (len(mask) == 0 or mask[t])
        at[lane] = places[t] if runs else nowhere


@compiled
def warp_cost(places, base, nowhere, begin, group, distances, at, active, kept, count):  # type: ignore[no-untyped-def]
    """What a warp costs whose places are those from `base` on: wavefronts or sectors, the fewest of these, lanes, and
    the worst group. The last four are work space.
    """
    size, together, shift = group[2], group[3], group[5]
    lanes = 0
    active[0] = 0
    for lane in range(32):
        here = places[base + lane] != nowhere
        at[0, lane] = places[base + lane] + begin if here else 0
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
    places, shapes, mask, first, last, nowhere, group, begin, distances, out, count, kept, at, active, kinds, forms, then, costs, warps, own
):
    """`count_accesses` of one group. Warps that access alike cost the same: `kinds` of these are remembered, each with
    the places of its first warp, and which kind came after it. All after `out` is work space.
    """
    unit = 1 << group[5] if group[5] else 4
    forms[:], then[:], warps[:] = 0, 0, 0
    known, before, oldest = 0, 0, 0
    row = places
    is_whole = len(mask) == 0 and not (first | last) & 31
    warp, end = first >> 5, (last + 31) >> 5
    while warp < end:
        kind, base = then[before], 32 * warp
        if is_whole:
            more = alike_from(places, shapes, warp, end, kinds[kind], forms[kind, 0], forms[kind, 1], unit, nowhere)
            if more == warp:
                kind = kind_by_shape(kinds, forms, known, kind, places, shapes, warp, unit, nowhere)
                if kind >= 0:
                    more = max(
                        warp + 1, alike_from(places, shapes, warp + 1, end, kinds[kind], forms[kind, 0], forms[kind, 1], unit, nowhere)
                    )
            if more > warp:
                warps[kind] += more - warp
                then[before] = kind
                before, warp = kind, more
                continue
        else:
            gather(places, mask, base, first, last, nowhere, own)
            row, base = own, 0
            kind = kind_of(kinds, known, kind, row, base, unit, nowhere)
        if kind < 0:
            kind = known
            if known == KINDS:
                kind, oldest = oldest, (oldest + 1) % KINDS
                put_costs(out, warps[kind], costs[kind])
                warps[kind] = 0
            known = max(known, kind + 1)
            kinds[kind] = row[base : base + 32]
            forms[kind, 0], forms[kind, 1], then[kind] = shapes[2 * warp], shapes[2 * warp + 1], kind
            costs[kind] = warp_cost(row, base, nowhere, begin, group, distances, at, active, kept, count)
        then[before] = kind
        before = kind
        warps[kind] += 1
        warp += 1
    for kind in range(known):
        put_costs(out, warps[kind], costs[kind])


@compiled
def alike_from(places, shapes, warp, end, kind, lower, upper, unit, nowhere):  # type: ignore[no-untyped-def]
    """The first warp from one on that is not, by its shapes, of a kind with these. The other lanes of a group of 16
    follow from its first one.
    """
    c, d = kind[0], kind[16]
    while warp < end and lower and upper and shapes[2 * warp] == lower and shapes[2 * warp + 1] == upper:
        a, b = places[32 * warp], places[32 * warp + 16]
        moved = b - d if a == nowhere else a - c
        if moved & (unit - 1) or not is_so_far(a, c, moved, nowhere) or not is_so_far(b, d, moved, nowhere):
            break
        warp += 1
    return warp


@compiled
def kind_by_shape(kinds, forms, known, guess, places, shapes, warp, unit, nowhere):  # type: ignore[no-untyped-def]
    """The kind with the shapes of a warp, all of whose threads run, that the warp is of; a guess is tried first. -1: a
    new one.
    """
    lower, upper, base = shapes[2 * warp], shapes[2 * warp + 1], 32 * warp
    for n in range(-1, known):
        kind = guess if n < 0 else n
        if not known or n == guess or forms[kind, 0] != lower or forms[kind, 1] != upper:
            continue
        if lower and upper:
            is_found = alike_from(places, shapes, warp, warp + 1, kinds[kind], lower, upper, unit, nowhere) > warp
        else:
            is_found = is_moved(kinds[kind], places[base : base + 32], unit, nowhere)
        if is_found:
            return kind
    return -1


@compiled
def kind_of(kinds, known, guess, row, base, unit, nowhere):  # type: ignore[no-untyped-def]
    """The kind that a warp is of; a guess is tried first. -1: a new one."""
    if known and is_moved(kinds[guess], row[base : base + 32], unit, nowhere):
        return guess
    for kind in range(known):
        if kind != guess and is_moved(kinds[kind], row[base : base + 32], unit, nowhere):
            return kind
    return -1


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


@compiled(reads="places shapes mask groups begins distances")
def count_accesses(places, shapes, mask, first, last, nowhere, groups, begins, distances, out):  # type: ignore[no-untyped-def]
    """Add up what loads and stores cost, by groups that cost the same.

    `places` (rows, threads) has a place for each thread, or `nowhere`; `shapes` (rows, threads / 16) is 0, or the same
    for places that are as far from the first one of a group, if all its threads access, or none. The threads are those
    from `first` up to `last` that `mask` has (an empty one: all). `groups` (groups, 6) has the row, the distance from its
    places, the bytes of a lane, the lanes that go together, how many of `distances` count for paired lanes, and the
    shift of a sector (0: shared memory). `begins` are added to places. `out` (groups, 5) gets requests, wavefronts or
    sectors, the fewest of these, lanes, and the worst of any warp (as a maximum).
    """
    count, kept, at, active = np.zeros(32, np.int64), np.zeros((32, 32), np.int64), np.zeros((1, 32), np.int64), np.zeros(1, np.int64)
    kinds, forms, then = np.zeros((KINDS, 32), np.int64), np.zeros((KINDS, 2), np.int64), np.zeros(KINDS, np.int64)
    costs, warps, own = np.zeros((KINDS, 4), np.int64), np.zeros(KINDS, np.int64), np.zeros(32, np.int64)
    for g in range(len(groups)):
        row, apart, paired = groups[g, 0], groups[g, 1], groups[g, 4]
        count_group(
            places[row], shapes[row], mask, first, last, nowhere, groups[g], begins[g] + apart, distances[:paired], out[g],
            count, kept, at, active, kinds, forms, then, costs, warps, own,
        )  # fmt: skip
