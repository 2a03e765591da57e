"""Calls: what programs say of managed memory."""

from __future__ import annotations

import struct
from typing import Any

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Node

__all__ = ["ManagedCalls"]


ACCESSED_BY, CPU, NOWHERE = 3, -1, -2  # CUmem_range_attribute, and places as numbers


class ManagedCalls(Handles):
    """Advice and prefetches."""

    def advise(self, address: int, size: int, advice: int, kind: int, number: int) -> None:
        if advice not in range(1, 7) or (advice > 2 and advice != 4 and not 0 < kind <= 4):
            raise CudaError(INVALID_VALUE, f"advice {advice} for location {kind}")
        place = (kind, number - (number >> 31 << 32))
        key = f"is_accessed_by {place if kind == 1 else (2, 0)}"
        said: dict[int, tuple[str, Any]] = {
            1: ("is_read_mostly", True), 2: ("is_read_mostly", False), 3: ("preferred", place), 4: ("preferred", None), 5: (key, True), 6: (key, False),
        }  # fmt: skip
        self.device.advise(address, size, **dict([said[advice]]))

    def prefetch(self, address: int, size: int, kind: int, number: int, stream: int) -> None:
        self.device.advise(address, size, prefetched=(kind, number - (number >> 31 << 32)))
        self.device.submit(self._stream(stream), Node("empty", lambda: None))

    def advised(self, address: int, size: int, number: int, count: int) -> bytes:
        """An attribute of cuMemRangeGetAttribute, as numbers of 4 bytes; `count` have room."""
        keys = {1: "is_read_mostly", 2: "preferred", 4: "prefetched", 5: "preferred", 6: "preferred", 7: "prefetched", 8: "prefetched"}
        if number == ACCESSED_BY:
            places = {(1, 0): 0, (2, 0): CPU}
            found = [n for place, n in places.items() if self.device.advised(address, size, f"is_accessed_by {place}")]
            return struct.pack(f"<{count}i", *[*found, *[NOWHERE] * count][:count])
        if number not in keys:
            raise CudaError(INVALID_VALUE, f"managed memory has no attribute {number}")
        said = self.device.advised(address, size, keys[number])
        if number == 1:
            return struct.pack("<i", bool(said))
        kind, place = said or (0, NOWHERE)
        if number in (2, 4):
            return struct.pack("<i", {0: NOWHERE, 1: place}.get(kind, CPU))
        return struct.pack("<i", kind if number in (5, 7) else place)
