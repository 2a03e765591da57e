"""What accesses of warps cost in the banks of shared memory and in sectors, a warp a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.spec.shared_memory import BANKS

__all__ = ["LINE", "busiest_banks", "count_accesses", "different_sectors", "fewest", "load_costs", "paired_lanes"]

LINE = BANKS.count * BANKS.width  # bytes that the banks serve at once


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
def is_moved(at, active, warp, unit):  # type: ignore[no-untyped-def]
    """Does a warp access what the warp before it accesses, `unit` bytes further or a multiple of them?"""
    if warp == 0 or active[warp] != active[warp - 1]:
        return False
    moved = at[warp, 0] - at[warp - 1, 0]
    if moved & (unit - 1):
        return False
    differs = 0
    for lane in range(32):
        differs |= (at[warp, lane] - at[warp - 1, lane]) ^ moved
    return differs == 0


@compiled
def is_same_move(before, after, moved):  # type: ignore[no-untyped-def]
    """Are all lanes' places so far from those of the warp before?"""
    differs = 0
    for lane in range(32):
        differs |= (after[lane] - before[lane]) ^ moved
    return differs == 0


@compiled
def are_moved(places, shapes, begin, end, unit):  # type: ignore[no-untyped-def]
    """Is it so for all whole warps from `begin` up to `end`, seen from their shapes?"""
    lower, upper = shapes[2 * begin], shapes[2 * begin + 1]
    apart = places[32 * begin + 16] - places[32 * begin]
    differs = 0
    for warp in range(begin, end):
        differs |= (shapes[2 * warp] ^ lower) | (shapes[2 * warp + 1] ^ upper)
        differs |= ((places[32 * warp] - places[32 * begin]) & (unit - 1)) | ((places[32 * warp + 16] - places[32 * warp]) ^ apart)
    return differs == 0 and lower != 0 and upper != 0


@compiled
def are_there(places, begin, end, nowhere):  # type: ignore[no-untyped-def]
    """Do all lanes of warps access, whose groups of 16 have a shape? Then the first or the last lane of a group without
    an access would be `nowhere`.
    """
    differs = 1
    for warp in range(begin, end):
        base = 32 * warp
        differs &= (
            (places[base] != nowhere) & (places[base + 15] != nowhere) & (places[base + 16] != nowhere) & (places[base + 31] != nowhere)
        )
    return differs != 0


@compiled
def is_like_before(places, shapes, warp, unit, nowhere, is_plain):  # type: ignore[no-untyped-def]
    """`is_moved` of a warp, if all lanes of the warp before access; `shapes` as `count_accesses` gets them. `is_plain`:
    all lanes of this one do, too.
    """
    base = 32 * warp
    moved = places[base] - places[base - 32]
    if moved & (unit - 1):
        return False
    lower, upper = shapes[2 * warp], shapes[2 * warp + 1]
    if lower and upper and lower == shapes[2 * warp - 2] and upper == shapes[2 * warp - 1]:
        return places[base + 16] - places[base - 16] == moved and (is_plain or are_there(places, warp, warp + 1, nowhere))
    return is_plain and is_same_move(places[base - 32 : base], places[base : base + 32], moved)


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
        if is_moved(at, active, warp, 4):  # banks turn with the addresses: the cost is the same
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
        if is_moved(at, active, warp, 1 << shift):
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
        if is_moved(at, active, warp, 4):
            cost[warp] = cost[warp - 1]
            worst[warp] = worst[warp - 1]
            continue
        cost[warp], worst[warp] = load_cost(at, active, warp, words, together, distances, kept, count)


@compiled
def gather(places, mask, base, first, last, nowhere, begin, is_plain, at):  # type: ignore[no-untyped-def]
    """The addresses of a warp from thread `base` on go to `at` (32); its active lanes, as a mask."""
    bits = 0
    if is_plain and base >= first and base + 32 <= last:
        for lane in range(32):
            at[lane] = places[base + lane] + begin
        return 0xFFFFFFFF
    for lane in range(32):
        t = base + lane
        at[lane] = 0
        if first <= t < last and (len(mask) == 0 or mask[t]) and places[t] != nowhere:
            at[lane] = places[t] + begin
            bits |= 1 << lane
    return bits


