"""The k of all mma.sync of a launch whose operands are followed: slices of a split K that overlap, while other k are
left out.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.fragment_places import regular
from smemsim.diagnosis.operands.thread_sums import Pointers, place
from smemsim.run.followed import follows

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.records import WarpProducts
    from smemsim.run.engine.wave import Wave

__all__ = ["KSlices"]

MOST = 1 << 14  # different products
# (line, bytes of an element, K of the instruction, begins of A and B, and of each the bytes to the next row and k)
_Key: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]


class KSlices:
    """Counts what warps multiply, as long as it is known of all of them."""

    def __init__(self) -> None:
        self._counts: collections.Counter[_Key] = collections.Counter()
        self._lines: dict[int, Instruction] = {}
        self._is_known = True

    def merge(self, other: KSlices) -> None:
        """Take what another process has counted."""
        self._counts.update(other._counts)
        self._lines |= other._lines
        self._is_known &= other._is_known

    def multiplied(self, x: Wave, i: Instruction, products: WarpProducts) -> None:
        """Count what warps multiply."""
        if not self._is_known:
            return
        self._is_known = products.sources is not None and follows(x.launch) and len(self._counts) < MOST
        if not self._is_known or products.sources is None:
            self._counts.clear()
            return
        self._lines[i.line] = i
        of: list[np.ndarray] = []
        for side in "ab":
            at = products.sources(side)
            row, step = at[:, 1, 0] - at[:, 0, 0], at[:, 0, 1] - at[:, 0, 0]
            rows, k = at.shape[1:]
            even = at[:, :1, :1] + np.arange(rows)[:, None] * row[:, None, None] + np.arange(k) * step[:, None, None]
            if (at < 0).any() or (at != even).any():
                self._is_known = False
                self._counts.clear()
                return
            of += [at[:, 0, 0], row, step]
        size = products.tile("a", 0).itemsize
        begin = i.line, size, products.shape[2]
        self._counts.update([(*begin, *key) for key in np.stack(of, axis=1).tolist()])

    def found(self, launch: Launch) -> list[Finding]:
        """R508 as a remark if each row of D has the products of some k several times, of others once, and of others
        never.
        """
        if not self._is_known or not self._counts:
            return []
        pointers = Pointers(launch)
        groups: dict[object, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        extents: set[int] = set()

        @functools.cache
        def placed(begin: int, row: int, step: int, size: int) -> tuple[Any, tuple[int, int], int] | None:
            tile = regular(_corner(begin, row, step, size), size, launch)
            return None if tile is None else (*place(tile, pointers), tile.extent)

        for (_, size, _, *at), count in self._counts.items():
            a, b = placed(*at[:3], size), placed(*at[3:], size)
            if a is None or b is None:
                return []
            (of_a, at_a, extent), (of_b, at_b, other) = a, b
            if at_a[1] != at_b[1]:
                return []
            extents |= {extent, other}
            groups[of_a, of_b, at_a[0], at_b[0]][at_a[1]] += count
        every, (line, _, width, *_) = list(groups.values()), next(iter(self._counts))
        if len(extents) != 1 or any(one != every[0] for one in every) or len({key[2] for key in self._counts}) > 1:
            return []
        return _told(every[0], extents.pop(), width, self._lines[line], lambda k: self._have_numbers(k, launch, every[0]))

    def _have_numbers(self, k: np.ndarray, launch: Launch, counts: collections.Counter[int]) -> bool:
        """Have the rows of A and of B of the first product numbers at these k, and not only zeros?"""
        (_, size, _, *at), first = next(iter(self._counts)), next(iter(counts))
        for begin, _, step in (at[:3], at[3:]):
            held = [launch.memory.holding(one, one + size) for one in (begin + step * (k - first)).tolist()]
            places = zip(held, (begin + step * (k - first)).tolist(), strict=True)
            if not any(region is not None and region.data[one - region.begin : one - region.begin + size].any() for region, one in places):
                return False
        return True


def _corner(begin: int, row: int, step: int, size: int) -> np.ndarray:
    """The addresses of the first elements of an operand: as many as its stride has room for."""
    return begin + np.arange(2)[:, None] * row + np.arange(2) * step


def _told(
    counts: collections.Counter[int], extent: int, width: int, i: Instruction, has_numbers: Callable[[np.ndarray], bool]
) -> list[Finding]:
    times = np.zeros(max(extent, max(counts) + width), np.int64)
    for k, count in counts.items():
        times[k : k + width] += count
    once = int(times[times > 0].min())
    if times.min() > 0 or len(times) > extent:
        return []
    twice, never = _ranges(np.flatnonzero(times > once)), _ranges(np.flatnonzero(times == 0))
    if not twice:
        return [
            at_instruction(
                "R508", i, f"no mma.sync multiplies k = {never} of A and B", "one more step of the loop over K, unless the rest of K is meant to be left out",
                why="both arrays have numbers there, and all other k of them are multiplied", milder=Severity.NOTE,
            )
        ] if _is_a_step(np.flatnonzero(times == 0), extent) and has_numbers(np.flatnonzero(times == 0)) else []  # fmt: skip
    return [
        at_instruction(
            "R508", i, f"the products of each row of A and of B have k = {twice} more often than others, and k = {never} never",
            "slices of K that begin where the one before ends, and end with the last k",
            why="the k of A and of B are the same in each product; if no sum has all of these products, the remark means nothing", milder=Severity.NOTE,
        )
    ]  # fmt: skip


def _is_a_step(k: np.ndarray, extent: int) -> bool:
    """May these k be one step of a loop: one range, of a quarter of all k or less?"""
    return bool(4 * len(k) <= extent and (np.diff(k) == 1).all())


def _ranges(k: Iterable[int]) -> str:
    """ "48 to 63, 96 to 111"."""
    found: list[list[int]] = []
    for one in k:
        if found and found[-1][1] == one - 1:
            found[-1][1] = int(one)
        else:
            found.append([int(one), int(one)])
    return ", ".join(f"{a} to {b}" if b > a else str(a) for a, b in found)
