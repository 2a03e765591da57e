"""What accesses of warps cost in the banks of shared memory and in sectors, a warp a row."""

from __future__ import annotations

import numpy as np

from smemsim.base.compiling.loop import compiled

__all__ = ["busiest_banks", "different_sectors", "paired_lanes"]


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
        cost[warp] = total
        worst[warp] = largest


@compiled
def paired_lanes(at, active, distance, out):  # type: ignore[no-untyped-def]
    """For each warp: does every active lane have the address of lane XOR `distance`, if that one is active?"""
    for warp in range(len(at)):
        same = True
        for lane in range(32):
            other = lane ^ distance
            if (active[warp] >> lane) & 1 and (active[warp] >> other) & 1 and at[warp, lane] != at[warp, other]:
                same = False
        out[warp] = same


@compiled
def different_sectors(at, active, shift, out):  # type: ignore[no-untyped-def]
    """For each warp: how many different pieces of 2^`shift` bytes its active lanes' addresses lie in."""
    kept = np.zeros(32, np.int64)
    for warp in range(len(at)):
        if is_moved(at, active, warp, 1 << shift):
            out[warp] = out[warp - 1]
            continue
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
        out[warp] = n
