"""Global memory of another moment, with which a launch runs again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from smemsim.core.machine.global_memory import GlobalMemory, Region

__all__ = ["MemoryCopy"]


class MemoryCopy:
    """A copy of all arrays of global memory.

    >>> import numpy as np
    >>> from smemsim import Gpu
    >>> gpu = Gpu("sm_90a")
    >>> a = gpu.array(np.zeros(2, np.uint8))
    >>> before = MemoryCopy(gpu.memory)
    >>> gpu.memory.filled()[0].data[:] = 7
    >>> with before.in_place():
    ...     print(a.numpy())
    [0 0]
    >>> a.numpy()
    array([7, 7], dtype=uint8)
    """

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self.bytes = {region: region.data.copy() for region in memory.filled()}
        self.taint = memory.taint.saved()

    @property
    def regions(self) -> list[Region]:
        """The arrays that are still placed: parameters of launches before are freed while others run."""
        return [region for region in self.bytes if self.memory.holding(region.begin, region.end) is region]

    @property
    def by_address(self) -> dict[int, np.ndarray]:
        """The bytes of the arrays, by the address of each."""
        return {region.begin: data for region, data in self.bytes.items()}

    def put_back(self) -> None:
        """Give the arrays their bytes of then."""
        for region in self.regions:
            region.data[:] = self.bytes[region]
        self.memory.taint.restore(self.taint)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[MemoryCopy]:
        """Give the arrays their bytes of then, and at the end those that they have now; gives the copy of these."""
        now = MemoryCopy(self.memory)
        self.put_back()
        try:
            yield now
        finally:
            now.put_back()
