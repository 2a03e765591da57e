"""Find descriptors that read wanted contents from memory in which they may occur several times: a search over modes,
starts and strides.

Memory is cells, one a byte: its eight bits, or its origin; -1 is unknown. A wanted chunk is 16 cells and a mask for
the bits that count. (The last chunk of a row may be partial, and padded elements leave gaps.)
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import REACH
from smemsim.diagnosis.descriptors.answers import FoundDescriptor, Witness, described
from smemsim.diagnosis.descriptors.shapes import Kind, Shape

__all__ = ["MOST_FOUND", "Contents", "Search", "TooAmbiguousError"]


PAIRS = 1 << 21  # combinations of places that are looked at for a layout
MOST_FOUND = 64  # descriptors that are listed


class TooAmbiguousError(Exception):
    """The contents fit too many places."""


@dataclasses.dataclass(frozen=True, eq=False)
class Contents:
    """Cells of shared memory from `begin` on, a multiple of 128, and the wanted chunks (blocks, steps, lines, chunks,
    16) with their masks.
    """

    begin: int
    cells: np.ndarray
    wanted: np.ndarray
    mask: np.ndarray  # (chunks, 16), or of every line too

    @functools.cached_property
    def masks(self) -> tuple[np.ndarray, np.ndarray]:
        """(the different masks, (chunks,) or (lines, chunks): which of them each chunk has)."""
        found, which = np.unique(self.mask.reshape(-1, CHUNK), axis=0, return_inverse=True)
        return found, which.reshape(self.mask.shape[:-1])

    @functools.cached_property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of memory's chunks for each mask (masks, places), 0 unknown; and of the wanted ones), equal where
        contents are.
        """
        # a hash; what a search finds is compared again
        weights = np.random.default_rng(1).integers(1, 2**62, CHUNK, np.int64) * 2 + 1
        masks, of = self.masks
        memory = self.cells.reshape(-1, CHUNK)
        have, want = [], np.zeros(self.wanted.shape[:-1], np.int64)
        with np.errstate(over="ignore"):
            for number, mask in enumerate(masks):
                known = ((memory >= 0) | (mask == 0)).all(axis=1)
                have.append(np.where(known, ((memory & mask) * weights).sum(axis=1) | 1, 0))
                mine = ((self.wanted & mask) * weights).sum(axis=-1) | 1
                want = np.where(of == number, mine, want)
        return np.stack(have), want

    @functools.cached_property
    def masks_of(self) -> np.ndarray:
        """Which mask each chunk (lines, chunks) has; -1 for chunks of which nothing is wanted."""
        of = np.where(self.mask.any(axis=-1), self.masks[1], -1)
        return np.broadcast_to(of, self.wanted.shape[2:4])

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """(blocks, steps, lines, chunks): where each chunk lies first, -1 if nowhere; how often."""
        have, want = self.ids
        first, count = np.full(want.shape, -1, np.int64), np.zeros(want.shape, np.int64)
        for number, row in enumerate(have):
            order = np.argsort(row, kind="stable")
            low, high = (np.searchsorted(row[order], want, side) for side in ("left", "right"))
            mine = np.broadcast_to(self.masks_of == number, want.shape)
            first = np.where(mine & (high > low), self.begin + CHUNK * order[np.minimum(low, len(order) - 1)], first)
            count = np.where(mine, high - low, count)
        return first, count