@compiled
def warp_cost(at, active, size, together, shift, distances, kept, count):  # type: ignore[no-untyped-def]
    """What the second warp of `at` (2, 32) costs: wavefronts or sectors, the fewest of these, lanes, and the worst
    group.
    """
    lanes = 0
    for lane in range(32):
        lanes += (active[1] >> lane) & 1
    if shift:
        cost = pieces_of(at, active, 1, shift, count)
        return cost, min(cost, fewest(lanes, size, 1 << shift)), lanes, 0
    cost, worst = load_cost(at, active, 1, max(size >> 2, 1), together, distances, kept, count)
    return cost, fewest(lanes, size, LINE), lanes, worst


@compiled
def count_group(places, shapes, mask, first, last, nowhere, group, begin, distances, out):  # type: ignore[no-untyped-def]
    """`count_accesses` of one group."""
    size, together, shift = group[2], group[3], group[5]
    unit = 1 << shift if shift else 4
    is_unmasked = len(mask) == 0
    is_plain = group[6] != 0 and is_unmasked
    count, kept = np.zeros(32, np.int64), np.zeros((32, 32), np.int64)
    at, active = np.zeros((2, 32), np.int64), np.zeros(2, np.int64)
    cost, ideal, lanes, worst = 0, 0, 0, 0
    warps = 0  # that cost so much and are not in `out` yet
    start, end = first >> 5, (last + 31) >> 5
    full = -1  # the last warp that counts, if all its lanes do
    is_aligned = is_unmasked and not (first | last) & 31
    if (
        is_aligned
        and end - start > 2
        and are_moved(places, shapes, start, end, unit)
        and (is_plain or are_there(places, start, end, nowhere))
    ):
        warps = end - start - 1
        start = end - 1
    for warp in range(start, end):
        if is_aligned and full >= start and full == warp - 1 and is_like_before(places, shapes, warp, unit, nowhere, is_plain):
            warps += 1
            full = warp
            continue
        active[1] = gather(places, mask, 32 * warp, first, last, nowhere, begin, is_plain, at[1])
        if active[1] == 0:
            continue
        if not is_moved(at, active, 1, unit):
            if active[0]:
                put_costs(out, warps, cost, ideal, lanes, worst)
                warps = 0
            cost, ideal, lanes, worst = warp_cost(at, active, size, together, shift, distances, kept, count)
            at[0] = at[1]
            active[0] = active[1]
        warps += 1
        full = warp if active[1] == 0xFFFFFFFF else -1
    put_costs(out, warps, cost, ideal, lanes, worst)


@compiled
def put_costs(out, warps, cost, ideal, lanes, worst):  # type: ignore[no-untyped-def]
    """Add what `warps` warps cost to the sums of a group."""
    out[0] += warps
    out[1] += warps * cost
    out[2] += warps * ideal
    out[3] += warps * lanes
    out[4] = max(out[4], worst)


@compiled(reads="places shapes mask groups begins distances")
def count_accesses(places, shapes, mask, first, last, nowhere, groups, begins, distances, out):  # type: ignore[no-untyped-def]
    """Add up what loads and stores cost, by groups that cost the same.

    `places` (rows, threads) has a place for each thread, or `nowhere`; `shapes` (rows, threads / 16) is 0, or the same
    for places that are as far from the first one of a group. The threads are those from `first` up to `last` that
    `mask` has (an empty one: all). `groups` (groups, 7) has the row, the distance from its places, the bytes of a lane,
    the lanes that go together, how many of `distances` count for paired lanes, the shift of a sector (0: shared
    memory), and whether every thread that runs accesses. `begins` are added to places. `out` (groups, 5) gets requests,
    wavefronts or sectors, the fewest of these, lanes, and the worst of any warp (as a maximum).
    """
    for g in range(len(groups)):
        row, apart, paired = groups[g, 0], groups[g, 1], groups[g, 4]
        count_group(places[row], shapes[row], mask, first, last, nowhere, groups[g], begins[g] + apart, distances[:paired], out[g])
