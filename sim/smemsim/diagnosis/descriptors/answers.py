"""Answers of the solver: descriptors, the one that reads most of an operand right where none reads it, and why there is
none.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.members import OwnMembers
from smemsim.core.machine.product import shared_grade
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.raw import Words
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.descriptors.shapes import Kind, Shape

__all__ = ["Answer", "FoundDescriptor", "Nearest", "Witness", "described", "nearest", "read_addresses"]


@dataclasses.dataclass(frozen=True, eq=False)
class FoundDescriptor(metaclass=OwnMembers):
    """Words that read every element at its place, (blocks, steps). They differ only in their start.

    The offsets `leading` and `stride` are bytes, or None if the instruction never uses the field. All base offsets with
    the same meaning are in `base_offsets`. For every word, `alternatives` has all possible starts. There are several if
    the content of memory repeats.

    >>> import smemsim
    >>> import numpy as np
    >>> places = 1024 + 32 * np.arange(64)[:, None] + 2 * np.arange(16)
    >>> found = smemsim.find_descriptors(places ^ (places >> 7 & 1) << 4, arch="sm_90a", dtype="bf16", major="K").descriptors[0]
    >>> str(found.swizzle), found.stride, hex(found.words[0, 0])
    ('32B', 256, '0xc000001000000040')
    """

    arch: str
    swizzle: Swizzle
    base_offsets: tuple[int, ...]
    absolute: bool
    leading: int | None
    stride: int | None
    starts: np.ndarray
    words: Words
    alternatives: tuple[tuple[tuple[int, ...], ...], ...]
    grade: Grade

    @property
    def descriptor(self) -> SmemDescriptor:
        """The descriptor of the first K step of the first block."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)

    @property
    def unused(self) -> tuple[str, ...]:
        """The fields whose value has no effect."""
        fields = {
            "leading_byte_offset": self.leading is None,
            "stride_byte_offset": self.stride is None,
            "base_offset": len(self.base_offsets) == 8,
        }
        return tuple(name for name, free in fields.items() if free)

    @property
    def advance(self) -> np.ndarray:
        """(blocks, steps): the bytes from the first start address to each."""
        return np.asarray(self.starts - self.starts[0, 0])

    @property
    def sure(self) -> bool:
        """True if the start address of every word is the only possible one."""
        return all(len(some) == 1 for row in self.alternatives for some in row)

    def as_dict(self) -> dict[str, Any]:
        """The descriptor as a dictionary for JSON."""
        return {
            "words": [[f"{word:#018x}" for word in row] for row in self.words.tolist()],
            "swizzle": str(self.swizzle),
            "leading_byte_offset": self.leading,
            "stride_byte_offset": self.stride,
            "base_offsets": list(self.base_offsets),
            "absolute_lbo": self.absolute,
            "starts": self.starts.tolist(),
            "alternatives": [[list(some) for some in row] for row in self.alternatives],
            "advance": self.advance.tolist(),
            "unused": list(self.unused),
            "grade": str(self.grade),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Nearest:
    """The tried descriptor that reads most elements right: `right` of `of`.

    The first wrong (block, step, row, k) is `first`. The addresses that the descriptor reads are `reads` (blocks,
    steps, rows, k). In this layout it would be right. The mask `moves` says whether the element must move there.
    """

    found: FoundDescriptor
    right: int
    of: int
    first: tuple[int, int, int, int]
    reads: np.ndarray
    moves: np.ndarray
    lies: int  # the place of the first wrong element, -1 if it is nowhere

    def as_dict(self) -> dict[str, Any]:
        """The nearest descriptor as a dictionary for JSON."""
        return {
            **self.found.as_dict(),
            "right": self.right,
            "of": self.of,
            "first": list(self.first),
            "lies": None if self.lies < 0 else self.lies,
            "reads": int(self.reads[self.first]),
        }


@dataclasses.dataclass(frozen=True)
class Witness:
    """Why one layout reads nothing of it: `elements`, ((block, step, row, k), address), which no start, LBO and SBO put
    where they are.
    """

    swizzle: Swizzle | None  # None: none of them can
    base_offset: int
    absolute: bool
    elements: tuple[tuple[tuple[int, int, int, int], int], ...]
    text: str

    def as_dict(self) -> dict[str, Any]:
        """The witness as a dictionary for JSON."""
        return {
            "swizzle": None if self.swizzle is None else str(self.swizzle),
            "base_offset": self.base_offset,
            "absolute_lbo": self.absolute,
            "elements": [{"at": list(at), "address": address} for at, address in self.elements],
            "text": self.text,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Answer(metaclass=OwnMembers):
    """The answer of `find_descriptors`.

    All descriptors that read the operand are in `descriptors`. If the search was given up, `ambiguous` says why.
    Nothing is claimed about the layouts in `unmodelled`, whose behaviour is unknown.

    If there are no descriptors, `why` has the proof in words. Its parts are in `witnesses`: for each layout, elements
    that no descriptor with this layout reads at their places. The descriptor that comes closest is `nearest`.

    >>> import smemsim
    >>> import numpy as np
    >>> places = 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(16)  # bytes, of rows of 128 that no swizzle has
    >>> answer = smemsim.find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    >>> len(answer.descriptors), answer.nearest.right, answer.nearest.of
    (0, 128, 1024)
    """

    arch: str
    descriptors: tuple[FoundDescriptor, ...]
    nearest: Nearest | None
    why: str
    witnesses: tuple[Witness, ...]
    ambiguous: str
    unmodelled: tuple[str, ...]
    shared: str = ""  # two elements that lie at the same address: the layout is not one-to-one, "" where it is

    def __repr__(self) -> str:
        more = "" if self.complete else ", of more"
        return f"<Answer on {self.arch}: {len(self.descriptors)} descriptor{'s' * (len(self.descriptors) != 1)}{more}>"

    @property
    def complete(self) -> bool:
        """True if these are all descriptors."""
        return not self.ambiguous

    def __str__(self) -> str:
        if self.descriptors:
            count = len(self.descriptors)
            more = f"; {self.shared}" if self.shared else ""
            return f"{count} layout{'s read' if count > 1 else ' reads'} it; the first is {self.descriptors[0].descriptor!r}{more}"
        return self.why

    def as_dict(self) -> dict[str, Any]:
        """The answer as a dictionary for JSON."""
        return {
            "arch": self.arch,
            "descriptors": [d.as_dict() for d in self.descriptors],
            "complete": self.complete,
            "ambiguous": self.ambiguous,
            "why": self.why,
            "witnesses": [w.as_dict() for w in self.witnesses],
            "nearest": None if self.nearest is None else self.nearest.as_dict(),
            "unmodelled": list(self.unmodelled),
            "shared": self.shared,
            "measured": architecture(self.arch).measured,
        }


def described(
    shape: Shape,
    kind: Kind,
    leading: int | None,
    stride: int | None,
    starts: np.ndarray,
    *,
    absolute: bool = False,
    alternatives: tuple[tuple[tuple[int, ...], ...], ...] | None = None,
) -> FoundDescriptor:
    """The descriptor of these fields."""
    arch = shape.machine.name
    base = SmemDescriptor(
        arch=arch,
        leading_byte_offset=leading or 0,
        stride_byte_offset=stride or 0,
        base_offset=kind.base_offset,
        swizzle=kind.mode.swizzle,
        lbo_mode=int(absolute),
    ).encode()
    words = Words.of(np.uint64(base) | (starts >> START.shift).astype(np.uint64))
    some = alternatives or tuple(tuple((start,) for start in row) for row in starts.tolist())
    grade = shared_grade(int(words[0, 0]), arch, shape.fmt.name, shape.major, shape.k, shape.packing)
    bases = (0,) if absolute else kind.base_offsets
    return FoundDescriptor(arch, kind.mode.swizzle, bases, absolute, leading, stride, starts, words, some, grade)


def read_addresses(shape: Shape, words: np.ndarray) -> np.ndarray:
    """(blocks, steps, rows, k): the address of every element that these words read."""
    addresses = operand_addresses(
        words, arch=shape.machine.name, dtype=shape.fmt, major=shape.major, rows=shape.rows, k=shape.k, packing=shape.packing
    )
    return addresses.astype(np.int64)


# ---- The descriptor that reads most of an operand right, for layouts that no descriptor reads


VOTES = 3  # values of a stride that are tried
TRIED = 6  # descriptors whose elements are counted

Score = Callable[[np.ndarray], np.ndarray]  # addresses (blocks, steps, rows, k) that are read -> which are right


def nearest(shape: Shape, places: np.ndarray, right: Score) -> Nearest | None:
    """The best of those that most chunks vote for; `places` (blocks, steps, lines, chunks) is where chunks lie, -1 if
    that is not known.
    """
    known = places >= 0
    if not known.any():
        return None
    whole = np.where(known, places - places % CHUNK, -1)
    voted = [(int(votes), kind, lbo, sbo, starts) for kind in shape.kinds for votes, lbo, sbo, starts in _candidates(kind, whole, known)]
    voted.sort(key=lambda one: -one[0])
    best = None
    for _, kind, lbo, sbo, starts in voted[:TRIED]:
        descriptor = described(shape, kind, lbo, sbo, starts)
        reads = read_addresses(shape, descriptor.words)
        good = right(reads)
        if best is None or good.sum() > best[0].sum():
            best = good, descriptor, reads
    if best is None or not best[0].any() or best[0].all():
        return None
    good, descriptor, reads = best
    block, step, row, k = (int(x) for x in np.argwhere(~good)[0])
    line, along = (row, k) if shape.major == "K" else (k, row)
    lies = int(places[block, step, line, along // shape.per_chunk])
    lies = lies + int(shape.inside[along]) if lies >= 0 else -1
    return Nearest(descriptor, int(good.sum()), good.size, (block, step, row, k), reads, ~good, lies)


def _candidates(kind: Kind, places: np.ndarray, known: np.ndarray) -> list[tuple[int, int | None, int | None, np.ndarray]]:
    """(chunks that it has right, LBO, SBO, starts) of the strides that most neighbouring atoms have."""
    rest = kind.before(np.where(known, places, 0)) - kind.fixed
    strides = [_votes(of, rest, known) for of in (kind.of_lbo, kind.of_sbo)]
    candidates = []
    for lbo, sbo in itertools.product(*strides):
        starts = rest - kind.of_lbo * (lbo or 0) - kind.of_sbo * (sbo or 0)
        good = known & (starts >= 0) & (starts < REACH) & (starts % CHUNK == 0)
        own = np.zeros(places.shape[:2], np.int64)
        votes = 0
        for at in np.ndindex(*own.shape):
            values, counts = np.unique(starts[at][good[at]], return_counts=True)
            if len(values):
                own[at], votes = values[np.argmax(counts)], votes + int(counts.max())
        candidates.append((votes, lbo, sbo, own))
    return candidates


def _votes(of: np.ndarray, rest: np.ndarray, known: np.ndarray) -> list[int | None]:
    """The values of a stride by which most neighbours lie apart; None if it is not used."""
    if not of.any():
        return [None]
    axis = 0 if of[:, 0].any() else 1
    by = int(np.argmax(np.moveaxis(of, axis, 0)[:, 0] > 0))
    lower, upper = ([slice(None)] * 4 for _ in range(2))
    lower[2 + axis], upper[2 + axis] = slice(None, -by), slice(by, None)
    apart = rest[tuple(upper)] - rest[tuple(lower)]
    steps = np.moveaxis(of, axis, 0)[by:, 0] - np.moveaxis(of, axis, 0)[:-by, 0]
    apart = apart // np.expand_dims(steps, 1 - axis) if (steps > 0).all() else apart
    values, counts = np.unique(
        apart[known[tuple(upper)] & known[tuple(lower)] & (apart >= 0) & (apart < REACH) & (apart % CHUNK == 0)], return_counts=True
    )
    return [int(x) for x in values[np.argsort(-counts)][:VOTES]] or [0]
