"""Answers of the solver: descriptors, the nearest one, and why there is none."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.machine.product import shared_grade
from smemsim.solve.atoms import Kind, Shape
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import Grade
from smemsim.spec.smem_descriptor import START
from smemsim.spec.swizzles import Swizzle

__all__ = ["Answer", "FoundDescriptor", "Nearest", "Witness", "described", "read_addresses"]


@dataclasses.dataclass(frozen=True, eq=False)
class FoundDescriptor:
    """Words that read every element where it lies: (blocks, steps), they differ in their start only.

    `leading` and `stride` are bytes, None where the instruction never uses the field: any value will do. `base_offsets` are those that mean the
    same. `alternatives` has, for every word, all starts that will do: more than one where the contents of memory repeat.
    """

    arch: str
    swizzle: Swizzle
    base_offsets: tuple[int, ...]
    absolute: bool
    leading: int | None
    stride: int | None
    starts: np.ndarray
    words: np.ndarray
    alternatives: tuple[tuple[tuple[int, ...], ...], ...]
    grade: Grade

    @property
    def descriptor(self) -> SmemDescriptor:
        """That of the first step of the first block."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields whose value does not matter."""
        fields = {
            "leading_byte_offset": self.leading is None,
            "stride_byte_offset": self.stride is None,
            "base_offset": len(self.base_offsets) == 8,
        }
        return tuple(name for name, free in fields.items() if free)

    @property
    def advance(self) -> np.ndarray:
        """(blocks, steps): bytes from the first start."""
        return np.asarray(self.starts - self.starts[0, 0])

    @property
    def sure(self) -> bool:
        """Is every word's start the only one?"""
        return all(len(some) == 1 for row in self.alternatives for some in row)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
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
    """The descriptor that reads most elements right, of those that were tried: `right` of `of`.

    `first` is the first wrong (block, step, row, k). `reads` (blocks, steps, rows, k) is where the descriptor reads each element: the layout in
    which it would be right; `moves` says of each element, does it have to move there?
    """

    found: FoundDescriptor
    right: int
    of: int
    first: tuple[int, int, int, int]
    reads: np.ndarray
    moves: np.ndarray
    lies: int  # where the first wrong element lies, -1 if nowhere

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
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
    """Why one layout reads nothing of it: `elements`, ((block, step, row, k), address), which no start, LBO and SBO put where they are."""

    swizzle: Swizzle | None  # None: none of them can
    base_offset: int
    absolute: bool
    elements: tuple[tuple[tuple[int, int, int, int], int], ...]
    text: str

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "swizzle": None if self.swizzle is None else str(self.swizzle),
            "base_offset": self.base_offset,
            "absolute_lbo": self.absolute,
            "elements": [{"at": list(at), "address": address} for at, address in self.elements],
            "text": self.text,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What `find_descriptors` found.

    `descriptors` are all that read the operand, unless `ambiguous` says why the search was given up. Without any, `why` is the proof: for every
    layout a `Witness`; and `nearest` comes closest. `unmodelled` are layouts of which nobody knows what they read: nothing is said of those.
    """

    arch: str
    descriptors: tuple[FoundDescriptor, ...]
    nearest: Nearest | None
    why: str
    witnesses: tuple[Witness, ...]
    ambiguous: str
    unmodelled: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Are these all the descriptors?"""
        return not self.ambiguous

    def __str__(self) -> str:
        if self.descriptors:
            return f"{len(self.descriptors)} layouts read it; the first is {self.descriptors[0].descriptor!r}"
        return self.why

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "arch": self.arch,
            "descriptors": [d.as_dict() for d in self.descriptors],
            "complete": self.complete,
            "ambiguous": self.ambiguous,
            "why": self.why,
            "witnesses": [w.as_dict() for w in self.witnesses],
            "nearest": None if self.nearest is None else self.nearest.as_dict(),
            "unmodelled": list(self.unmodelled),
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
    words = np.uint64(base) | (starts >> START.shift).astype(np.uint64)
    some = alternatives or tuple(tuple((start,) for start in row) for row in starts.tolist())
    grade = shared_grade(int(words[0, 0]), arch, shape.fmt.name, shape.major, shape.k, shape.packing)
    bases = (0,) if absolute else kind.base_offsets
    return FoundDescriptor(arch, kind.mode.swizzle, bases, absolute, leading, stride, starts, words, some, grade)


def read_addresses(shape: Shape, words: np.ndarray) -> np.ndarray:
    """(blocks, steps, rows, k): the address of every element that these words read."""
    found = operand_addresses(
        words, arch=shape.machine.name, dtype=shape.fmt, major=shape.major, rows=shape.rows, k=shape.k, packing=shape.packing
    )
    return found.astype(np.int64)