class Search:
    """All descriptors of one layout."""

    def __init__(self, shape: Shape, kind: Kind, contents: Contents) -> None:
        self.shape, self.kind, self.contents = shape, kind, contents
        self.have, self.want = contents.ids
        self.size = self.have.shape[1]
        self.moved = (kind.before(contents.begin + CHUNK * np.arange(self.size)) - contents.begin) // CHUNK
        groups, which = np.unique(np.stack([kind.of_lbo, kind.of_sbo]).reshape(2, -1), axis=1, return_inverse=True)
        wanted = contents.masks_of.ravel() >= 0
        self.groups = {(int(l), int(s)): np.nonzero((which.ravel() == i) & wanted)[0] for i, (l, s) in enumerate(groups.T)}
        self.groups = {key: members for key, members in self.groups.items() if len(members)}
        self.known: dict[tuple[int, int, int, int], np.ndarray] = {}
        self.died: tuple[int, int, int, int] | None = None

    def all(self) -> list[FoundDescriptor] | Witness:
        """The descriptors, or why there is none."""
        if (0, 0) not in self.groups:
            raise TooAmbiguousError("nothing is wanted of the first rows, so that nothing says where they begin")
        found = [one for pair in self._strides() if (one := self._starts(*pair)) is not None]
        return found or self._why()

    def _fits(self, block: int, step: int, group: tuple[int, int]) -> np.ndarray:
        """(size,) bool: from which start, moved by the group's strides, does it read what is wanted? Starts count 16 B
        from `begin`.
        """
        key = (block, step, *group)
        if key not in self.known:
            members = self.groups[group]
            width = self.kind.fixed.shape[1]
            by, mask = self.kind.fixed.ravel()[members] // CHUNK, self.contents.masks_of.ravel()[members]
            want = self.want[block, step].ravel()[members]
            left = np.arange(self.size)
            for n in range(len(members)):
                at = left + by[n]
                left, at = left[at < self.size], at[at < self.size]
                left = left[self.have[mask[n]][self.moved[at]] == want[n]]
                if not len(left):
                    line, chunk = divmod(int(members[n]), width)
                    self.died = (block, step, line, chunk)
                    break
            fits = np.zeros(self.size, bool)
            fits[left] = True
            self.known[key] = fits
        return self.known[key]

    def _at(self, block: int, step: int, group: tuple[int, int], starts: np.ndarray, lbo: np.ndarray, sbo: np.ndarray) -> np.ndarray:
        at = starts + group[0] * lbo + group[1] * sbo
        inside = (at >= 0) & (at < self.size)
        return np.asarray(inside & self._fits(block, step, group)[np.where(inside, at, 0)])

    def _strides(self) -> list[tuple[int | None, int | None]]:
        """(LBO, SBO) in 16 B by which the first instruction reads what is wanted; None where it uses none."""
        first = self._places((0, 0))
        if not len(first):
            return []
        found = (first, np.zeros_like(first), np.zeros_like(first))
        used = [any(key[axis] for key in self.groups) for axis in (0, 1)]
        for number, axis in enumerate(axis for axis in (0, 1) if used[axis]):
            found = self._with(axis, *found, alone=number == 0)
        good = (found[0] * CHUNK + self.contents.begin >= 0) & (found[0] * CHUNK + self.contents.begin < REACH)
        for group in self.groups if good.any() else ():
            good &= self._at(0, 0, group, *found)
        pairs = np.unique(np.stack(found[1:])[:, good], axis=1).T.tolist()
        if len(pairs) > MOST_FOUND:
            raise TooAmbiguousError(f"{len(pairs):,} values of LBO and SBO read the same with swizzle {self.kind.name}")
        return [(lbo if used[0] else None, sbo if used[1] else None) for lbo, sbo in pairs]

    def _places(self, group: tuple[int, int]) -> np.ndarray:
        return np.nonzero(self._fits(0, 0, group))[0]

    def _with(
        self, axis: int, starts: np.ndarray, lbo: np.ndarray, sbo: np.ndarray, *, alone: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Add every value of one stride (0 so far) with which the groups that it alone moves are right.

        The two groups with the fewest places give start and stride. If the other stride is known, the one with the
        fewest is enough.
        """
        own = [key for key in self.groups if key[axis] and not key[1 - axis]]
        if not own:
            raise TooAmbiguousError("what is wanted does not say how its first rows go on")
        rarest = sorted([*own, (0, 0)] if alone else own, key=lambda key: len(self._places(key)))[: 2 if alone else 1]
        ends = self._places(rarest[-1])
        begins, before = (self._places(rarest[0]), rarest[0][axis]) if alone else (starts, 0)
        if len(begins) * len(ends) > PAIRS:
            raise TooAmbiguousError(f"rows that belong together fit {len(begins):,} and {len(ends):,} places with swizzle {self.kind.name}")
        one, other = (x.ravel() for x in np.meshgrid(np.arange(len(begins)), ends, indexing="ij"))
        apart, times = other - begins[one], rarest[-1][axis] - before
        apart, times = (apart, times) if times > 0 else (-apart, -times)
        good = (apart >= 0) & (apart % times == 0) & (apart // times < REACH // CHUNK)
        one, stride = one[good], apart[good] // times
        found = (
            [begins[one] - before * stride, np.zeros_like(stride), np.zeros_like(stride)] if alone else [starts[one], lbo[one], sbo[one]]
        )
        found[1 + axis] = stride
        for group in [*own, (0, 0)]:
            good = self._at(0, 0, group, found[0], found[1] * (axis == 0), found[2] * (axis == 1))
            found = [x[good] for x in found]
        return found[0], found[1], found[2]

    def _starts(self, lbo: int | None, sbo: int | None) -> FoundDescriptor | None:
        """The words with these strides; None if one of the instructions has no start."""
        leading, stride = (None if x is None else x * CHUNK for x in (lbo, sbo))
        some = []
        for block in range(self.shape.blocks):
            row = []
            for step in range(self.shape.steps):
                starts = np.nonzero(self._fits(block, step, (0, 0)))[0]
                for group in self.groups:
                    starts = starts[self._at(block, step, group, starts, np.int64(lbo or 0), np.int64(sbo or 0))]  # type: ignore[arg-type]
                good = tuple(x for x in (starts * CHUNK + self.contents.begin).tolist() if 0 <= x < REACH)
                if not good:
                    return None
                row.append(good)
            some.append(tuple(row))
        return described(self.shape, self.kind, leading, stride, _likeliest(some), alternatives=tuple(some))

    def _why(self) -> Witness:
        """The witness that the contents lie nowhere in this mode: the chunks of a group up to the one that the last
        candidate place lacks.
        """
        swizzle, base = self.kind.mode.swizzle, self.kind.base_offset
        if self.died is None:
            text = "each of its atoms lies somewhere, but no start, LBO and SBO lead to all of them"
            return Witness(swizzle, base, False, (), text)
        block, step, line, chunk = self.died
        row, k = self.shape.element(line, chunk)
        text = f"nowhere in memory do the elements up to (row {row}, k {k}) lie in one atom as this mode needs them"
        return Witness(swizzle, base, False, (((block, step, row, k), -1),), text)


def _likeliest(some: list[tuple[tuple[int, ...], ...]]) -> np.ndarray:
    """(blocks, steps): of the starts that will do, those nearest to an even advance."""
    likeliest = np.zeros((len(some), len(some[0])), np.int64)
    for block, row in enumerate(some):
        for step, starts in enumerate(row):
            before = likeliest[block, :step]
            expected = row[0][0] if step == 0 else int(2 * before[-1] - before[-2]) if step > 1 else int(before[0]) + CHUNK
            later = [x for x in starts if x >= expected] or list(starts)
            likeliest[block, step] = min(later, key=lambda x, expected=expected: abs(x - expected))  # type: ignore[misc]
    return likeliest
