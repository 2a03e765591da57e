"""The heap that kernels allocate from: its size, and how much of it an allocation takes."""

from __future__ import annotations

import dataclasses

__all__ = ["HEAP", "HeapSpec"]


@dataclasses.dataclass(frozen=True)
class HeapSpec:
    """Sizes of the heap of `malloc` in kernels; allocations are counted in units, of which a block has `block_units`.

    `small` are the most bytes of an allocation and the units that it takes; larger ones take whole blocks.
    """

    align: int  # bytes; of an address no more is known
    least_bytes: int  # a smaller limit is this one
    small: tuple[tuple[int, int], ...]
    block_units: int
    block_bytes: int  # that an allocation of whole blocks may have
    unit_millibytes: int  # of the limit, for each unit
    source: str

    def capacity(self, limit: int) -> int:
        """Units of a heap whose limit is `limit` bytes.

        >>> HEAP.capacity(8 << 20) // HEAP.units(1), HEAP.capacity(8 << 20) // HEAP.units(100000)
        (90670, 78)
        """
        return limit * 1000 // self.unit_millibytes

    def units(self, size: int) -> int:
        """Units that an allocation takes.

        >>> [HEAP.units(n) for n in (0, 64, 100, 512, 2048, 5000, 20000)]
        [1, 1, 2, 8, 24, 72, 288]
        """
        for most, units in self.small:
            if size <= most:
                return units
        blocks = -(-size // self.block_bytes)
        step = 1
        while blocks > 16 * step:
            step *= 4
        whole = 1 << (blocks - 1).bit_length() if blocks <= 4 else 16 * step if step == 1 else -(-blocks // (4 * step)) * 4 * step
        return whole * self.block_units


HEAP = HeapSpec(
    align=16, least_bytes=4 << 20, small=((64, 1), (144, 2), (224, 3), (304, 4), (624, 8), (2048, 24), (4096, 48)), block_units=72,
    block_bytes=6640, unit_millibytes=92517,
    source="H100, driver 580.159.04: how many allocations of 30 sizes fit into heaps of 4 and 8 MiB; between these sizes inferred; no trace of it is kept",
)  # fmt: skip
