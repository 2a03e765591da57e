"""What lay in shared memory where an operand read, and what was meant to lie there, by the names of tensors and their axes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from smemsim.checking.reads import Seen, meant_places
from smemsim.checking.simulate import FOREIGN, NAMES, UNWRITTEN, Issue, Machine
from smemsim.checking.tensors import OUTSIDE, Tensor
from smemsim.solve.inverse import locate
from smemsim.spec.formats import element_format

__all__ = ["Held", "Named"]

Named = tuple[str, tuple[int, ...]]  # a tensor and an index along each of its axes


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """Arrays are (lines, chunk columns, elements of a chunk) of a `TilePicture`: the global byte that was read and the one that was meant, the index of the issue
    that had written it, and is it wrong? `lies` (lines, columns) is where the meant data lies when the scenario ends, -1 for nowhere."""

    tensor: Tensor
    tensors: dict[str, Tensor]
    axes: tuple[str, str]  # that of rows, that of K
    issues: list[Issue]
    got: np.ndarray
    meant: np.ndarray
    writer: np.ndarray
    wrong: np.ndarray
    row: np.ndarray
    k: np.ndarray
    lies: np.ndarray

    @classmethod
    def of(cls, machine: Machine, seen: Seen, tiled: Callable[[np.ndarray], np.ndarray]) -> Held:
        """Of an operand of a scenario; `tiled` brings (blocks, steps, rows, k) into lines and columns."""
        read = seen.read
        row, k = (tiled(x) for x in meant_places(read.raw, read.tensor, (read.words.shape[0], read.words.shape[1]), read.rows, read.k))
        meant, address = tiled(read.meant), tiled(seen.addresses)
        lies = address[..., 0]
        if seen.wrong.any():
            wrong = tiled(seen.wrong).any(axis=2)
            first = np.where(meant[..., 0] >= 0, meant[..., 0], UNWRITTEN)
            lies = np.where(wrong, np.where(first >= 0, locate(machine.source, first), -1), lies)
        axes = read.raw["meant"]["axes"]
        return cls(read.tensor, machine.tensors, (axes[0], axes[1]), machine.issues, tiled(seen.got), meant, tiled(seen.writer), tiled(seen.wrong),
                   row, k, lies)  # fmt: skip

    @functools.cached_property
    def homes(self) -> dict[int, tuple[int, int]]:
        """The chunk that was meant to hold the data beginning with a global byte."""
        found: dict[int, tuple[int, int]] = {}
        for place in np.ndindex(*self.lies.shape):
            value = int(self.meant[place][0])
            if value >= 0:
                found.setdefault(value, (place[0], place[1]))
        return found

    def meant_at(self, place: tuple[int, int], element: int = 0) -> Named:
        """The element that was meant."""
        at = {self.axes[0]: int(self.row[place][element]), self.axes[1]: int(self.k[place][element])}
        return self.tensor.name, tuple(at.get(axis, 0) for axis in self.tensor.extent)

    def got_at(self, place: tuple[int, int], element: int = 0) -> Named | int:
        """The element that was read, or why there is none (a key of NAMES)."""
        value = int(self.got[place][element])
        if value < 0:
            return value
        if value == int(self.meant[place][element]):
            return self.meant_at(place, element)
        owner = next((t for t in (self.tensor, *self.tensors.values()) if t.address <= value < t.end), None)
        if owner is None:
            return FOREIGN
        at = owner.index(value)
        inner = owner.contiguous
        if inner and owner.fmt.bits < 8 and owner.bit_stride(inner) < 8:  # two 4-bit elements share their byte
            at[inner] += element * element_format(owner.fmt).bits % 8 // owner.fmt.bits
        return owner.name, tuple(at[axis] for axis in owner.extent)

    def text(self, named: Named | int) -> str:
        """As `A[m=64, k=0]`."""
        if isinstance(named, int):
            return NAMES[named]
        extent = self.tensors[named[0]].extent
        outside = not all(0 <= value < size for value, size in zip(named[1], extent.values(), strict=True))
        at = ", ".join(f"{axis}={value}" for axis, value in zip(extent, named[1], strict=True))
        return f"{named[0]}[{at}]" + " (outside the tensor)" * outside

    def short(self, named: Named | int) -> str:
        """As `64,0`: the indices along the axes of rows and of K; with its tensor where that is another."""
        if isinstance(named, int):
            return {UNWRITTEN: "empty", OUTSIDE: "fill", FOREIGN: "foreign"}[named]
        at = dict(zip(self.tensors[named[0]].extent, named[1], strict=True))
        both = [str(at[axis]) for axis in self.axes if axis in at]
        if named[0] != self.tensor.name or len(both) != 2:
            return f"{named[0]} {','.join(map(str, named[1]))}"
        return ",".join(both)
