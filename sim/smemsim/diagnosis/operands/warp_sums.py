"""Sums of mma.sync and wmma: do their products multiply the same k of A and B?

A and B come into registers by ldmatrix, loads or shuffles. If their bytes are followed (`run/origins.py`), it is known
which elements they are. Otherwise their elements are looked for in global memory. An accumulator is followed from
instruction to instruction by its values: C of the next product is D of one before. A sum begins where C is zero. Some
warps of some CTAs are looked at.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.finding import Finding
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.diagnosis.operands.chunks import Chunks, all_chunks
from smemsim.diagnosis.operands.fragment_places import k_order, other_order, regular, told_k_order, told_order
from smemsim.diagnosis.operands.k_slices import KSlices
from smemsim.diagnosis.operands.thread_sums import Pointers, Sum, found_in
from smemsim.diagnosis.recognised import Recognised
from smemsim.run.engine.records import Mma, WarpProducts
from smemsim.run.engine.wave import WARP
from smemsim.run.followed import follows, is_again

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import GlobalMemory
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.engine.wave import Wave

__all__ = ["WarpSums"]

MOST_SUMS = 4  # of a warp that are looked at
MOST_STEPS = 1 << 12  # products of a launch that are looked at
MOST_TILES = 1 << 12  # that are kept


@dataclasses.dataclass(eq=False)
class _Going:
    """A sum that goes on. It has the last tiles of A and B, and how many elements they are after the tiles before them.
    All tiles that were looked for are in `tiles`.
    """

    sum: Sum
    last: list[tuple[Recognised, int] | None] = dataclasses.field(default_factory=lambda: [None, None])
    tiles: list[tuple[np.ndarray, Recognised]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class _Warp:
    """The sums of a warp that go on, by the values of their accumulators; `heads` are the first values of these."""

    sums: dict[bytes, _Going] = dataclasses.field(default_factory=dict)
    heads: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    begun: int = 0


class WarpSums:
    """Collects the sums of some warps. `found`: what is wrong with them, at most one finding."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.slices = KSlices()
        self._left = MOST_STEPS
        self.was_cut = self.was_again = False  # Are sources not followed after a bound, or not again?
        self.has_seen = False  # Was it known of a product what it multiplies?
        # Do all sums that are known multiply the same k and rows of A and B, or is there a finding?
        self.is_decided = True
        self._forget()

    def _forget(self) -> None:
        self._warps: dict[tuple[int, int], _Warp] = {}
        self._tiles: dict[tuple[bytes, tuple[int, ...]], Recognised | None] = {}
        self._orders: set[tuple[int, str]] = set()  # lines and operands whose order was looked at
        self._memory: GlobalMemory | None = None
        self._chunks: Chunks | None = None
        self._pointers: Pointers | None = None
        self._running: tuple[Wave, np.ndarray, list[tuple[int, int, int]]] | None = None

    def merge(self, other: WarpSums) -> None:
        """Take what another process has seen."""
        self.finish()
        self.found = self.found or other.found
        self.slices.merge(other.slices)
        self.was_cut |= other.was_cut
        self.was_again |= other.was_again
        self.has_seen |= other.has_seen
        self.is_decided &= other.is_decided

    def finish(self) -> None:
        """All sums are over."""
        for warp in self._warps.values():
            for its in warp.sums.values():
                self._close(its)
        self._forget()

    def _close(self, its: _Going) -> None:
        """Report a sum whose A and B have other k, if each of its tiles lies at one place alone."""
        if self.found:
            return
        fault = its.sum.fault()
        if fault is not None and all(self._found(tile) == at for tile, at in its.tiles):
            self.found = [found_in(fault, is_sample=True)]
        elif its.sum.of:
            self.is_decided &= its.sum.is_decided

    def multiplied(self, x: Wave, i: Instruction, products: WarpProducts) -> None:
        """Note what warps have multiplied."""
        self.slices.multiplied(x, i, products)
        if products.sources is None and not follows(x.launch):
            self.was_again = is_again(x.launch)
            self.was_cut = not self.was_again
        if self._left <= 0 or self.found:
            return
        for row, cta, thread in self._looked_at(x, products.first):
            own = self._warps.setdefault((cta, thread), _Warp())
            head = int(products.c[0, row, 0])
            if head and not own.heads[head]:
                continue
            before = products.c[:, row]
            if before.any():
                its = own.sums.pop(before.tobytes(), None)
                own.heads[head] -= its is not None
            else:
                its = self._begun(own)
            if its is None:
                continue
            self._left -= 1
            if self._left <= 0:  # how they go on is not seen: nothing is said of them
                self._warps.clear()
                self.is_decided = False
                return
            event = Mma(cta, thread, i, "mma.sync", *products.shape, None, 0, *products.types)
            after = products.d[:, row]
            if after.any() and self._add(x, its, event, self._tiles_of(x, its, products, row, i)):
                own.sums[after.tobytes()] = its
                own.heads[int(after[0, 0])] += 1
            elif its.sum.of:  # such as a tile with zeros behind the end of K: how the sum goes on is not known
                self.is_decided = False

    def _looked_at(self, x: Wave, first: np.ndarray) -> list[tuple[int, int, int]]:
        """The warps that are looked at, each as (number among the running warps, CTA, first thread). These are the
        first warp of the first CTA, the middle one of the middle CTA, and the last one of the last CTA.
        """
        if self._running is None or self._running[0] is not x or not np.array_equal(self._running[1], first):
            ctas, warps = x.launch.ctas, -(-x.launch.threads // WARP)
            wanted = {(0, 0), (ctas // 2, warps // 2), (ctas - 1, warps - 1)}
            all_ = zip(x.numbers[x.cta_of[first]].tolist(), x.tid[first].tolist(), strict=True)
            self._running = x, first.copy(), [(n, *one) for n, one in enumerate(all_) if (one[0], one[1] // WARP) in wanted]
        return self._running[2]

    @staticmethod
    def _begun(own: _Warp) -> _Going | None:
        own.begun += 1
        return _Going(Sum(is_whole=True)) if own.begun <= MOST_SUMS else None

    def _tiles_of(self, x: Wave, its: _Going, products: WarpProducts, row: int, i: Instruction) -> tuple[Recognised, Recognised] | None:
        """What A and B of a warp are; None where that is not known."""
        if self._chunks is None:
            self._memory = x.launch.memory
            self._pointers = given = Pointers(x.launch)
            self._chunks = all_chunks(region for region in self._memory.filled() if given.are_in(region.begin, region.end))
        if products.sources is not None:
            self._look_at_k(x, [products.sources(side)[row] for side in "ab"], i)
            for side in "ab":
                self._look_at_order(x, products.sources(side)[row], products.tile(side, row).itemsize, side, i)
        found: list[Recognised] = []
        for n, side in enumerate("ab"):
            tile, last = products.tile(side, row), its.last[n]
            now = None
            if products.sources is not None:
                at = products.sources(side)[row]
                now = regular(at, tile.itemsize, x.launch)
            if now is None:
                now = self._tile(tile, last)
                if now is None:
                    return None
                its.tiles.append((tile, now))
            its.last[n] = now, 0 if last is None else now.at - last[0].at
            found.append(now)
        return found[0], found[1]

    def _look_at_k(self, x: Wave, at: Sequence[np.ndarray], i: Instruction) -> None:
        """Report a product whose A has the halves of its k in another order than its B, once a line. An array may be
        stored in other orders, such as that of registers.
        """
        if self.found or (i.line, "") in self._orders:
            return
        self._orders.add((i.line, ""))
        a, b = (k_order(one) for one in at)
        if a is not None and b is not None and b == (*a[len(a) // 2 :], *a[: len(a) // 2]):
            self.found = [told_k_order(i, x.launch)]
            self.has_seen = True

    def _look_at_order(self, x: Wave, at: np.ndarray, size: int, side: str, i: Instruction) -> None:
        """Report an operand whose elements are in another order than rows and k, once a line."""
        if self.found or (i.line, side) in self._orders:
            return
        self._orders.add((i.line, side))
        order = other_order(at, size)
        if order is not None:
            self.found = [told_order(order, side, i, x.launch)]
            self.has_seen = True

    def _add(self, x: Wave, its: _Going, event: Mma, tiles: tuple[Recognised, Recognised] | None) -> bool:
        """Note a product of a sum; False where it is not known what it multiplies."""
        if tiles is None:
            return False
        assert self._pointers is not None
        its.sum.add(event, tiles, self._pointers)
        self.has_seen = True
        return True

    def _tile(self, tile: np.ndarray, last: tuple[Recognised, int] | None) -> Recognised | None:
        """The place of a tile (rows, k): as far on as the last one was, or anywhere."""
        assert self._memory is not None
        next_ = None if last is None else dataclasses.replace(last[0], at=last[0].at + last[1])
        if next_ is not None and _is_at(self._memory, tile, next_):
            return next_
        key = tile.tobytes(), tile.shape
        if key not in self._tiles:
            if len(self._tiles) >= MOST_TILES:
                self._tiles.clear()
            self._tiles[key] = self._found(tile)
        return self._tiles[key]

    def _found(self, tile: np.ndarray) -> Recognised | None:
        """The place of a tile, if the first chunks of two lines occur once in global memory, and all elements lie where
        these say.
        """
        assert self._chunks is not None
        assert self._memory is not None
        size, each = tile.itemsize, CHUNK // tile.itemsize
        for lines in (tile, tile.T):
            if lines.shape[1] < each or len(lines) < 2:
                continue
            first, second = self._chunks.places(np.ascontiguousarray(lines[:2, :each]).view(np.uint64)).tolist()
            by = (second - first) // size
            region = self._memory.holding(first, first + CHUNK) if first and second else None
            if region is None or abs(by) < lines.shape[1] or (second - first) % size:
                continue
            row, step = (by, 1) if lines is tile else (1, by)
            found = Recognised(region.begin, len(region.data) // size, size, (first - region.begin) // size, row, step)
            if _is_at(self._memory, tile, found):
                return found
        return None


def _is_at(memory: GlobalMemory, tile: np.ndarray, where: Recognised) -> bool:
    """Are all elements of a tile those of global memory there?"""
    (rows, k), size = tile.shape, where.itemsize
    if tile.itemsize != size:
        return False
    corners = [where.at + r * where.row + n * where.step for r in (0, rows - 1) for n in (0, k - 1)]
    region = memory.holding(where.begin, where.begin + 1)
    if region is None or min(corners) < 0 or max(corners) >= len(region.data) // size:
        return False
    elements = region.data[: len(region.data) // size * size].view(tile.dtype)[where.at :] if where.row >= 0 <= where.step else None
    if elements is None:
        return False
    there = np.lib.stride_tricks.as_strided(elements, tile.shape, (where.row * size, where.step * size), writeable=False)
    return bool((there == tile).all())
