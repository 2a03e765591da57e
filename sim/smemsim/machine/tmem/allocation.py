"""Who has which columns of a CTA's tensor memory: allocations and their rules (PTX ISA 9.7.16.7.1).

What hardware refuses is what the code of ptxas checks (`RULES["tcgen05.alloc"]`): the allocator keeps two bits for every 32 columns, one that says
taken, one that says that an allocation begins there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arguments import whole
from smemsim.errors import InputError
from smemsim.machine.tmem.address import TmemAddress
from smemsim.spec.tensor_memory import ALLOCATION, COLUMNS

__all__ = ["AllocationError", "Columns"]


class AllocationError(InputError):
    """Tensor memory that is allocated, used or given back against its rules."""


class Columns:
    """The 512 columns: `allocations` by their first one, and how many are `lost`. `allocated` (bool, 512) is where they are to be marked."""

    def __init__(self, allocated: np.ndarray | None = None) -> None:
        self.allocations: dict[int, int] = {}  # first column: columns
        self._allocated = np.zeros(COLUMNS, bool) if allocated is None else allocated
        self._largest: int = ALLOCATION.most
        self._cta_group: int | None = None
        self._relinquished = False
        self.lost = 0  # columns that were cut off from their allocation

    def alloc(self, columns: int, *, cta_group: int = 1) -> TmemAddress:
        """`tcgen05.alloc`: the address (lane 0) of so many free columns; `columns` a power of two, 32 to 512.

        The PTX ISA wants no allocation to be larger than the one before (`grows`); nothing checks it, and it gets its columns like any other.
        With `cta_group` 2 the peer's warp takes part and gets the same columns: call it for both memories. Raises InputError where the
        instruction would be illegal, or would block for ever.

        >>> tmem = Columns()
        >>> tmem.alloc(256), tmem.alloc(32) + 8
        (TmemAddress(lane=0, column=0), TmemAddress(lane=0, column=264))
        """
        count, group = self.check_allocation(columns, cta_group=cta_group)
        first = self.free(count)
        if first is None:
            free = int((~self._allocated).sum())
            raise AllocationError(
                f"columns = {count}: {free} of {COLUMNS} are free, no {count} in a row; tcgen05.alloc blocks until another warp or CTA "
                "deallocates some, for ever if nobody does"
            )
        self._cta_group, self._largest = group, count
        self.allocations[first] = count
        self._allocated[first : first + count] = True
        return TmemAddress(0, first)

    def check_allocation(self, columns: int, *, cta_group: int = 1) -> tuple[int, int]:
        """(columns, cta_group) of a legal tcgen05.alloc, whether or not it has to wait."""
        count, group = self._count(columns), self.check_group(cta_group)
        if self._relinquished:
            raise AllocationError(f"alloc of {count} columns: this CTA has executed tcgen05.relinquish_alloc_permit ({ALLOCATION.source})")
        return count, group

    def grows(self, columns: int) -> int:
        """The columns of the allocation before, if so many are more; else 0."""
        return self._largest if columns > self._largest else 0

    def free(self, columns: int) -> int | None:
        """The first column that an allocation of so many would get now; None: it has to wait."""
        for first in range(0, COLUMNS - columns + 1, columns):
            if not self._allocated[first : first + columns].any():
                return first
        return None

    def dealloc(self, taddr: int | TmemAddress, columns: int, *, cta_group: int = 1) -> int:
        """`tcgen05.dealloc`: give the columns of an allocation back, and of those that follow it. Lanes in the address do not count.

        Returns how many columns it has cut off from their allocation, so that nobody can give them back any more: 0 for a kernel that is right.

        >>> tmem = Columns()
        >>> first, second, third = tmem.alloc(128), tmem.alloc(64), tmem.alloc(64)
        >>> tmem.dealloc(first, 128), tmem.dealloc(second, 32), tmem.allocations
        (0, 32, {192: 64})
        """
        address, count = TmemAddress.decode(taddr), whole("columns", columns)
        if not ALLOCATION.unit <= count <= COLUMNS or count % ALLOCATION.unit:
            raise AllocationError(f"columns = {count}: needs a multiple of {ALLOCATION.unit} up to {COLUMNS} ({ALLOCATION.source})")
        self.check_group(cta_group)
        first = address.column // ALLOCATION.unit * ALLOCATION.unit
        end = first + count
        if not self._allocated[first:end].all():
            raise AllocationError(
                f"dealloc of {count} columns at {address.encode():#x}: not all of them are allocated ({ALLOCATION.source})"
            )
        if first not in self.allocations:
            raise AllocationError(f"dealloc of {count} columns at {address.encode():#x}: no allocation begins there ({ALLOCATION.source})")
        last = max(begin for begin in self.allocations if begin < end)
        cut = max(0, last + self.allocations[last] - end)
        for begin in [begin for begin in self.allocations if first <= begin < end]:
            del self.allocations[begin]
        self._allocated[first:end] = False
        self.lost += cut
        return cut

    def relinquish_alloc_permit(self, *, cta_group: int = 1) -> None:
        """`tcgen05.relinquish_alloc_permit`: this CTA allocates no more."""
        self.check_group(cta_group)
        self._relinquished = True

    def _count(self, columns: Any) -> int:
        count = whole("columns", columns)
        if not ALLOCATION.least <= count <= ALLOCATION.most or count & (count - 1):
            raise AllocationError(
                f"columns = {count}: needs a power of two from {ALLOCATION.least} to {ALLOCATION.most} ({ALLOCATION.source})"
            )
        return count

    def check_group(self, cta_group: Any) -> int:
        """The `cta_group` of an instruction; InputError unless it is that of all others on this memory."""
        group = whole("cta_group", cta_group)
        if group not in (1, 2):
            raise InputError(f"cta_group = {group}: there are .cta_group::1 and .cta_group::2")
        if self._cta_group not in (None, group):
            raise AllocationError(
                f"cta_group = {group}: this kernel has used {self._cta_group}; all its tcgen05 instructions must have the same"
            )
        return group
