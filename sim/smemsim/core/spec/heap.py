"""The heap that kernels allocate from: its size, and how much of it an allocation takes."""

from __future__ import annotations

import bisect
from typing import NamedTuple

__all__ = ["HEAP", "HeapSpec"]


class HeapSpec(NamedTuple):
    """Sizes of the heap of `malloc` in kernels. Allocations are counted in units.

    `classes` are the largest bytes of an allocation with its units. A larger one takes blocks of `block`, (bytes,
    units).
    """

    align: int  # bytes; of an address no more is known
    least_bytes: int  # a smaller limit is this one
    classes: tuple[tuple[int, int], ...]
    block: tuple[int, int]
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
        n = bisect.bisect_left(self.classes, (size, 0))
        most_bytes, units = self.block
        return self.classes[n][1] if n < len(self.classes) else -(-size // most_bytes) * units


HEAP = HeapSpec(
    align=16, least_bytes=4 << 20,
    classes=((64, 1), (144, 2), (224, 3), (304, 4), (464, 6), (624, 8), (944, 12), (2192, 24), (4400, 48), (6608, 72), (8816, 96), (13232, 144), (17648, 192),
             (26480, 288), (53260, 576), (106550, 1152), (159830, 1728), (213100, 2304), (319650, 3456), (426240, 4608), (639300, 6912), (1279000, 13824),
             (2557000, 27648), (3836000, 41472), (5114000, 55296), (7671000, 82944), (10228000, 110592)),
    block=(6660, 72), unit_millibytes=92517,
    source="golden/sm_90a/heap: how many allocations of 24 sizes fit; where classes end: H200, driver 580.159.04, looked for by halving (no trace of it is kept): to 16 bytes below 26,480 B, to 150 B above; 464 and 944 and what is above 1,279,000 B inferred",
)  # fmt: skip
