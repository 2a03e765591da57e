"""Who writes tensor memory: stores of threads, copies from shared memory, anybody with a name; and the chain back to the data's origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.machine.tmem.access import TmemAccess
from smemsim.machine.transfer import Transfer
from smemsim.spec.evidence import Grade
from smemsim.spec.tensor_memory import WARP_LANES, CopyShape

__all__ = ["Owner", "TmemCopy", "TmemMatrix", "TmemStore", "owner_of"]


@dataclasses.dataclass(frozen=True)
class Owner:
    """Who wrote a byte, and which part of the writer's data it is (`where`); `source` is the owner of what a copy took it from.

    `where` is, for tcgen05.st, (warp, thread, register, byte); for tcgen05.cp, (row, byte of the row); for a TMA transfer, the tensor
    coordinate; for `write_cells`, (element, byte), but what the writer's own `where(place)` says if it has such a method.
    """

    writer: Any
    where: tuple[int, ...]
    source: Owner | None = None

    @property
    def origin(self) -> Owner:
        """The last owner of the chain: for a copy who wrote shared memory, if anybody did."""
        return self if self.source is None else self.source.origin


@dataclasses.dataclass(frozen=True)
class TmemStore:
    """A tcgen05.st: `label` says whose, `first_warp` is the first of its warps."""

    label: str
    access: TmemAccess
    first_warp: int

    def where(self, place: int) -> tuple[int, ...]:
        """(warp, thread, register, byte) of the store's byte `place`."""
        register, byte = divmod(place, 4)
        thread, register = divmod(register, self.access.registers)
        warp, thread = divmod(thread, WARP_LANES)
        return self.first_warp + warp, thread, register, byte


@dataclasses.dataclass(frozen=True)
class TmemMatrix:
    """A whole matrix that tmem_put wrote: its byte `place` belongs to entry `place` of the matrix, row by row."""

    label: str
    columns: int

    def where(self, place: int) -> tuple[int, ...]:
        """(row, column) of the entry; of several in one byte the lowest."""
        return divmod(place, self.columns)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TmemCopy:
    """What one CTA's part of a tcgen05.cp moved.

    `writer` (int64, rows x bytes) and `position` say for every byte it wrote who wrote the shared byte that it, or its lowest bit, came
    from: an index into `writers` (-1: nobody) and the byte's place in that writer's data.
    """

    shape: CopyShape
    src_fmt: str
    taddr: int
    descriptor: int
    cta: int
    grade: Grade
    writer: np.ndarray
    position: np.ndarray
    writers: Sequence[Any]

    def __repr__(self) -> str:
        form = ".".join(filter(None, (self.shape.name, self.shape.multicast, self.src_fmt)))
        return f"<tcgen05.cp.{form} to {self.taddr:#x} through {self.descriptor:#018x}, CTA {self.cta} [{self.grade}]>"

    def where(self, place: int) -> tuple[int, ...]:
        """(row, byte of the row) of the copy's byte `place`."""
        return divmod(place, self.shape.row_bytes)

    def unwritten(self, places: np.ndarray) -> np.ndarray:
        """Which of the copy's bytes `places` came from shared bytes that nobody had written."""
        row, byte = np.divmod(places, self.shape.row_bytes)
        nobody: np.ndarray = self.writer[row, byte] < 0
        return nobody

    def source(self, place: int) -> Owner | None:
        """The owner of the shared byte that the copy's byte `place` came from."""
        row, byte = divmod(place, self.shape.row_bytes)
        number, position = int(self.writer[row, byte]), int(self.position[row, byte])
        if number < 0:
            return None
        writer = self.writers[number]
        if isinstance(writer, Transfer):
            return Owner(writer, tuple(writer.tensor_coordinates(np.array(position)).tolist()))
        return Owner(writer, (position,))


def owner_of(writer: Any, place: int) -> Owner:
    """The owner of byte `place` of the writer's data."""
    where = getattr(writer, "where", None)
    source = writer.source(place) if isinstance(writer, TmemCopy) else None
    return Owner(writer, tuple(where(place)) if callable(where) else divmod(place, 4), source)
