"""Is an unwritten column the padding of its row, or did a kernel forget it?

Both look the same in memory: each row has a gap of the same length at the same place. So the lengths decide. The rule
is in `is_padding`. Four cases are padding. Every other gap is a column that was forgotten.

- The pitch is worse aligned than the data before the gap. Examples: 32 columns in rows of 33, 64 in rows of 72. Such a
  pitch avoids bank conflicts. A tile of 33 columns has no other use. The gap has at most 64 bytes.
- A row has at most 32 bytes. It may be a structure, with its tail.
- The pitch is no power of two and no multiple of 64 bytes: 100 columns in rows of 104. It may be rounded up. The
  gap has at most 32 bytes.
- An argument of the kernel is the length of a row's data. Example: 30 columns in rows of 32, and an argument is 30. The
  last tile of longer rows has the rest: 30 of 32 columns if the argument is 62. Such a tile has rows of 128 bytes at
  least, and of a multiple of 32.

Only the last case allows a gap that is as long as the data, or longer, and a tile of two rows. A row of more than 32
bytes has one gap. A hole between the gaps of a tile is no padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

__all__ = ["Rows", "is_padding", "pad_columns", "pitches", "widths"]


STRUCTURE = 32  # bytes of a row that may be a structure
TILE = 64  # bytes: a multiple of it is a pitch for data
# bytes of a row at least, and of which it is a multiple: its data is not by accident the rest of an argument
ROW, PART = 128, 32
AGAINST_CONFLICTS, ROUNDED = 64, 32  # bytes of a gap at most: against bank conflicts, or because a pitch is rounded up
WORD = 4
ELEMENTS = (1, 2, 4, 8, 16)  # bytes of an element, of which an argument gives a number
MOST_BETWEEN = 8  # holes that are looked for in one row
MOST = 1 << 20  # an argument up to this may be a number of columns
_NONE = np.zeros(0, np.int64)


def widths(parameters: np.ndarray, is_address: Callable[[int], bool]) -> np.ndarray:
    """What may be a number of columns among the bytes of a kernel's parameters: words, but not those of addresses.

    >>> widths(np.array([64, 30, 0x400, 0x7F00, 5], np.uint32).view(np.uint8), lambda value: value >> 32 == 0x7F00).tolist()
    [5, 30, 64]
    """
    size = len(parameters) // 8 * 8
    pairs = [n for n in parameters[:size].view(np.uint64).tolist() if not is_address(n)]
    rest = parameters[size : len(parameters) // WORD * WORD]
    words = [*np.array(pairs, np.uint64).view(np.uint32).tolist(), *rest.view(np.uint32).tolist()]
    return np.array(sorted({n for n in words if 0 < n <= MOST}), np.int64)


def is_padding(pitch: np.ndarray, data: np.ndarray, has_one: np.ndarray, are_many: np.ndarray, known: np.ndarray = _NONE) -> np.ndarray:
    """Is the gap of rows padding, by the bytes of their pitch and of their data? If `has_one` is set, rows have one
    gap. If `are_many` is set, there are three rows at least. The arguments of the kernel are `known`.

    >>> pitch, data, all_ = np.array([132, 144, 128, 512, 8, 416]), np.array([128, 128, 124, 384, 4, 400]), np.ones(6, bool)
    >>> rows = lambda *known: is_padding(pitch, data, all_, all_, *known)
    >>> rows().tolist(), rows(np.array([96])).tolist()
    ([True, True, False, False, False, True], [True, True, False, True, False, True])
    """
    is_worse_aligned = (pitch & -pitch) < (data & -data)
    is_structure = pitch <= STRUCTURE
    is_odd = (pitch & pitch - 1 != 0) & (pitch % TILE != 0)
    gap = pitch - data
    is_wide = has_one & ((is_worse_aligned & (gap <= AGAINST_CONFLICTS)) | (is_odd & (gap <= ROUNDED)))
    may_be = (is_structure | is_wide) & are_many & (gap < data)
    is_known = np.zeros(len(pitch), bool)
    for size in ELEMENTS if known.size else ():
        given = known[:, None] * size
        is_known |= ((given == data) | ((pitch >= ROW) & (pitch % PART == 0) & (given % pitch == data))).any(axis=0)
    found: np.ndarray = (may_be | (has_one & is_known)) & (data > 0)
    return found


class Rows:
    """The gaps of rows among bytes, by their sorted offsets. The gap of a row has a length and a pitch: the distance to
    a gap of the same length, the next one or the one after it. As many bytes before the first gap and after the last
    one may belong to a gap, too.
    """

    def __init__(self, offsets: np.ndarray) -> None:
        self.offsets = offsets
        begins = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2) != 1)
        self.lengths = np.diff(begins, append=len(offsets))
        self.begins = begins
        self.is_cut = np.zeros(len(begins), bool)
        if len(begins) > 1:
            first, last = int(self.lengths[1]), int(self.lengths[-2])
            self.is_cut[-1] = self.lengths[-1] > last  # what is behind it is in the row of the last gap
            self.lengths[-1] = min(self.lengths[-1], last)
            self.begins[0] += max(int(self.lengths[0]) - first, 0)
            self.lengths[0] = min(self.lengths[0], first)
        self.at = offsets[self.begins]
        self.support = np.zeros(len(begins), np.int64)  # pairs of gaps with this length and pitch
        self.pitch = np.zeros(len(begins), np.int64)  # 0: the gap of no row
        self._find()

    def _find(self) -> None:
        pairs = []
        for apart in (1, 2):
            left = np.flatnonzero(self.lengths[apart:] == self.lengths[:-apart])
            pairs.append((left, left + apart, np.full(len(left), apart == 1)))
        left, right, is_next = (np.concatenate(each) for each in zip(*pairs, strict=True))
        if not left.size:
            return
        spacing = self.at[right] - self.at[left]
        _, which, counts = np.unique(np.stack([spacing, self.lengths[left]]), axis=1, return_inverse=True, return_counts=True)
        score = 2 * counts[which.reshape(-1)] + is_next
        for side in (left, right):
            np.maximum.at(self.support, side, score)
        for side in (right, left):
            is_best = score == self.support[side]
            self.pitch[side[is_best]] = spacing[is_best]
        self.support >>= 1
        self.pitch[self._are_holes()] = 0

    def _are_holes(self) -> np.ndarray:
        """Which gaps lie between two gaps of rows that follow one another, and are in fewer rows?"""
        found = np.zeros(len(self.pitch), bool)
        ends = np.searchsorted(self.at, self.at + self.pitch)  # of each gap the one of the next row
        first = np.flatnonzero(ends < len(ends))
        first = first[self.at[ends[first]] == self.at[first] + self.pitch[first]]
        for apart in range(1, MOST_BETWEEN + 1):
            first = first[ends[first] > first + apart]
            found[first + apart] |= self.support[first + apart] < self.support[first]
        return found

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """(the bytes of each gap's row that are in no gap, whether rows have one gap): of most rows of that length and
        pitch.
        """
        blank = np.searchsorted(self.offsets, self.at + self.pitch) - np.searchsorted(self.offsets, self.at)
        kinds, which = np.unique(np.stack([self.pitch, self.lengths]), axis=1, return_inverse=True)
        which = which.reshape(-1)
        order = np.lexsort((blank, self.is_cut, which))
        whole = np.bincount(which[~self.is_cut], minlength=kinds.shape[1])
        begin = np.cumsum(np.bincount(which)) - np.bincount(which)
        usual = blank[order[begin + whole // 2 * (whole > 0)]]
        usual = np.where(whole > 0, usual, kinds[1])
        return (kinds[0] - usual)[which], (usual == kinds[1])[which]

    def parts(self, are_pads: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The gaps that are padding, by (their places in `offsets`, their lengths, their pitches). A longer gap counts
        with the part that is the padding of the row before it, or of the row after it.
        """
        yield self.begins[are_pads], self.lengths[are_pads], self.pitch[are_pads]
        ends = self.at + self.lengths
        before = np.flatnonzero(~are_pads[1:] & are_pads[:-1] & (self.lengths[1:] > self.lengths[:-1]))
        before = before[self.at[before + 1] == self.at[before] + self.pitch[before]]
        yield self.begins[before + 1], self.lengths[before], self.pitch[before]
        behind = np.flatnonzero(~are_pads[:-1] & are_pads[1:] & (self.lengths[:-1] > self.lengths[1:]))
        behind = behind[ends[behind] == ends[behind + 1] - self.pitch[behind + 1]]
        behind = behind[~np.isin(behind, before + 1)]
        yield self.begins[behind] + self.lengths[behind] - self.lengths[behind + 1], self.lengths[behind + 1], self.pitch[behind + 1]


def pad_columns(offsets: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """The bytes among these, by their sorted offsets, that lie in the gaps of rows. With `known`, the arguments of a
    kernel, only those that are padding.

    >>> rows = np.arange(40).reshape(4, 10)
    >>> pad_columns(rows[:, 7:].ravel()).all(), pad_columns(rows[1:, :3].ravel()).all(), pad_columns(rows[2:].ravel()).any()
    (np.True_, np.True_, np.False_)
    >>> np.flatnonzero(pad_columns(np.array([8, 9, 18, 19, *range(28, 40)]))).tolist()  # the last row is missing
    [0, 1, 2, 3, 4, 5]
    >>> np.flatnonzero(~pad_columns(np.sort([*range(9, 200, 10), 75]))).tolist()  # a hole
    [7]
    >>> np.flatnonzero(~pad_columns(np.array([8, 9, 18, 19, 28, 29, 30, 38, 39, 48, 49]))).tolist()  # a longer gap
    [6]
    """
    found: np.ndarray = pitches(offsets, known) > 0
    return found


def pitches(offsets: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """The bytes between the rows in whose gaps these bytes lie; 0 of those that `pad_columns` leaves out.

    >>> pitches(np.array([7, 15, 23, 31, 34]), known=np.zeros(0, np.int64)).tolist()
    [8, 8, 8, 8, 0]
    """
    if not len(offsets):
        return np.zeros(0, np.int64)
    rows = Rows(offsets)
    is_pad = rows.pitch > 0
    if known is not None and is_pad.any():
        data, has_one = rows.data()
        is_pad[is_pad] = is_padding(rows.pitch[is_pad], data[is_pad], has_one[is_pad], rows.support[is_pad] > 1, known)
    change = np.zeros(len(offsets) + 1, np.int64)
    for begins, lengths, pitch in rows.parts(is_pad):
        change[begins] += pitch
        change[begins + lengths] -= pitch
    found: np.ndarray = np.cumsum(change[:-1])
    return found
